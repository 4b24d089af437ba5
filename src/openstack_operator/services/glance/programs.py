"""Programs in the pods of a Glance."""

from __future__ import annotations

from collections.abc import Mapping

from .model import GlanceSpec


def programs(spec: GlanceSpec) -> Mapping[str, str]:
    """Return components of a release, each with the field that replaces its image. The container that cleans up the
    cache has the release's.
    """
    return {"glance-api": "" if spec.image_cache.enabled else "image"}
