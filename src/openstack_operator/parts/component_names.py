"""Names of components in the release, in conditions and in objects."""

from __future__ import annotations

from typing import Any

from ..plan import Context, ReleaseEntry

_UPPER = {"api": "API", "ovn": "OVN", "nb": "NB", "sb": "SB", "db": "DB"}


def title(component: str) -> str:
    """Return the condition of a component: `api` becomes API, `db-sync` becomes DBSync."""
    return "".join(_UPPER.get(word, word.capitalize()) for word in component.split("-"))


def release_entry(ctx: Context[Any], component: str) -> ReleaseEntry:
    """Return the release's entry for a component of this service: Nova and `api` give `nova-api`."""
    return ctx.release[f"{(ctx.programs or ctx.kind).lower()}-{component}"]
