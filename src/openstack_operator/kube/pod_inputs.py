"""Objects without which no pod of a template can start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..plan import Key, Object

INPUT_KINDS = frozenset({"Secret", "ConfigMap", "ServiceAccount", "PersistentVolumeClaim"})
"""Kinds of such objects."""


def pod_inputs(template: Object) -> frozenset[Key]:
    """Return kind and name of the Secrets, ConfigMaps and claims that pods of a template mount or read, and of their
    ServiceAccount.
    """
    return frozenset(_inputs(template.get("spec") or {}))


def _inputs(spec: Object) -> Iterator[Key]:
    if account := spec.get("serviceAccountName"):
        yield "ServiceAccount", account
    for each in spec.get("imagePullSecrets") or ():
        yield "Secret", each["name"]
    for volume in spec.get("volumes") or ():
        yield from _of_volume(volume)
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for each in container.get("envFrom") or ():
            yield from _referenced(each, "secretRef", "configMapRef")
        for each in container.get("env") or ():
            yield from _referenced(each.get("valueFrom") or {}, "secretKeyRef", "configMapKeyRef")


def _of_volume(volume: Object) -> Iterator[Key]:
    if claim := volume.get("persistentVolumeClaim"):
        yield "PersistentVolumeClaim", claim["claimName"]
    if secret := volume.get("secret"):
        yield "Secret", secret["secretName"]
    if config := volume.get("configMap"):
        yield "ConfigMap", config["name"]
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield from _referenced(source, "secret", "configMap")


def _referenced(source: dict[str, Any], secret: str, config_map: str) -> Iterator[Key]:
    for field, kind in ((secret, "Secret"), (config_map, "ConfigMap")):
        if name := (source.get(field) or {}).get("name"):
            yield kind, name
