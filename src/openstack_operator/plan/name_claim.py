"""A name on a server that one resource has for itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class NameClaim(NamedTuple):
    """One name on one server. Resources whose claims have an equal `key` want the same."""

    field: str
    """Of the spec, that says the name: `spec.database`."""
    subject: str
    """As in `schema 'nova'`."""
    key: tuple[str, ...]
    """Kind and name of the resource that is the server, and the name as that server compares names."""


NameClaims = Callable[[Mapping[str, Any]], Sequence[NameClaim]]
"""The claims of a spec as the API server has it: a spec that is refused by now has them, too."""
