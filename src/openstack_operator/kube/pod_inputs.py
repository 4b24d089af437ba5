"""Objects without which no pod of a template can start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..plan import Key, Object
from .rollout import conditions

INPUT_KINDS = frozenset({"Secret", "ConfigMap", "ServiceAccount", "PersistentVolumeClaim"})
"""Kinds of such objects."""


def pod_template(workload: Object) -> Object | None:
    """Return the template by which a workload makes pods; None for another object, and for a Job that has ended."""
    spec = workload.get("spec") or {}
    match workload["kind"]:
        case "Deployment" | "StatefulSet" | "DaemonSet":
            return spec.get("template")
        case "CronJob":
            return ((spec.get("jobTemplate") or {}).get("spec") or {}).get("template")
        case "Job":
            ended = {"Complete", "Failed"} & {each["type"] for each in conditions(workload).values() if _is_true(each)}
            return None if ended else spec.get("template")
        case _:
            return None


def _is_true(condition: Object) -> bool:
    return condition.get("status") == "True"


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
