"""The cinder-volume of a backend: its pod's needs of the node depend on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import agents, kube, oslo, parts
from ...api import Sections
from ...parts.connect.ceph import Ceph, on_ceph
from ...parts.run.devices import DEVICES, iscsid
from ...plan import HOSTS, Context, Step
from . import config, group
from .backend_model import Backend
from .model import CinderSpec


@dataclass(frozen=True)
class BackendPlan:
    """A backend, with the steps for its pods."""

    backend: Backend
    ceph: Ceph | None
    steps: tuple[Step, ...] = ()

    @property
    def uses_node_devices(self) -> bool:
        """True if its volumes are block devices that a node attaches or offers."""
        return self.backend.kind == "lvm" or self.backend.host_access

    @property
    def needs_root(self) -> bool:
        """True if its programs become root: to mount, or to make devices."""
        return self.uses_node_devices or self.backend.kind == "nfs"

    @property
    def pods(self) -> Step:
        """Step with the StatefulSet."""
        return self.steps[-1]


def workload(ctx: Context[Any], backend: str) -> str:
    """Return the name of a backend's StatefulSet; its pods are the hosts that Cinder lists."""
    return kube.fitting(ctx.name(f"volume-{backend}"), kube.STATEFUL_SET_LIMIT)


def hosts(ctx: Context[Any], backend: Backend) -> list[str]:
    """Return the services of a backend as Cinder lists them."""
    return [f"{workload(ctx, backend.name)}-{ordinal}@{backend.name}" for ordinal in range(backend.replicas)]


def environment() -> dict[str, Any]:
    """Return the options that differ from pod to pod, as oslo.config reads them from the environment."""
    return {
        "EVENTLET_NO_GREENDNS": "yes",
        "OS_DEFAULT__HOST": {"fieldRef": {"fieldPath": "metadata.name"}},
        "OS_DEFAULT__MY_IP": {"fieldRef": {"fieldPath": "status.podIP"}},
    }


def sudo_stub(ctx: Context[Any]) -> parts.Config:
    """Return a program in place of sudo, for pods that may not become root."""
    return parts.written(ctx, {"sudo": agents.text("cinder/sudo.sh")}, suffix="rootless", directory="/usr/local/bin")


def sudo_mount(program: parts.Config) -> kube.Mount:
    """Return its mount in a container: Cinder looks up sudo in PATH."""
    volume = {"secret": {"secretName": program.secret, "defaultMode": 0o555}}
    return kube.Mount(name="sudo", path=f"{program.directory}/sudo", volume=volume, sub_path="sudo", read_only=True)


def plan_backend(
    ctx: Context[CinderSpec],
    backend: Backend,
    common: Sections,
    ceph: Ceph | None,
    sudo: parts.Config,
    *,
    ready: kube.Probe,
    after: Sequence[Step],
) -> BackendPlan:
    """Return the configuration and StatefulSet of a backend; all programs share `common`."""
    root = BackendPlan(backend, ceph).needs_root
    options = config.volume_options(ctx, backend, common if root else oslo.merge(common, config.ROOTLESS), ceph)
    data = {config.FILE: oslo.render(options), **config.files(backend)}
    base_conf = parts.written(ctx, data, suffix=f"{backend.name}-config", directory=config.DIRECTORY)
    conf = on_ceph(base_conf, ceph) if ceph else base_conf
    pods = _pods(ctx, BackendPlan(backend, ceph), conf, sudo, ready=ready, after=after)
    return BackendPlan(backend, ceph, (base_conf, *((conf,) if ceph else ()), pods))


def _pods(
    ctx: Context[CinderSpec],
    plan: BackendPlan,
    conf: parts.Config,
    sudo: parts.Config,
    *,
    ready: kube.Probe,
    after: Sequence[Step],
) -> Step:
    backend, lvm = plan.backend, plan.backend.kind == "lvm"
    main = kube.Container(
        entry=parts.release_entry(ctx, "volume"),
        env=environment(),
        mounts=(
            *conf.mounts,
            *(() if plan.needs_root else (sudo_mount(sudo),)),
            *(DEVICES if plan.uses_node_devices else ()),
            *kube.scratch("/tmp", "/run", parts.state(ctx), large=True),  # noqa: S108
            *(group.mounts(ctx, backend) if lvm else ()),
        ),
        ready=ready,
        memory="256Mi",
        privileged=plan.needs_root,
    )
    name, several = f"volume-{backend.name}", backend.replicas > 1
    settings, target = kube.settings(ctx.spec, backend), kube.selector(ctx, name)
    template = kube.pod(
        ctx,
        name,
        main,
        *((iscsid(ctx),) if backend.host_access else ()),
        *(group.sidecars(ctx, backend) if lvm else ()),
        settings=settings,
        init=(group.init_container(ctx, backend, conf),) if lvm else (),
        annotations={kube.CONFIG_DIGEST: conf.digest},
        # It tells the scheduler that it stops, and finishes copies that end soon.
        grace=60,
        hostNetwork=plan.uses_node_devices or None,
        # The configuration is readable for the program's group, which a privileged pod does not have by default.
        securityContext={"fsGroup": main.entry.gid, "fsGroupChangePolicy": "OnRootMismatch"},
    )
    pods = kube.workload(
        ctx,
        "StatefulSet",
        name,
        kube.placed(template, settings, target, several=several, replaceable=False),
        replicas=backend.replicas,
        serviceName=ctx.name(name),
        podManagementPolicy="Parallel",
    )
    budget = (kube.disruption_budget(ctx, ctx.name(name), target),) if several else ()
    storage = (plan.ceph,) if plan.ceph else ()
    dependencies = (conf, *storage, *after) if plan.needs_root else (conf, *storage, sudo, *after)
    return Step(name=f"Backend {backend.name}", objects=(pods, *budget), after=dependencies, turn=HOSTS)
