"""Pods that keep their name and so their volume: members of a database, a broker, a cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import kube
from ..api import PodSettings, UsesVolume
from ..plan import Context, Object, Step
from .names import title

_VOLUME = "data"

POD_NAME = {"POD_NAME": {"fieldRef": {"fieldPath": "metadata.name"}}}
"""Environment of a member that needs to know its name; other variables may say `$(POD_NAME)` after it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Members(Step):
    """Pods with a stable name each."""

    hosts: Sequence[str]
    """Host name of each member, in order."""


def volume(path: str, folder: str) -> kube.Mount:
    """Mount of a member's own volume. It is a folder of the volume, since a new file system has a lost+found."""
    return kube.Mount(name=_VOLUME, path=path, volume={}, sub_path=folder)


def hosts(ctx: Context[Any], component: str, service: str, replicas: int) -> tuple[str, ...]:
    """Host names of the members of a StatefulSet behind the headless Service of that name."""
    name = kube.fitting(ctx.name(component), kube.STATEFUL_SET_LIMIT)
    return tuple(f"{name}-{ordinal}.{ctx.host(kube.fitting(service))}" for ordinal in range(replicas))


def members(
    ctx: Context[Any],
    component: str,
    template: Object,
    *,
    service: str,
    ports: Mapping[str, int],
    replicas: int,
    storage: UsesVolume | None = None,
    settings: PodSettings | None = None,
    condition: str = "",
    path: str = "spec",
    after: Sequence[Step] = (),
) -> Members:
    """StatefulSet `<owner>-<component>` behind the headless Service `service`; a drain evicts one of its pods at a
    time, and they run on different nodes if enough are available. `storage` is for a template that mounts a `volume`,
    `settings` replaces the spec's, `path` is the field of either.
    """
    target = kube.selector(ctx, component)
    stateful_set = kube.workload(
        ctx,
        "StatefulSet",
        component,
        kube.placed(template, settings or kube.settings(ctx.spec), target, several=replicas > 1, replaceable=False),
        replicas=replicas,
        serviceName=kube.fitting(service),
        # Members that wait for one another must all be started; and starting them one by one only takes longer.
        podManagementPolicy="Parallel",
        **(_claims(storage) if storage else {}),
    )
    return Members(
        name=condition or title(component),
        objects=(
            kube.service(ctx, service, ports, target, headless=True),
            stateful_set,
            kube.disruption_budget(ctx, ctx.name(component), target),
            *(_grown(ctx, stateful_set, storage, path) if storage else ()),
        ),
        after=tuple(after),
        hosts=hosts(ctx, component, service, replicas),
    )


def _claim(storage: UsesVolume) -> Object:
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage.storage_class_name,
        "resources": {"requests": {"storage": storage.storage_size}},
    }


def _claims(storage: UsesVolume) -> Object:
    """One volume a member. The volume of a removed member stays, since the member may return."""
    return {
        "volumeClaimTemplates": [{"metadata": {"name": _VOLUME}, "spec": _claim(storage)}],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": storage.retention, "whenScaled": "Retain"},
    }


def _grown(ctx: Context[Any], stateful_set: Object, storage: UsesVolume, path: str) -> Sequence[Object]:
    """The members' claims, if they are to be larger than Kubernetes made them: a StatefulSet never changes its claims.
    They are marked as retained, since they belong to the StatefulSet and must not be deleted once they have their size.
    """
    live = ctx.children.get(("StatefulSet", stateful_set["metadata"]["name"]))
    if live is None:
        return ()
    claimed_size = live["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"]
    if claimed_size == storage.storage_size:
        return ()
    names = (
        f"{_VOLUME}-{stateful_set['metadata']['name']}-{ordinal}" for ordinal in range(stateful_set["spec"]["replicas"])
    )
    claims = [kube.obj(ctx, "PersistentVolumeClaim", name, spec=_claim(storage)) for name in names]
    return [kube.retained(kube.annotated(claim, {kube.FIELD: f"{path}.storageSize"})) for claim in claims]
