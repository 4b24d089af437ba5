"""The cloud of this folder: the minimal one that runs, or a new one. It stays, as `make cloud` leaves it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.cloud.session import MINIMAL, Cloud, Session
from tools.localcluster.target import target

from ..conftest import Report, stays
from .observe import Seconds


@pytest.fixture(scope="package")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The minimal cloud, Ready."""
    if target().kind == "existing":
        pytest.skip("quotas and policies of a cluster of your own are not touched")
    with stays(MINIMAL) as found:
        yield found


@pytest.fixture(scope="package")
def table(report: Report) -> Iterator[dict[str, Seconds]]:
    """Seconds by cause, printed at the end."""
    found: dict[str, Seconds] = {}
    yield found
    report.add(reasons={name: seconds.as_dict() for name, seconds in found.items()})
    print(f"\n{'cause':32} {'reason':22} {'service':>8} {'plane':>8} {'event':>8} {'stalled':>8}")
    for name, each in found.items():
        print(f"{name:32} {each.reason:22} {each.row()}")
