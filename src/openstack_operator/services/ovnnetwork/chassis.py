"""Programs on the nodes: Open vSwitch and the controller that configures it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ... import agents, kube
from ...api import PodSettings
from ...parts.connect.ovn import OVN_NODE_FILES, ovn_node_mounts
from ...parts.secrets.node_certificates import NodeIssuer, node_certificates
from ...plan import READY, Context, Group, ReleaseEntry, SpecError, State, Step, Verdict, key
from . import exporter
from .model import ContainerSettings, OVNNetworkSpec
from .nodes import Overrides, nodes_to_certify, selector

_SWITCH = kube.host("openvswitch", "/run/openvswitch")
_PORT, _CONTROLLER_PORT = 6640, 6639
"""Port of the database of a node's switch, on 127.0.0.1 of the node; and one without a listener, which keeps the
controller of another cloud from a node."""
_FLOWS = 10
"""Seconds from a switch that serves to one that has the flows of its node: its controller, in a pod of its own, adds
them within five in userspace (docs/evidence/suites.md)."""


def chassis(
    ctx: Context[OVNNetworkSpec],
    southbound: str,
    issuer: NodeIssuer | None,
    overrides: Overrides | None,
    *,
    nodes: Collection[str] | None = None,
    after: tuple[Step, ...],
) -> Group:
    """Return DaemonSets `<owner>-gateway` and `<owner>-chassis`, the switches of nodes that connect to physical
    networks, and of the others, with the settings of single nodes, if there are `overrides`; and `<owner>-controller`
    for all of them. With TLS, `issuer` makes a certificate for each node, or for `nodes` alone.

    Switches differ only in their nodes and labels, so that a node that becomes a gateway keeps its networks. Another
    version of OVN does not restart them: traffic would stop.
    """
    spec = ctx.spec
    if not spec.chassis.enabled:
        return Group("Controllers", [])
    labels_of_all = selector(spec)
    configs, extra, mounts = ([overrides.config], [overrides.chassis], overrides.mounts) if overrides else ([], [], ())
    after = (*after, *configs)
    labels = spec.gateway.node_selector
    gateway = {
        "OVN_CMS_OPTIONS": "enable-chassis-as-gw",
        "OVS_EXTERNAL_ADDRESS": spec.external_bridge.address or "",
    }
    # Another address of the database, as with TLS or after a restore, restarts controllers and no switch.
    remote = {"OVN_REMOTE": southbound}
    is_kolla = spec.image_profile == "kolla"
    common = _environment(ctx) | (remote if is_kolla else {})
    settings = kube.settings(spec, spec.chassis)
    steps = [_switches(ctx, "gateway", common | gateway, settings, {**labels_of_all, **labels}, mounts, after)]
    if labels:
        try:
            affinity = kube.exclude_nodes(settings.affinity, labels)
        except (AttributeError, TypeError, ValueError):
            raise SpecError("spec.chassis.affinity", "not an affinity as Kubernetes has it") from None
        chassis_settings = settings.model_copy(update={"affinity": affinity})
        steps.append(_switches(ctx, "chassis", common, chassis_settings, labels_of_all, mounts, after))
    extra += _node_certificates(ctx, issuer, steps, nodes)
    exporters = exporter.of_nodes(ctx, labels_of_all, settings)
    tunnels = Step(name="Tunnels", verdict=_tunnels(ctx, steps))
    mounts = ovn_node_mounts() if issuer else ()
    before = tuple(configs) if _is_split(ctx) else after
    controllers = _controllers(ctx, settings, labels_of_all, mounts, {} if is_kolla else remote, before)
    return Group("Controllers", [*configs, *steps, controllers, *extra, *exporters, tunnels])


def _is_split(ctx: Context[OVNNetworkSpec]) -> bool:
    """Return True while a pod of a switch still has the controller, as earlier operators made it (decision 0100). It
    loses it whatever else is missing, so that the controller's own pods must not wait then.
    """
    lives = [ctx.live("DaemonSet", component) for component in ("gateway", "chassis")]
    pods = [(((live or {}).get("spec") or {}).get("template") or {}).get("spec") or {} for live in lives]
    return any(each["name"] == "ovn-controller" for pod in pods for each in pod.get("containers") or ())


def _node_certificates(
    ctx: Context[OVNNetworkSpec], issuer: NodeIssuer | None, steps: Sequence[Step], nodes: Collection[str] | None
) -> list[Step]:
    """Return the steps of a certificate for each node that runs a controller, or for those of `nodes` among them."""
    if issuer is None:
        return []
    daemons = [obj for step in steps for obj in step.objects]
    issued, stored = node_certificates(
        ctx,
        OVN_NODE_FILES,
        {name: uid for name, uid in nodes_to_certify(ctx, daemons).items() if nodes is None or name in nodes},
        issuer=issuer,
        entry=ctx.release["ovn-controller"],
        settings=_own_settings(ctx, ctx.spec.chassis.controller),
    )
    return [issued, stored]


def _tunnels(ctx: Context[OVNNetworkSpec], steps: Sequence[Step]) -> Verdict:
    """Return READY, with a warning if nodes cannot send each other tunnels. A switch in userspace sends them only
    through its own bridge, and the nodes' first interface is in none, since it carries Kubernetes too.
    """
    daemons = [ctx.children.get(key(obj)) for step in steps for obj in step.objects]
    nodes = sum(kube.Rollout(live).desired for live in daemons)
    if nodes < 2 or ctx.spec.datapath == "system" or ctx.spec.tunnel_interface:
        return READY
    where = "" if ctx.spec.datapath == "netdev" else "where a node's kernel has no openvswitch, "
    text = f"spec.tunnelInterface: unset, so {where}servers on {nodes} nodes cannot reach servers on other nodes"
    return Verdict(State.READY, text)


def _environment(ctx: Context[OVNNetworkSpec]) -> dict[str, Any]:
    """Return the description of a node for its own database, but for the southbound one."""
    spec = ctx.spec
    bridge = spec.external_bridge
    env: dict[str, Any] = {
        "OVS_DATAPATH": spec.datapath,
        "OVS_SYSTEM_ID": {"fieldRef": {"fieldPath": "spec.nodeName"}},
        "OVN_ENCAP_TYPE": spec.encap_type,
        "OVN_ENCAP_IP": {"fieldRef": {"fieldPath": "status.hostIP"}},
        "OVN_BRIDGE_MAPPINGS": _mappings(spec),
        "OVS_EXTERNAL_BRIDGE": bridge.name,
        "OVS_EXTERNAL_INTERFACE": bridge.interface or "",
    }
    return env | ({"OVS_TUNNEL_INTERFACE": spec.tunnel_interface} if spec.tunnel_interface else {})


def _mappings(spec: OVNNetworkSpec) -> str:
    """Return `physnet:bridge[,physnet:bridge]`. Raises SpecError for a name that cannot be written so."""
    mappings = spec.bridge_mappings
    if mappings is None:
        mappings = {"physnet1": spec.external_bridge.name}
    for network in mappings:
        if not network or set(network) & set(' ,:"'):
            message = "a physical network's name has no spaces, quotes, commas or colons"
            raise SpecError(f"spec.bridgeMappings.{network}", message)
    return ",".join(f"{network}:{bridge}" for network, bridge in sorted(mappings.items()))


def _switches(
    ctx: Context[OVNNetworkSpec],
    component: str,
    env: Mapping[str, Any],
    settings: PodSettings,
    nodes: Mapping[str, str],
    node_mounts: tuple[kube.Mount, ...],
    after: tuple[Step, ...],
) -> Step:
    """Return a DaemonSet of Open vSwitch."""
    template = kube.pod(
        ctx,
        component,
        _container(ctx.release["ovs-vswitchd"], "ovs-vswitchd", "64Mi", _SWITCH, *node_mounts, env=env),
        replace(
            _container(ctx.release["ovs-db"], "ovs-db", "16Mi", _SWITCH, kube.host("database", "/var/lib/openvswitch")),
            # A node has one switch.
            ports={"ovsdb": _PORT},
            settings=_own_settings(ctx, ctx.spec.chassis.switch_database),
        ),
        settings=settings.model_copy(update={"node_selector": dict(nodes)}),
        hostNetwork=True,
    )
    if node_mounts:
        template["metadata"]["labels"][kube.WATCHED] = "true"
    # A node whose switch restarts is without a network until it has its flows: never two of them at a time.
    roll_out: dict[str, Any] = {
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        "minReadySeconds": _FLOWS,
    }
    daemons = kube.agents(ctx, component, template, "spec.chassis.nodeSelector", **roll_out)
    return Step(name=component.capitalize(), objects=(daemons,), after=after)


def _controllers(
    ctx: Context[OVNNetworkSpec],
    settings: PodSettings,
    nodes: Mapping[str, str],
    certificate: tuple[kube.Mount, ...],
    env: Mapping[str, Any],
    after: tuple[Step, ...],
) -> Step:
    """Return DaemonSet `<owner>-controller`. A controller that ends leaves the flows of its node as they are."""
    own_settings = _own_settings(ctx, ctx.spec.chassis.controller)
    changes = {"image": own_settings.image, "resources": own_settings.resources, "node_selector": dict(nodes)}
    mounts = (_SWITCH, kube.host("ovn", "/run/ovn"), *certificate)
    main = replace(
        _container(ctx.release["ovn-controller"], "ovn-controller", "32Mi", *mounts, env=env),
        ports={"controller": _CONTROLLER_PORT},
    )
    template = kube.pod(ctx, "controller", main, settings=settings.model_copy(update=changes), hostNetwork=True)
    daemons = kube.agents(ctx, "controller", template, "spec.chassis.nodeSelector")
    return Step(name="Controller", objects=(daemons,), after=after)


def _own_settings(ctx: Context[OVNNetworkSpec], container: ContainerSettings) -> PodSettings:
    """Return image and resources of a container that does not have those of the switch."""
    return PodSettings(image=container.image or ctx.spec.image, resources=container.resources)


def _container(
    entry: ReleaseEntry, name: str, memory: str, *mounts: kube.Mount, env: Mapping[str, Any] | None = None
) -> kube.Container:
    command, prepare, stop = entry.command, entry.commands.get("prepare"), entry.commands.get("stop")
    if prepare:
        # The last variable, since it may refer to the others.
        command = agents.shell("ovnnetwork/prepare.sh", words=command)
        env = {**(env or {}), "PREPARE": shlex.join(prepare)}
    return kube.Container(
        entry=entry,
        name=name,
        command=command,
        env=env or {},
        mounts=mounts,
        ready=kube.Probe.of_worker(entry.commands["ready"]),
        lifecycle={"preStop": {"exec": {"command": list(stop)}}} if stop else None,
        memory=memory,
        privileged=True,
        root=True,
    )
