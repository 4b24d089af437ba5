"""Comparison of an object as a plan describes it with the one that the API server stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, cast

from ...api.units import amount

_QUANTITIES = {"requests", "limits"}
"""Fields of resources whose values are quantities; sizeLimit is one itself."""


def covers(desired: Any, live: Any) -> bool:
    """Return whether the live value has all of the desired one; zero values may be absent, as the server drops them."""
    if isinstance(desired, Mapping):
        fields = cast("Mapping[str, Any]", desired)
        if not isinstance(live, Mapping):
            return not fields and live is None
        live_fields = cast("Mapping[str, Any]", live)
        return all(_covers_field(name, value, live_fields.get(name)) for name, value in fields.items())
    if isinstance(desired, (list, tuple)):
        return _covers_list(cast("Sequence[Any]", desired), live)
    return desired == live or (not desired and live is None)


def _covers_field(name: str, desired: Any, live: Any) -> bool:
    if name == "sizeLimit":
        return _equal(desired, live)
    if name in _QUANTITIES and isinstance(desired, Mapping) and isinstance(live, Mapping):
        amounts, live_amounts = cast("Mapping[str, Any]", desired), cast("Mapping[str, Any]", live)
        return all(_equal(value, live_amounts.get(resource)) for resource, value in amounts.items())
    return covers(desired, live)


def _equal(desired: Any, live: Any) -> bool:
    """Return whether two quantities are equal: the API server stores 3072Mi as 3Gi, and 0.7 as 700m. Of resources it
    rounds up what is finer than a thousandth.
    """
    if desired == live:
        return True
    try:
        return ceil(amount(str(desired)) * 1000) == ceil(amount(str(live)) * 1000)
    except ValueError:
        return False


def _covers_list(desired: Sequence[Any], live: Any) -> bool:
    if not isinstance(live, list):
        return not desired and live is None
    entries = cast("list[Any]", live)
    if len(desired) == len(entries):
        return all(covers(item, entry) for item, entry in zip(desired, entries, strict=True))
    # Others may add entries of their own, a finalizer or a sidecar; ours must still be among them.
    return all(any(covers(item, entry) for entry in entries) for item in desired)
