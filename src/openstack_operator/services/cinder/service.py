"""Cinder: a schema, an API and a scheduler; then backends, each with its volume type, backups, and the purge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import kube, oslo, parts
from ...api import KEYSTONE, CephStorageRef, Ref, references
from ...plan import Context, Group, Plan, SpecError, Step, Verdict, progressing
from . import config, volume
from .backend_model import Backend
from .backup import backup
from .leaving import leaving, seen
from .model import CinderSpec

CAPACITIES = ("availableCapacity", "allocatedCapacity", "totalCapacity")
"""What a CinderBackend tells of the size of things, as quantities."""

Tell = Callable[[Context[CinderSpec], Backend], dict[str, Any]]


def status(ctx: Context[CinderSpec], backend: Backend) -> dict[str, Any]:
    """An entry of `status.backends`."""
    found = seen(ctx).get(backend.name, {}).get("status") or {}
    shown = ("status", *CAPACITIES, "volumes")
    return {"name": backend.name, **{name: found[name] for name in shown if name in found}}


def plan(ctx: Context[CinderSpec], tell: Tell = status) -> Plan:
    """Everything a Cinder is made of; published: internalURL, publicURL, attaches (what its volumes need of nodes), and
    for libvirt cephKeys (`uuid=Secret` of each user of Ceph that has volumes), with these Secrets. `tell` makes an
    entry of `status.backends`.
    """
    spec = ctx.spec
    _check(spec)
    base = parts.foundation(ctx)
    common = config.shared(ctx, base)
    conf = parts.config(ctx, config.FILE, oslo.merge(common, config.control(ctx)), more=config.POLICY)
    sync = parts.job(ctx, "db-sync", ["cinder-manage", "db", "sync"], conf, after=base.schema, condition="Schema")
    glance = parts.requires(ctx, "Glance", spec.glance_ref)
    running = (*base.steps, glance, sync)
    # It was tried with one thread a process, as Nova's are, and with no more.
    api = parts.api(
        ctx,
        "api",
        8776,
        conf,
        settings=spec.api,
        after=running,
        memory="176Mi",
        workers=parts.Workers(processes=4, threads=1),
    )
    scheduler = parts.worker(
        ctx, "scheduler", conf, settings=spec.scheduler, after=running, ready=base.connected, stable=True
    )
    sudo = volume.rootless(ctx)
    clients = [_client(ctx, backend) for backend in spec.backends]
    backends = [
        volume.built(ctx, backend, common, ceph, sudo, ready=base.connected, after=running)
        for backend, ceph in zip(spec.backends, clients, strict=True)
    ]
    # Clients look for either name; every endpoint has the project in it, as many of them expect.
    entries = [
        parts.catalog(ctx, type_, "Block Storage", api, path="/v3/%(project_id)s", name=name, after=(*base.steps, api))
        for type_, name in (("volumev3", "catalog"), ("block-storage", "catalog-official"))
    ]
    told = [] if spec.keystone.auth_url else backends
    looked = [_looked_at(ctx, each, after=(api, scheduler, each.pods)) for each in told]
    types = [*(_volume_type(ctx, each.backend, after=(api,)) for each in told), *_by_others(spec)]
    return Plan(
        *parts.policies(ctx, on_nodes=_on_nodes(spec, backends)),
        *base.steps,
        glance,
        conf,
        sync,
        sudo,
        api,
        scheduler,
        *(client for client in clients if client),
        Group("Backends", [step for each in backends for step in each.steps]),
        *entries,
        Group("Backends", [*looked, *leaving(ctx, conf, after=(sync,))]),
        Group("VolumeTypes", types),
        *_quota(ctx, after=(api,)),
        *backup(ctx, common, backends, sudo, ready=base.connected, after=running),
        *_purge(ctx, conf, after=(sync,)),
        endpoint=f"{api.public}/v3",
        published={**base.credentials.published, **api.published, **_needed_by_nodes(backends)},
        details={"backends": [tell(ctx, backend) for backend in spec.backends]},
    )


def _check(spec: CinderSpec) -> None:
    """Raises SpecError for what the API server cannot see."""
    if spec.coordination.etcd_ref:
        return
    for index, backend in enumerate(spec.backends):
        if backend.replicas > 1:
            message = "several pods of a backend share locks; name an Etcd in spec.coordination.etcdRef, or use 1"
            raise SpecError(f"spec.backends[{index}].replicas", message)


def _by_others(spec: CinderSpec) -> tuple[Step, ...]:
    """What takes an administrator of Cinder, where Keystone comes without one. Raises SpecError for quotas."""
    if not spec.keystone.auth_url:
        return ()
    if spec.quotas.model_fields_set:
        raise SpecError("spec.quotas", "an administrator sets them, and spec.keystone.authUrl comes without; remove it")
    wanted = [f"{each.type_name} with volume_backend_name={each.name}" for each in spec.backends]
    return (parts.by_others("VolumeTypes", f"the volume types {', '.join(wanted)}"),) if wanted else ()


def _on_nodes(spec: CinderSpec, backends: Sequence[volume.Built]) -> list[Ref]:
    """What is used from the network of nodes: all by programs that attach or offer volumes there, Ceph by guests."""
    attached = any(each.on_node for each in backends)
    return [ref for _, ref in references(spec) if attached or isinstance(ref, CephStorageRef)]


def _client(ctx: Context[CinderSpec], backend: Backend) -> parts.Ceph | None:
    """The client of a backend in Ceph."""
    if backend.ceph is None:
        return None
    path = f"spec.backends[{ctx.spec.backends.index(backend)}].rbd"
    return parts.ceph(ctx, "volumes", backend.ceph, path=path, name=f"ceph-{backend.name}")


def _needed_by_nodes(backends: Sequence[volume.Built]) -> dict[str, str]:
    """What Nova is told."""
    clients = {each.backend.name: each.ceph for each in backends if each.ceph}
    keys = sorted({f"{client.secret_uuid}={client.secret}" for client in clients.values()})
    return {
        "attaches": " ".join(sorted({_attached(each) for each in backends})),
        **({"cephKeys": " ".join(keys)} if keys else {}),
        # The engine brings what is in them to whoever refers to this Cinder.
        **{f"{name}Secret": client.secret for name, client in clients.items()},
    }


def _attached(built: volume.Built) -> str:
    """What a node needs to attach volumes of a backend: ceph, nfs, iscsi, or nothing the operator knows of."""
    return "iscsi" if built.on_node else built.backend.kind


def _keystone(ctx: Context[CinderSpec]) -> dict[str, Any]:
    keystone = ctx.spec.keystone.keystone_ref or KEYSTONE
    return {"cinderRef": {"name": ctx.owner}, "keystoneRef": {"name": keystone.name}}


def _looked_at(ctx: Context[CinderSpec], built: volume.Built, *, after: Sequence[Step]) -> Step:
    """CinderBackend: what Cinder's scheduler says of a backend, which is not up as long as that knows nothing of it."""
    backend = built.backend
    wanted = parts.remote(
        ctx,
        "CinderBackend",
        ctx.name(backend.name),
        {
            **_keystone(ctx),
            "backend": backend.name,
            "hosts": volume.hosts(ctx, backend),
            **({"cluster": ctx.owner} if backend.clustered else {}),
        },
    )
    return Step(name="Backends", objects=(wanted,), after=tuple(after), verdict=_verdict(ctx, backend))


def _verdict(ctx: Context[CinderSpec], backend: Backend) -> Verdict | None:
    found = seen(ctx).get(backend.name, {}).get("status") or {}
    if found.get("status", "Ready") == "Ready":
        return None
    log = f"see the log of {volume.workload(ctx, backend.name)}-0"
    return progressing(f"backend {backend.name} is down: {found.get('message', '')}; {log}")


def _volume_type(ctx: Context[CinderSpec], backend: Backend, *, after: Sequence[Step]) -> Step:
    """CinderVolumeType: what users ask for to get a volume on this backend."""
    wanted = parts.remote(
        ctx,
        "CinderVolumeType",
        ctx.name(backend.name),
        {
            **_keystone(ctx),
            "name": backend.type_name,
            "extraSpecs": {**backend.extra_specs, "volume_backend_name": backend.name},
        },
    )
    return Step(name="VolumeTypes", objects=(wanted,), after=tuple(after))


def _quota(ctx: Context[CinderSpec], *, after: Sequence[Step]) -> tuple[Step, ...]:
    limits = ctx.spec.quotas.model_dump(exclude_none=True)
    if not limits:
        return ()
    wanted = parts.remote(ctx, "CinderQuota", ctx.name("quota"), {**_keystone(ctx), "limits": limits})
    return (Step(name="Quota", objects=(wanted,), after=tuple(after)),)


def _purge(ctx: Context[CinderSpec], conf: parts.Config, *, after: Sequence[Step]) -> tuple[Step, ...]:
    """CronJob `<owner>-purge`."""
    purge = ctx.spec.purge
    if not purge.enabled:
        return ()
    entry = parts.program(ctx, "api")
    main = kube.Container(
        component=entry,
        command=["cinder-manage", "--config-file", f"{config.DIRECTORY}/{config.FILE}", "db", "purge", str(purge.days)],
        mounts=(*conf.mounts, *kube.scratch("/tmp", "/run", parts.state(ctx))),  # noqa: S108
        memory="192Mi",
    )
    template = kube.pod(ctx, "purge", main, wanted=kube.settings(ctx.spec, purge))
    return (Step(name="Purge", objects=(kube.cron_job(ctx, "purge", template, purge.schedule),), after=(conf, *after)),)
