"""The resources that a user of the command line means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...kube import fitting
from ...plan import Object
from ..kind_index import BY_TYPE, KINDS, KindEntry
from .snapshot import Snapshot

PLANES = frozenset({"OpenStackControlPlane", "ControlPlane"})


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """Options of a command about one service, or one program of it."""

    service: str
    """`KIND` or `KIND/NAME`."""
    program: str = ""
    """Component, label or container of pods; empty stands for all."""
    namespace: str = "openstack"
    context: str | None = None


def kinds_of(resource: str) -> Sequence[KindEntry]:
    """Return the kinds that `KIND` or `KIND/NAME` may mean. Raises LookupError if there is none."""
    kind = resource.partition("/")[0]
    kinds = [each for each in KINDS if kind.lower() in _names(each)]
    if not kinds:
        raise LookupError(f"there is no kind {kind!r}; `kubectl api-resources -o name | grep openstack` lists them")
    return kinds


def chosen(snapshot: Snapshot, resource: str | None, *, whole: bool) -> list[Object]:
    """Return the resources that the user means: those that match `KIND` or `KIND/NAME`; for None the clouds of the
    namespace, or with `whole` all resources of it. Raises LookupError if there is none.
    """
    where = f"in namespace {snapshot.namespace!r}"
    if resource is None:
        planes = [each for each in snapshot.resources if each["kind"] in PLANES]
        resources = list(snapshot.resources) if whole or not planes else planes
        if not resources and snapshot.unreadable:
            raise LookupError(f"you may not list resources of this operator {where}")
        if not resources:
            raise LookupError(f"there is no resource of this operator {where}; name another one with -n")
        return resources
    types = {(each.api_version, each.kind) for each in kinds_of(resource)}
    name = resource.partition("/")[2]
    resources = [
        each
        for each in snapshot.resources
        if (each["apiVersion"], each["kind"]) in types and name in ("", each["metadata"]["name"])
    ]
    if not resources:
        raise LookupError(f"there is no {resource} {where}{', or you may not list it' if snapshot.unreadable else ''}")
    return resources


def labels_of(live: Object) -> tuple[str, str]:
    """Return the values of the labels KIND and INSTANCE of what a resource made."""
    return BY_TYPE[live["apiVersion"], live["kind"]].role.lower(), fitting(live["metadata"]["name"])


def _names(kind: KindEntry) -> set[str]:
    """Return the names of a kind that kubectl takes, without and with its group."""
    short = {kind.kind.lower(), kind.plural, *kind.short_names}
    return short | {f"{name}.{kind.group}" for name in short}
