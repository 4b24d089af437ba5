"""Whether an object is as it is wanted, as the API server stores it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..kube.resources import amount

_QUANTITIES = {"requests", "limits"}
"""Fields of resources whose values are quantities; sizeLimit is one itself."""


def covers(wanted: Any, live: Any) -> bool:
    """Whether everything wanted stands in the live value; zero values may be absent, as the API server drops them."""
    if isinstance(wanted, Mapping):
        fields = cast("Mapping[str, Any]", wanted)
        if not isinstance(live, Mapping):
            return not fields and live is None
        held = cast("Mapping[str, Any]", live)
        return all(_covers_field(name, value, held.get(name)) for name, value in fields.items())
    if isinstance(wanted, (list, tuple)):
        return _covers_list(cast("Sequence[Any]", wanted), live)
    return wanted == live or (not wanted and live is None)


def _covers_field(name: str, wanted: Any, live: Any) -> bool:
    if name == "sizeLimit":
        return _equal(wanted, live)
    if name in _QUANTITIES and isinstance(wanted, Mapping) and isinstance(live, Mapping):
        amounts, held = cast("Mapping[str, Any]", wanted), cast("Mapping[str, Any]", live)
        return all(_equal(value, held.get(resource)) for resource, value in amounts.items())
    return covers(wanted, live)


def _equal(wanted: Any, live: Any) -> bool:
    """Whether two quantities are equal: the API server stores 3072Mi as 3Gi, and 1000m as 1."""
    if wanted == live:
        return True
    try:
        return amount(str(wanted)) == amount(str(live))
    except (ValueError, KeyError):
        return False


def _covers_list(wanted: Sequence[Any], live: Any) -> bool:
    if not isinstance(live, list):
        return not wanted and live is None
    held = cast("list[Any]", live)
    if len(wanted) == len(held):
        return all(covers(one, other) for one, other in zip(wanted, held, strict=True))
    # Others may add entries of their own, a finalizer or a sidecar; ours must still be among them.
    return all(any(covers(one, other) for other in held) for one in wanted)
