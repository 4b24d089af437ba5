"""Durations and amounts as people write them: text with a unit, never a number whose unit is in the field's name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Any

from pydantic import AfterValidator, Field

from .model import rule

_DURATION = "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$"
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_QUANTITY = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d{1,3})?\Z")
_UNITS: Mapping[str, Fraction] = {
    **{unit: Fraction(1000) ** power for power, unit in enumerate(("", "k", "M", "G", "T", "P", "E"))},
    **{f"{unit}i": Fraction(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
    **{unit: Fraction(1, 1000**power) for power, unit in enumerate("mun", 1)},
}


def seconds(text: str) -> timedelta:
    """Convert a duration: 90s, 24h, 7d, 1h30m. Raises ValueError for one of millions of years."""
    total = sum(int(count) * _SECONDS[unit] for count, unit in re.findall("(?<![0-9])([0-9]+)([dhms])", text))
    try:
        return timedelta(seconds=total)
    except OverflowError:
        raise ValueError(f"{text} is too long; write a shorter one") from None


@lru_cache(maxsize=1024)
def amount(quantity: str) -> Fraction:
    """Return the number that a quantity of Kubernetes stands for: 500m is a half, 1Ki is 1024. It is exact, since the
    API server stores 0.7 as 700m, and both have to be equal. Raises ValueError for what is none.
    """
    if not (match := _QUANTITY.match(quantity)):
        raise ValueError("not a quantity")
    number, unit = Fraction(match[1] if match[1][-1] != "." else f"{match[1]}0"), match[2] or ""
    return number * (_UNITS[unit] if unit in _UNITS else Fraction(10) ** int(unit[1:]))


def mebibytes(text: str) -> int:
    """Convert an amount of memory to MiB: 512Mi is 512, 1Gi is 1024."""
    return int(amount(text) / 1024**2)


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
    """Return an annotation that bounds a duration."""

    def check(text: str) -> str:
        if not seconds(least) <= seconds(text) <= seconds(most):
            raise ValueError(f"{text} is out of bounds; choose {least} to {most}")
        return text

    return AfterValidator(check)


def memory(least: str, most: str) -> Any:
    """Return the annotation of a text that is an amount of memory within bounds."""
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
    """Return an annotation that bounds an amount of memory that no API server has checked."""

    def check(text: str) -> str:
        if not mebibytes(least) <= mebibytes(text) <= mebibytes(most):
            raise ValueError(f"{text} is out of bounds; choose {least} to {most}")
        return text

    return AfterValidator(check)
