"""The cinder-volume of a backend: what its pod needs of its node differs with the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import kube, oslo, parts
from ...api import Sections
from ...plan import Context, Step
from . import config, group
from .backend_model import Backend
from .model import CinderSpec


@dataclass(frozen=True)
class Built:
    """A backend, with what its pods are made of."""

    backend: Backend
    ceph: parts.Ceph | None
    steps: tuple[Step, ...] = ()

    @property
    def on_node(self) -> bool:
        """Whether its volumes are block devices that a node attaches or offers."""
        return self.backend.kind == "lvm" or self.backend.host_access

    @property
    def as_root(self) -> bool:
        """Whether its programs become root: to mount, or to make devices."""
        return self.on_node or self.backend.kind == "nfs"

    @property
    def pods(self) -> Step:
        """What runs them."""
        return self.steps[-1]


def workload(ctx: Context[Any], backend: str) -> str:
    """Name of the StatefulSet of the backend of that name; its pods are the hosts Cinder lists."""
    return kube.fitting(ctx.name(f"volume-{backend}"), kube.STATEFUL_SET_LIMIT)


def hosts(ctx: Context[Any], backend: Backend) -> list[str]:
    """A backend's services as Cinder lists them."""
    return [f"{workload(ctx, backend.name)}-{ordinal}@{backend.name}" for ordinal in range(backend.replicas)]


def environment() -> dict[str, Any]:
    """Options that differ from pod to pod, as oslo.config reads them from the environment."""
    return {
        "EVENTLET_NO_GREENDNS": "yes",
        "OS_DEFAULT__HOST": {"fieldRef": {"fieldPath": "metadata.name"}},
        "OS_DEFAULT__MY_IP": {"fieldRef": {"fieldPath": "status.podIP"}},
    }


# Cinder has root look at images it has fetched itself. Where a pod may not become root it looks as who it is.
_NOBODY_ELSE = '#!/bin/sh\nexec "$@"\n'


def rootless(ctx: Context[Any]) -> parts.Config:
    """A program in the place of sudo, for pods that may not become root."""
    return parts.written(ctx, {"sudo": _NOBODY_ELSE}, suffix="rootless", directory="/usr/local/bin")


def instead_of_sudo(program: parts.Config) -> kube.Mount:
    """Where it stands in a container: sudo is looked up in PATH."""
    volume = {"secret": {"secretName": program.secret, "defaultMode": 0o555}}
    return kube.Mount(name="sudo", path=f"{program.directory}/sudo", volume=volume, sub_path="sudo", read_only=True)


def built(
    ctx: Context[CinderSpec],
    backend: Backend,
    common: Sections,
    ceph: parts.Ceph | None,
    sudo: parts.Config,
    *,
    ready: kube.Probe,
    after: Sequence[Step],
) -> Built:
    """Configuration and StatefulSet of a backend; `common` is what all programs share."""
    root = Built(backend, ceph).as_root
    options = config.volume(ctx, backend, common if root else oslo.merge(common, config.ROOTLESS), ceph)
    data = {config.FILE: oslo.render(options), **config.files(backend)}
    own = parts.written(ctx, data, suffix=f"{backend.name}-config", directory=config.DIRECTORY)
    conf = parts.on_ceph(own, ceph) if ceph else own
    pods = _pods(ctx, Built(backend, ceph), conf, sudo, ready=ready, after=after)
    return Built(backend, ceph, (own, *((conf,) if ceph else ()), pods))


def _pods(
    ctx: Context[CinderSpec],
    built: Built,
    conf: parts.Config,
    sudo: parts.Config,
    *,
    ready: kube.Probe,
    after: Sequence[Step],
) -> Step:
    backend, lvm = built.backend, built.backend.kind == "lvm"
    main = kube.Container(
        component=parts.program(ctx, "volume"),
        env=environment(),
        mounts=(
            *conf.mounts,
            *(() if built.as_root else (instead_of_sudo(sudo),)),
            *(parts.DEVICES if built.on_node else ()),
            *kube.scratch("/tmp", "/run", parts.state(ctx), large=True),  # noqa: S108
            *(group.mounts(ctx, backend) if lvm else ()),
        ),
        ready=ready,
        memory="256Mi",
        privileged=built.as_root,
    )
    name, several = f"volume-{backend.name}", backend.replicas > 1
    wanted, target = kube.settings(ctx.spec, backend), kube.selector(ctx, name)
    template = kube.pod(
        ctx,
        name,
        main,
        *((parts.iscsid(ctx),) if backend.host_access else ()),
        *(group.beside(ctx, backend) if lvm else ()),
        wanted=wanted,
        init=(group.prepared(ctx, backend, conf),) if lvm else (),
        annotations={kube.CONFIG_DIGEST: conf.digest},
        # It tells the scheduler that it goes, and lets what it copies come to an end where that is near.
        grace=60,
        hostNetwork=built.on_node or None,
        # The configuration is for the group of the program, which is nobody's default in a privileged pod.
        securityContext={"fsGroup": main.component.gid, "fsGroupChangePolicy": "OnRootMismatch"},
    )
    pods = kube.workload(
        ctx,
        "StatefulSet",
        name,
        kube.placed(template, wanted, target, several=several, replaceable=False),
        replicas=backend.replicas,
        serviceName=ctx.name(name),
        podManagementPolicy="Parallel",
    )
    budget = (kube.disruption_budget(ctx, ctx.name(name), target),) if several else ()
    storage = (built.ceph,) if built.ceph else ()
    needed = (conf, *storage, *after) if built.as_root else (conf, *storage, sudo, *after)
    return Step(name=f"Backend {backend.name}", objects=(pods, *budget), after=needed)
