"""Pause of a resource, in an annotation of the resource itself."""

from __future__ import annotations

from collections.abc import Mapping

PAUSE = "openstack.k8s.io/paused"
"""Annotation of a resource that the operator must leave as it is. Its value says why, and may be empty."""

PAUSED = "Paused"
"""Condition of such a resource, and its reason; only there while it is paused."""


def pause_reason(annotations: Mapping[str, str] | None) -> str | None:
    """Return why a resource is paused, perhaps an empty text; None for a resource that is not paused."""
    return (annotations or {}).get(PAUSE)
