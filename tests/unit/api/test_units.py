"""Durations and amounts as people write them."""

from __future__ import annotations

from datetime import timedelta

import pydantic
import pytest

from openstack_operator.api import mebibytes, seconds
from openstack_operator.services.pki.model import PKISpec


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("90s", timedelta(seconds=90)),
        ("1h30m", timedelta(minutes=90)),
        ("24h", timedelta(days=1)),
        ("7d", timedelta(days=7)),
        ("0s", timedelta()),
    ],
)
def test_a_duration(text: str, wanted: timedelta) -> None:
    assert seconds(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"), [("512Mi", 512), ("1Gi", 1024), ("1.5Gi", 1536), ("1G", 953), ("1048576", 1)]
)
def test_an_amount_of_memory(text: str, wanted: int) -> None:
    assert mebibytes(text) == wanted


def test_a_duration_out_of_bounds_names_them() -> None:
    with pytest.raises(pydantic.ValidationError, match="1m is out of bounds; choose 5m to 7300d"):
        PKISpec(certificate_lifetime="1m")


def test_a_duration_no_calendar_has_is_refused_by_its_field() -> None:
    with pytest.raises(pydantic.ValidationError, match=r"(?s)overlap.*99999999999999d is too long"):
        PKISpec(overlap="99999999999999d")
