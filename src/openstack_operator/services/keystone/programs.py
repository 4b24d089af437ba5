"""Programs in the pods of a Keystone."""

from __future__ import annotations

from collections.abc import Mapping

from .model import KeystoneSpec


def programs(spec: KeystoneSpec) -> Mapping[str, str]:
    """Return components of a release, each with the field that replaces its image."""
    federation = {"keystone-federation": ""} if spec.federation.enabled else {}
    return {"keystone-api": "image", "openstackclient": "client.image", **federation}
