"""What runs on the nodes: Open vSwitch and the controller that tells it what to do."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ... import kube, parts
from ...api import PodSettings
from ...plan import READY, Component, Context, Group, SpecError, State, Step, Verdict, key
from .model import OVNNetworkSpec, Program
from .nodes import Single, certified, selector
from .tls import Secured

_SWITCH = kube.host("openvswitch", "/run/openvswitch")
_PORT = 6640
"""Of the database of a node's switch, on 127.0.0.1 of the node."""


def chassis(
    ctx: Context[OVNNetworkSpec], southbound: str, tls: Secured, own: Single | None, *, after: tuple[Step, ...]
) -> Group:
    """DaemonSets `<owner>-gateway` and `<owner>-chassis`: nodes that connect to physical networks, and the others; with
    what is said of single nodes, where anything is.

    They differ in nothing but who they are for, so that a node that becomes a gateway keeps its networks.
    """
    spec = ctx.spec
    if not spec.chassis.enabled:
        return Group("Controllers", [])
    nodes = selector(spec)
    before, beside = ([own.config], [own.chassis]) if own else ([], [])
    after = (*after, *before)
    labels = spec.gateway.node_selector
    gateway = {
        "OVN_CMS_OPTIONS": "enable-chassis-as-gw",
        "OVS_EXTERNAL_ADDRESS": spec.external_bridge.address or "",
    }
    common = _environment(ctx, southbound)
    wanted = kube.settings(spec, spec.chassis)
    steps = [_daemons(ctx, "gateway", common | gateway, wanted, {**nodes, **labels}, tls, own, after)]
    if labels:
        try:
            affinity = kube.lacking(wanted.affinity, labels)
        except (AttributeError, TypeError, ValueError):
            raise SpecError("spec.chassis.affinity", "not an affinity as Kubernetes has it") from None
        others = wanted.model_copy(update={"affinity": affinity})
        steps.append(_daemons(ctx, "chassis", common, others, nodes, tls, own, after))
    beside += _certificates(ctx, tls, steps)
    return Group("Controllers", [*before, *steps, *beside, Step(name="Tunnels", verdict=_tunnels(ctx, steps))])


def _certificates(ctx: Context[OVNNetworkSpec], tls: Secured, steps: Sequence[Step]) -> list[Step]:
    """A certificate for each node that runs a controller."""
    if tls.chassis is None:
        return []
    daemons = [ctx.children.get(key(obj), {}) for step in steps for obj in step.objects]
    made = parts.node_certificates(
        ctx,
        "chassis-tls",
        certified(ctx, daemons),
        authority=tls.chassis,
        trusted=tls.own.files["ca.crt"],
        program=ctx.release["ovn-controller"],
        settings=_beside(ctx, ctx.spec.chassis.controller),
    )
    return [*made.steps]


def _tunnels(ctx: Context[OVNNetworkSpec], steps: Sequence[Step]) -> Verdict:
    """What is to be said of tunnels between nodes, which stops nothing. A switch in userspace sends them only through a
    bridge of its own, and the nodes' first interface is in none: it carries Kubernetes too.
    """
    daemons = [ctx.children.get(key(obj), {}) for step in steps for obj in step.objects]
    nodes = sum((live.get("status") or {}).get("desiredNumberScheduled", 0) for live in daemons)
    if nodes < 2 or ctx.spec.datapath == "system" or ctx.spec.tunnel_interface:
        return READY
    where = "" if ctx.spec.datapath == "netdev" else "where a node's kernel has no openvswitch, "
    text = f"spec.tunnelInterface: unset, so that {where}servers on {nodes} nodes reach nobody on another node"
    return Verdict(State.READY, text)


def _environment(ctx: Context[OVNNetworkSpec], southbound: str) -> dict[str, Any]:
    """How a node is described in its own database."""
    spec = ctx.spec
    bridge = spec.external_bridge
    env: dict[str, Any] = {
        "OVS_DATAPATH": spec.datapath,
        "OVS_SYSTEM_ID": {"fieldRef": {"fieldPath": "spec.nodeName"}},
        "OVN_REMOTE": southbound,
        "OVN_ENCAP_TYPE": spec.encap_type,
        "OVN_ENCAP_IP": {"fieldRef": {"fieldPath": "status.hostIP"}},
        "OVN_BRIDGE_MAPPINGS": _mappings(spec),
        "OVS_EXTERNAL_BRIDGE": bridge.name,
        "OVS_EXTERNAL_INTERFACE": bridge.interface or "",
    }
    return env | ({"OVS_TUNNEL_INTERFACE": spec.tunnel_interface} if spec.tunnel_interface else {})


def _mappings(spec: OVNNetworkSpec) -> str:
    """physnet:bridge[,physnet:bridge]"""
    mappings = spec.bridge_mappings
    if mappings is None:
        mappings = {"physnet1": spec.external_bridge.name}
    for network in mappings:
        if not network or set(network) & set(' ,:"'):
            message = "a physical network's name has no spaces, quotes, commas or colons"
            raise SpecError(f"spec.bridgeMappings.{network}", message)
    return ",".join(f"{network}:{bridge}" for network, bridge in sorted(mappings.items()))


def _daemons(
    ctx: Context[OVNNetworkSpec],
    component: str,
    env: Mapping[str, Any],
    wanted: PodSettings,
    nodes: Mapping[str, str],
    tls: Secured,
    own: Single | None,
    after: tuple[Step, ...],
) -> Step:
    controls = (_SWITCH, kube.host("ovn", "/run/ovn"), *tls.on_nodes)
    template = kube.pod(
        ctx,
        component,
        _container(ctx.release["ovs-vswitchd"], "ovs-vswitchd", "64Mi", _SWITCH, *(own.mounts if own else ()), env=env),
        replace(
            _container(ctx.release["ovs-db"], "ovs-db", "16Mi", _SWITCH, kube.host("database", "/var/lib/openvswitch")),
            # A node has one switch.
            ports={"ovsdb": _PORT},
            settings=_beside(ctx, ctx.spec.chassis.switch_database),
        ),
        replace(
            _container(ctx.release["ovn-controller"], "ovn-controller", "32Mi", *controls),
            settings=_beside(ctx, ctx.spec.chassis.controller),
        ),
        wanted=wanted.model_copy(update={"node_selector": dict(nodes)}),
        hostNetwork=True,
    )
    if own or tls.chassis:
        template["metadata"]["labels"][kube.WATCHED] = "true"
    # A node whose switch restarts is without a network for a moment: never two of them at a time.
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    daemons = kube.agents(ctx, component, template, "spec.chassis.nodeSelector", updateStrategy=strategy)
    return Step(name=component.capitalize(), objects=(daemons,), after=after)


def _beside(ctx: Context[OVNNetworkSpec], program: Program) -> PodSettings:
    """Image and resources of a container beside the switch."""
    return PodSettings(image=program.image or ctx.spec.image, resources=program.resources)


def _container(
    program: Component, name: str, memory: str, *mounts: kube.Mount, env: Mapping[str, Any] | None = None
) -> kube.Container:
    command, prepare, stop = program.command, program.commands.get("prepare"), program.commands.get("stop")
    if prepare:
        # Not in an init container: it speaks to the database, which starts beside this program.
        command = ["sh", "-ec", f'{shlex.join(prepare)}; exec "$@"', "sh", *command]
    return kube.Container(
        component=program,
        name=name,
        command=command,
        env=env or {},
        mounts=mounts,
        ready=kube.Probe.of_worker(program.commands["ready"]),
        lifecycle={"preStop": {"exec": {"command": list(stop)}}} if stop else None,
        memory=memory,
        privileged=True,
        root=True,
    )
