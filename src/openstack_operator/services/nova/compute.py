"""Programs of compute nodes: libvirt, nova-compute, and the job that discovers new nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ... import agents, kube, oslo, parts
from ...api import CephStorageRef, PodSettings, Ref, Sections, references
from ...parts.connect import sources
from ...parts.connect.ceph import on_ceph
from ...parts.run.node_networks import network_env, with_addresses
from ...plan import HOSTS, Context, Group, State, Step, Verdict
from . import compute_drain, config, groups, jobs, volumes
from .cells import COMPUTE_PASSWORD, CellInputs, CellNodes, CellPlan
from .ceph import Disks, plan_disks
from .consoles import Consoles
from .exporter import libvirt_exporter
from .migration import LIBVIRT, PORT, Migration
from .model import NovaSpec

CELL_LABEL = "openstack-cell"
NOVA_COMPUTE = "NovaCompute"
"""Name of the step with nova-compute of a cell."""
_CONF = "nova.conf"
_NODES = "spec.compute.nodeSelector"
_NO_NODE = (
    "no node runs nova-compute; label one (openstack-compute-node=enabled, or the labels"
    " of compute.nodeSelector), and check its taints: docs/how-to/add-compute-nodes.md"
)
_ROLES = "reader", "service"
"""Roles of the user that every node knows: enough for Placement, Neutron and Cinder, and nothing of Keystone."""


@dataclass(frozen=True, kw_only=True)
class NodeInputs:
    """Values that the programs of all compute nodes share."""

    identity: sources.Identity
    notifications: sources.Messaging | None
    dependencies: tuple[Step, ...]
    """Steps that must be ready before nodes take servers."""
    consoles: Consoles
    migration: Migration


def node_user(ctx: Context[NovaSpec], credentials: parts.Credentials) -> sources.Identity:
    """Return the user of compute nodes."""
    return sources.identity(ctx, credentials, COMPUTE_PASSWORD, program="compute", roles=_ROLES)


def plan_compute(
    ctx: Context[NovaSpec],
    cells: list[CellPlan],
    inputs: CellInputs,
    user: sources.Identity | None,
    migration: Migration,
) -> Group:
    """Plan the compute nodes of all cells, and a job per number of nodes that ends when all of them are discovered."""
    if user is None or not ctx.spec.compute.enabled:
        return Group("Compute", (user,) if user else ())
    node_inputs = NodeInputs(
        identity=user,
        notifications=inputs.notifications,
        dependencies=(*inputs.dependencies, *inputs.peers, user),
        consoles=inputs.consoles,
        migration=migration,
    )
    programs, daemons = node_programs(ctx, [cell.nodes for cell in cells], node_inputs)
    rollouts = [each for cell in cells for each in groups.rollouts(ctx, cell.name)]
    nodes = sum(each.desired for each in rollouts)
    discovery = [jobs.hosts(ctx, inputs.config, nodes, after=tuple(daemons))] if nodes else []
    # A cloud may begin without compute nodes, so that this is no failure.
    has_none = (
        not nodes and all(each.is_observed for each in rollouts) and not any(c.has_remote_nodes for c in ctx.spec.cells)
    )
    note = [Step(name="Compute", verdict=Verdict(State.READY, _NO_NODE))] if has_none else []
    return Group("Compute", (user, *programs, *daemons, *discovery, *note))


def node_programs(
    ctx: Context[NovaSpec], cells: Sequence[CellNodes], inputs: NodeInputs
) -> tuple[list[Step], list[Step]]:
    """Return the steps of libvirt on all nodes, and those of nova-compute in each cell."""
    disks = plan_disks(ctx)
    options = oslo.merge(disks.options, inputs.migration.options)
    groups.check(ctx, [cell.name for cell in cells])
    node_groups = groups.node_groups(ctx)
    daemons = [
        step
        for cell in cells
        for each in node_groups
        for step in _nova_compute(ctx, cell, each, inputs, disks, options)
    ]
    libvirt = _libvirt(ctx, disks, inputs.migration, inputs.consoles)
    programs = [*disks.steps, *inputs.migration.steps, libvirt, *libvirt_exporter(ctx), *groups.remarks(ctx)]
    return programs, daemons


def node_network_refs(spec: NovaSpec) -> list[Ref]:
    """Return the references that compute nodes use: no database, no cache."""
    if not spec.compute.enabled:
        return []
    brokers = [ref for cell in spec.cells for _, ref in references(cell.messaging or spec.messaging)]
    optional = (spec.messaging.notifications_ref, spec.cinder_ref, spec.barbican_ref)
    apis = (*(ref for _, ref in references(spec.keystone)), spec.placement_ref, spec.glance_ref, spec.neutron_ref)
    disks = [ref for _, ref in references(spec) if ref.kind == CephStorageRef.kind]
    return [*brokers, *(ref for ref in optional if ref), *apis, *disks]


def ingress_rules(ctx: Context[NovaSpec]) -> list[parts.IngressRule]:
    """Return the ports for programs on the network of nodes: metadata for Neutron's agents, and the API for a Cinder
    whose programs run there.
    """
    cinder = [parts.IngressRule("api", [8774], "nodes")] if volumes.has_cinder_on_nodes(ctx) else []
    return [parts.IngressRule("metadata", [8775], "nodes"), *cinder]


def _libvirt(ctx: Context[NovaSpec], disks: Disks, migration: Migration, consoles: Consoles) -> Step:
    """Plan libvirt, which no change of Nova's configuration restarts; guests outlive it."""
    entry = ctx.release["libvirt"]
    libvirt = kube.host("libvirt", "/var/lib/libvirt")
    preparations = (*disks.programs, *migration.programs, *consoles.programs)
    if preparations:
        preparations = ("tls/reload_on_change.sh", *preparations)
    main = kube.Container(
        entry=entry,
        command=agents.shell(*preparations, "nova/start_libvirt.sh", words=entry.command, options="-c"),
        env={
            "VIRT_TYPE": ctx.spec.compute.virt_type,
            **volumes.libvirt_env(ctx),
            **disks.env,
            **consoles.env,
            **migration.env,
        },
        # Even where it does not listen there: a node has one libvirt.
        ports={"libvirt-tls": PORT},
        mounts=(
            *volumes.libvirt_mounts(ctx, _shared_folders(ctx)),
            kube.host("cgroup", "/sys/fs/cgroup"),
            libvirt,
            # The guests' definitions lie beside their state: /etc of a node may be read-only.
            replace(libvirt, path="/etc/libvirt/qemu", sub_path="definitions"),
            *disks.mounts,
            *migration.mounts,
            *consoles.node,
        ),
        ready=kube.Probe.of_worker(entry.commands["ready"], timeout=10),
        memory="64Mi",
        privileged=True,
        root=True,
    )
    settings = kube.settings(
        ctx.spec.compute.model_copy(update={"image": None, "resources": None}), ctx.spec.compute.libvirt
    )
    template = kube.pod(
        ctx, LIBVIRT, main, settings=settings, node_selector=kube.COMPUTE, hostNetwork=True, hostPID=True
    )
    if migration.steps:
        # The nodes' addresses are in the certificate.
        template["metadata"]["labels"][kube.WATCHED] = "true"
    daemons = kube.agents(ctx, LIBVIRT, template, _NODES)
    return Step(name="Libvirt", objects=(daemons,), after=(*disks.steps, *migration.steps, *consoles.steps))


def _nova_compute(
    ctx: Context[NovaSpec],
    cell: CellNodes,
    group: groups.NodeGroup,
    inputs: NodeInputs,
    disks: Disks,
    options: Sections,
) -> tuple[Step, ...]:
    """Plan nova-compute on the nodes of one cell and group, with its configuration."""
    name, spec = group.component(cell.name), ctx.spec.compute
    sections = config.compute(
        ctx, cell.messaging, inputs.notifications, inputs.identity, cell.console, options, group.layers
    )
    base = parts.written(ctx, {_CONF: oslo.render(sections)}, suffix=f"{name}-config", directory="/etc/nova")
    conf = on_ceph(base, disks.client) if disks.client else base
    entry = parts.release_entry(ctx, "compute")
    command = agents.python("nova/node_identity.py", words=entry.command)
    main = kube.Container(
        entry=entry,
        command=with_addresses(command, spec.migration_network, spec.console_network),
        env={
            **_node_env(),
            **_identity_env(ctx, conf),
            **network_env(migration=spec.migration_network, console=spec.console_network),
            **volumes.nova_compute_env(ctx),
        },
        mounts=(
            *conf.mounts,
            *volumes.nova_compute_mounts(ctx, _shared_folders(ctx)),
            *kube.scratch("/run/lock", "/tmp", large=True),  # noqa: S108
        ),
        ready=cell.messaging.connected,
        lifecycle=compute_drain.drain_hook(f"{conf.directory}/{_CONF}"),
        memory="288Mi",
        # After a power cut, servers start when it does.
        cpu="50m",
        privileged=True,
        root=not entry.uid,
    )
    template = kube.pod(
        ctx,
        name,
        main,
        *volumes.sidecars(ctx),
        settings=_in_cell(kube.settings(ctx.spec.compute), cell.shares, is_first=cell.name == ctx.spec.cells[0].name),
        node_selector=kube.COMPUTE,
        init=disks.init_containers(ctx),
        annotations={kube.CONFIG_DIGEST: conf.digest},
        grace=compute_drain.GRACE,
        hostNetwork=True,
        # It starts as root and becomes nova, which has to read the configuration.
        securityContext={"fsGroup": parts.release_entry(ctx, "conductor").gid, "fsGroupChangePolicy": "OnRootMismatch"},
    )
    template["metadata"]["labels"][kube.WATCHED] = "true"
    daemons = kube.annotated(kube.agents(ctx, name, template, _NODES), {kube.ENDING: compute_drain.WAITS_FOR})
    # Before the digest of the template: Kubernetes calls a pod old if its affinity is, and the roll-out must agree.
    daemons = group.with_scheduling(ctx, daemons)
    daemons = kube.by_node(daemons, ctx.release.name if ctx.spec.runs_release else "")
    after = (conf, *disks.steps, *inputs.dependencies, *cell.after)
    return base, conf, Step(name=NOVA_COMPUTE, objects=(daemons,), after=after, turn=HOSTS)


def _shared_folders(ctx: Context[NovaSpec]) -> list[kube.Mount]:
    """Return the node's folders that libvirt and nova-compute see under one path; /dev/pts carries the console logs."""
    disks = {"hostPath": {"path": ctx.spec.compute.instance_storage_path, "type": "DirectoryOrCreate"}}
    return [
        kube.Mount(name="disks", path=parts.state(ctx), volume=disks),
        kube.host("libvirt-run", "/run/libvirt"),
        kube.host("openvswitch", "/run/openvswitch"),
        kube.host("pts", "/dev/pts", kind="Directory"),
    ]


def _node_env() -> dict[str, Any]:
    """Return the options that differ from node to node, as oslo.config reads them from the environment. The host has
    the name of its OVN chassis, or ports cannot be bound to it.
    """
    address = {"fieldRef": {"fieldPath": "status.hostIP"}}
    return {
        "EVENTLET_NO_GREENDNS": "yes",
        "OS_DEFAULT__HOST": {"fieldRef": {"fieldPath": "spec.nodeName"}},
        "OS_DEFAULT__MY_IP": address,
        "OS_LIBVIRT__LIVE_MIGRATION_INBOUND_ADDR": address,
        "OS_VNC__SERVER_LISTEN": address,
        "OS_VNC__SERVER_PROXYCLIENT_ADDRESS": address,
    }


def _identity_env(ctx: Context[NovaSpec], conf: parts.Config) -> dict[str, str]:
    """Return the environment of the program that looks for the node's identity."""
    return {
        "NOVA_CONF": f"{conf.directory}/{_CONF}",
        "STATE": parts.state(ctx),
        "NODE_FOLDER": ctx.spec.compute.instance_storage_path,
    }


def _in_cell(pod: PodSettings, shares: Sequence[str], *, is_first: bool) -> PodSettings:
    """Return settings with an affinity to the cell's nodes, unless the user sets one. It does not depend on the number
    of cells, so that a new cell restarts nothing in the others.
    """
    terms: list[dict[str, Any]] = [{"matchExpressions": [{"key": CELL_LABEL, "operator": "In", "values": [*shares]}]}]
    if is_first:
        terms.append({"matchExpressions": [{"key": CELL_LABEL, "operator": "DoesNotExist"}]})
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return pod if pod.affinity else pod.model_copy(update={"affinity": {"nodeAffinity": required}})
