"""Programs in the pods of a Valkey."""

from __future__ import annotations

from collections.abc import Mapping

from .model import ValkeySpec


def programs(spec: ValkeySpec) -> Mapping[str, str]:
    """Return components of a release, each with the field that replaces its image."""
    sentinel = {"valkey-sentinel": ""} if spec.sentinel.enabled else {}
    return {"valkey": "image", **sentinel, "valkey-exporter": ""}
