"""Cinder: a schema, an API and a scheduler; then backends, each with its volume type, backups, and the purge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import oslo, parts
from ...api import KEYSTONE, CephStorageRef, Ref, references
from ...parts.connect import sources
from ...parts.connect.broker_move import with_moves
from ...parts.connect.ceph import Ceph, ceph_client
from ...parts.connect.key_manager import key_manager_steps
from ...parts.run.purge import purge
from ...plan import AFTER_HOSTS, Context, Group, Plan, SpecError, Step, Verdict, failed, out_of_service
from . import config, volume
from .backend_model import Backend
from .backup import backup
from .model import CinderSpec
from .removed_backends import live_backends, removed_backends

CAPACITIES = ("availableCapacity", "allocatedCapacity", "totalCapacity")
"""Fields of a CinderBackend's status with sizes, as quantities."""

BackendEntry = Callable[[Context[CinderSpec], Backend], dict[str, Any]]
_SERVICE_UUIDS = "Service UUIDs"
"""Check of cinder-status that fails for each volume whose creation failed, or goes on: a user makes one at any time.
The migrations of Queens that it asks for are gone.
"""


def status(ctx: Context[CinderSpec], backend: Backend) -> dict[str, Any]:
    """Return an entry of `status.backends`."""
    observed = live_backends(ctx).get(backend.name, {}).get("status") or {}
    fields = ("status", *CAPACITIES, "volumes")
    return {"name": backend.name, **{name: observed[name] for name in fields if name in observed}}


_SERVICE_TYPE, _OFFICIAL_TYPE = "volumev3", "block-storage"
"""Clients look for either type. Access rules of application credentials name the first one, which Nova looks for, too:
the middleware compares one type.
"""

# Tested with one thread a process, as Nova's are, and with no more.
_API = parts.ProgramSettings(memory="176Mi", workers=parts.Workers(processes=4, threads=1))
# It knows no backend before it has heard of it: a volume asked for before that would have no place.
_SCHEDULER = parts.ProgramSettings(stable=True, copied=True, turn=AFTER_HOSTS)


@with_moves
def plan(ctx: Context[CinderSpec], backend_entry: BackendEntry = status) -> Plan:
    """Return everything that a Cinder consists of; published: internalURL, publicURL, attaches (what its volumes need
    of nodes), and for libvirt cephKeys (`uuid=Secret` of each user of Ceph that has volumes), with these Secrets.
    `backend_entry` makes an entry of `status.backends`.
    """
    spec = ctx.spec
    _check(spec)
    base = parts.foundation(ctx, service_type=_SERVICE_TYPE)
    common = config.shared_options(ctx, base)
    conf = parts.config(
        ctx,
        config.FILE,
        oslo.merge(common, config.control_options(ctx)),
        extra_files=parts.policy_files(ctx, config.POLICIES),
    )
    sync = parts.schema(ctx, ["cinder-manage", "db", "sync"], conf, after=base.schema)
    glance = sources.requires(ctx, "Glance", spec.glance_ref)
    peers = (glance, *key_manager_steps(ctx))
    after_schema = (*base.steps, *peers, sync)
    api = parts.api(ctx, "api", 8776, conf, settings=spec.api, after=after_schema, program=_API)
    scheduler = parts.worker(
        ctx, "scheduler", conf, settings=spec.scheduler, after=after_schema, ready=base.connected, program=_SCHEDULER
    )
    sudo = volume.sudo_stub(ctx)
    clients = [_client(ctx, backend) for backend in spec.backends]
    backends = [
        volume.plan_backend(ctx, backend, common, ceph, sudo, ready=base.connected, after=after_schema)
        for backend, ceph in zip(spec.backends, clients, strict=True)
    ]
    # Every endpoint contains the project, as many clients expect.
    entries = [
        parts.catalog(ctx, type_, "Block Storage", api, path="/v3/%(project_id)s", name=name, after=(*base.steps, api))
        for type_, name in ((_SERVICE_TYPE, "catalog"), (_OFFICIAL_TYPE, "catalog-official"))
    ]
    administered = [] if spec.keystone.auth_url else backends
    checks = [_backend_check(ctx, each, after=(api, scheduler, each.pods)) for each in administered]
    types = [*(_volume_type(ctx, each.backend, after=(api,)) for each in administered), *_manual_volume_types(spec)]
    manage = ["cinder-manage", "--config-file", f"{config.DIRECTORY}/{config.FILE}", "db"]
    return Plan(
        *parts.policies(ctx, on_nodes=_node_network_refs(spec, backends)),
        *base.steps,
        *peers,
        conf,
        sync,
        sudo,
        api,
        scheduler,
        *(client for client in clients if client),
        Group("Backends", [*(step for each in backends for step in each.steps), *_without_backends(spec)]),
        *entries,
        Group("Backends", [*checks, *removed_backends(ctx, conf, after=(sync,))]),
        Group("VolumeTypes", types),
        *_quota(ctx, after=(api,)),
        *backup(ctx, common, backends, sudo, ready=base.connected, after=after_schema),
        *purge(ctx, spec.purge, [*manage, "purge", str(spec.purge.days)], conf, after=(sync,)),
        *parts.completion(ctx, [*manage, "online_data_migrations"], conf, after=checks),
        preflight=parts.preflight(ctx, conf, with_records=True, passed_over=[_SERVICE_UUIDS]),
        endpoint=f"{api.public}/v3",
        published={**base.credentials.published, **api.published, **_node_contract(backends)},
        details={"backends": [backend_entry(ctx, backend) for backend in spec.backends]},
    )


def _check(spec: CinderSpec) -> None:
    """Raise SpecError for mistakes that the API server cannot see."""
    if spec.coordination.etcd_ref:
        return
    for index, backend in enumerate(spec.backends):
        if backend.replicas > 1:
            message = "several pods of a backend need shared locks; set spec.coordination.etcdRef, or use 1"
            raise SpecError(f"spec.backends[{index}].replicas", message)


def _without_backends(spec: CinderSpec) -> tuple[Step, ...]:
    """Return a failure for a Cinder that could create no volume; none for others."""
    text = "spec.backends: empty, so volumes cannot be created; add a backend, or disable Cinder"
    return () if spec.backends else (Step(name="Backends", verdict=failed(text, "NoBackends")),)


def _manual_volume_types(spec: CinderSpec) -> tuple[Step, ...]:
    """Return the step that a user does by hand, if the operator is no administrator. Raise SpecError for quotas."""
    if not spec.keystone.auth_url:
        return ()
    if spec.quotas.model_fields_set:
        raise SpecError(
            "spec.quotas", "setting it needs an administrator, which spec.keystone.authUrl does not give; remove it"
        )
    types = [f"{each.type_name} with volume_backend_name={each.name}" for each in spec.backends]
    return (sources.manual_step("VolumeTypes", f"the volume types {', '.join(types)}"),) if types else ()


def _node_network_refs(spec: CinderSpec, backends: Sequence[volume.BackendPlan]) -> list[Ref]:
    """Return the references used from the nodes' network: all by programs that use nodes' devices, Ceph by guests."""
    uses_devices = any(each.uses_node_devices for each in backends)
    return [ref for _, ref in references(spec) if uses_devices or ref.kind == CephStorageRef.kind]


def _client(ctx: Context[CinderSpec], backend: Backend) -> Ceph | None:
    """Return the client of a backend in Ceph."""
    if backend.ceph is None:
        return None
    path = f"spec.backends[{ctx.spec.backends.index(backend)}].rbd"
    return ceph_client(ctx, "volumes", backend.ceph, path=path, name=f"ceph-{backend.name}")


def _node_contract(backends: Sequence[volume.BackendPlan]) -> dict[str, str]:
    """Return the part of the contract for Nova."""
    clients = {each.backend.name: each.ceph for each in backends if each.ceph}
    keys = sorted({f"{client.secret_uuid}={client.secret}" for client in clients.values()})
    shares = sorted({share for each in backends for share in (each.backend.nfs.shares if each.backend.nfs else ())})
    return {
        "attaches": " ".join(sorted({_attachment(each) for each in backends})),
        **({"nfsShares": " ".join(shares)} if shares else {}),
        **({"cephKeys": " ".join(keys)} if keys else {}),
        # The engine passes the contents of these Secrets to resources that refer to this Cinder.
        **{f"{name}Secret": client.secret for name, client in clients.items()},
    }


def _attachment(plan: volume.BackendPlan) -> str:
    """Return what a node needs to attach volumes of a backend: ceph, nfs, iscsi, or empty for nothing known. A driver
    of the user's own may have other devices than those of iSCSI.
    """
    if plan.backend.host_access and plan.backend.kind != "lvm":
        return "iscsi devices"
    return "iscsi" if plan.uses_node_devices else plan.backend.kind


def _keystone(ctx: Context[CinderSpec]) -> dict[str, Any]:
    keystone = ctx.spec.keystone.keystone_ref or KEYSTONE
    return {"cinderRef": {"name": ctx.owner}, "keystoneRef": {"name": keystone.name}}


def _backend_check(ctx: Context[CinderSpec], plan: volume.BackendPlan, *, after: Sequence[Step]) -> Step:
    """Return the CinderBackend, with the scheduler's state of a backend; a backend it does not know is not up."""
    backend = plan.backend
    resource = parts.remote(
        ctx,
        "CinderBackend",
        ctx.name(backend.name),
        {
            **_keystone(ctx),
            "backend": backend.name,
            "hosts": volume.hosts(ctx, backend),
            **({"cluster": ctx.owner} if backend.is_clustered else {}),
        },
    )
    return Step(name="Backends", objects=(resource,), after=tuple(after), verdict=_verdict(ctx, backend))


def _verdict(ctx: Context[CinderSpec], backend: Backend) -> Verdict | None:
    observed = live_backends(ctx).get(backend.name, {}).get("status") or {}
    if observed.get("status", "Ready") == "Ready":
        return None
    log = f"see the log of {volume.workload(ctx, backend.name)}-0"
    return out_of_service(f"backend {backend.name} is down: {observed.get('message', '')}; {log}")


def _volume_type(ctx: Context[CinderSpec], backend: Backend, *, after: Sequence[Step]) -> Step:
    """Return the CinderVolumeType, which users choose to get a volume on this backend."""
    resource = parts.remote(
        ctx,
        "CinderVolumeType",
        ctx.name(backend.name),
        {
            **_keystone(ctx),
            "name": backend.type_name,
            "extraSpecs": {**backend.extra_specs, "volume_backend_name": backend.name},
        },
    )
    return Step(name="VolumeTypes", objects=(resource,), after=tuple(after))


def _quota(ctx: Context[CinderSpec], *, after: Sequence[Step]) -> tuple[Step, ...]:
    limits = ctx.spec.quotas.model_dump(exclude_none=True)
    if not limits:
        return ()
    resource = parts.remote(ctx, "CinderQuota", ctx.name("quota"), {**_keystone(ctx), "limits": limits})
    return (Step(name="Quota", objects=(resource,), after=tuple(after)),)
