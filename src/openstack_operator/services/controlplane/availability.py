"""Numbers of pods in a cloud with three MariaDB members, for fields that its user leaves unset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from pydantic.alias_generators import to_snake

from ... import kube
from ...api import Template
from ...plan import SINGLE_COPY, Context, Object, Verdict, single_copy_verdict
from ..cloud_services import CLOUD_SERVICES, template_of
from .model import ControlPlaneSpec

_SCALABLE = {template_of(each).field for each in CLOUD_SERVICES if each.resource.scale}


def is_highly_available(spec: ControlPlaneSpec) -> bool:
    """Return True if the cloud is to survive the loss of any node: it has three MariaDB members or more."""
    mariadb = spec.mariadb
    return mariadb.enabled and mariadb.provider != "external" and mariadb.replicas > 1


def default_counts(
    spec: ControlPlaneSpec, field: str, template: Template, common: Mapping[str, Any], live: Object | None
) -> dict[str, Any]:
    """Return the fields with numbers of pods that a service of a highly available cloud gets unless its user sets them;
    `common` are the settings of the cloud for it. A service that exists keeps what cannot be undone.
    """
    if not is_highly_available(spec) or getattr(template, "provider", "") == "external":
        return {}
    of_cloud = {to_snake(name): value for name, value in common.items() if isinstance(value, str)}
    unset = {name: value for name, value in of_cloud.items() if name not in template.model_fields_set}
    existing: Mapping[str, Any] | None = live["spec"] if live else None
    counts = template.model_copy(update=unset).default_counts(existing)
    if existing and "replicas" in counts and field in _SCALABLE:
        # `kubectl scale` and an autoscaler write it, too.
        counts["replicas"] = max(counts["replicas"], existing.get("replicas", 1))
    return counts


def with_defaults(spec: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec with the fields that it does not set, at every depth."""
    merged = dict(spec)
    for name, default in defaults.items():
        value = merged.setdefault(name, default)
        if isinstance(default, dict) and isinstance(value, dict):
            merged[name] = with_defaults(cast("dict[str, Any]", value), cast("dict[str, Any]", default))
    return merged


def single_copies(ctx: Context[ControlPlaneSpec], path: Callable[[str], str]) -> Mapping[str, Verdict]:
    """Return the condition with what exists once, as the resources of a highly available cloud report it; in another
    cloud with the MariaDB, if a server beside it has several members, which are of no use without it. `path` returns
    the path of a field as users write it.
    """
    if not is_highly_available(ctx.spec):
        return single_copy_verdict(_single_database(ctx.spec, path))
    reports = [kube.conditions(child).get(SINGLE_COPY) for child in ctx.children.values()]
    return single_copy_verdict(*(report["message"] for report in reports if report))


def _single_database(spec: ControlPlaneSpec, path: Callable[[str], str]) -> str:
    """Return the message about a MariaDB with one member beside servers with several; empty without such servers."""
    mariadb, ovn = spec.mariadb, spec.ovn
    counts = {
        "rabbitmq": spec.rabbitmq.replicas if spec.rabbitmq.provider != "external" else 1,
        "ovn": max(ovn.members("nb"), ovn.members("sb")),
        "etcd": spec.etcd.replicas,
    }
    several = [path(f"spec.{name}") for name, count in counts.items() if count > 1 and getattr(spec, name).enabled]
    if not several or not mariadb.enabled or mariadb.provider == "external":
        return ""
    return (
        f"MariaDB/mariadb (1 replica; {', '.join(several)} with several members cannot keep the cloud running without "
        f"it: set {path('spec.mariadb.replicas')} to 3, or keep one member of each)"
    )
