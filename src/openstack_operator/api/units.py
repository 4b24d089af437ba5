"""Durations and amounts as people write them: text with a unit, never a number whose unit is in the field's name."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from pydantic import AfterValidator, Field

from .model import rule

_DURATION = "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$"
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_UNITS = {
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTP", 1)},
    **{letter: 1000**power for power, letter in enumerate("kMGTP", 1)},
    "": 1,
}


def seconds(text: str) -> timedelta:
    """Convert a duration: 90s, 24h, 7d, 1h30m. Raises ValueError for one of millions of years."""
    total = sum(int(count) * _SECONDS[unit] for count, unit in re.findall("(?<![0-9])([0-9]+)([dhms])", text))
    try:
        return timedelta(seconds=total)
    except OverflowError:
        raise ValueError(f"{text} is out of bounds; no calendar goes that far") from None


def mebibytes(text: str) -> int:
    """Convert an amount of memory to MiB: 512Mi is 512, 1Gi is 1024."""
    digits = text.rstrip("ikKMGTP")
    return int(float(digits) * _UNITS[text[len(digits) :]] / 1024**2)


DURATION: Any = Field(
    min_length=2,
    max_length=32,
    json_schema_extra={
        "x-kubernetes-validations": [
            rule(f"self.matches('{_DURATION}')", "not a duration; write one such as 90s, 24h or 7d")
        ]
    },
)
"""Annotation of a text that is a duration."""


def lasts(least: str, most: str) -> AfterValidator:
    """Annotation that bounds a duration."""

    def check(text: str) -> str:
        if not seconds(least) <= seconds(text) <= seconds(most):
            raise ValueError(f"{text} is out of bounds; choose {least} to {most}")
        return text

    return AfterValidator(check)


def memory(least: str, most: str) -> Any:
    """Annotation of a text that is an amount of memory within bounds."""
    within = f"quantity(self).compareTo(quantity('{least}')) >= 0 && quantity(self).compareTo(quantity('{most}')) <= 0"
    return Field(
        max_length=32,
        pattern=r"^[0-9]+(\.[0-9]+)?([KMGT]i|[kMGT])?$",
        json_schema_extra={
            "x-kubernetes-validations": [
                rule(f"!isQuantity(self) || ({within})", f"out of bounds; choose {least} to {most}")
            ]
        },
    )


def holds(least: str, most: str) -> AfterValidator:
    """Annotation that bounds an amount of memory that no API server has checked."""

    def check(text: str) -> str:
        if not mebibytes(least) <= mebibytes(text) <= mebibytes(most):
            raise ValueError(f"{text} is out of bounds; choose {least} to {most}")
        return text

    return AfterValidator(check)
