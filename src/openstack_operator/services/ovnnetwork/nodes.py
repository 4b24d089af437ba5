"""The nodes of an OVNCluster, each with an OVNChassis by which a human may say what holds for it alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import kube, parts
from ...plan import Context, Object, Step
from .model import OVNNetworkSpec

_API, _KIND = "ovn.c5c3.io/v1alpha1", "OVNChassis"
_HANDLE = f"{_KIND}.ovn.c5c3.io"
_FOLDER = "/etc/ovn-chassis"


@dataclass(frozen=True)
class Single:
    """What is made for single nodes."""

    config: Step
    """What switches wait for."""
    chassis: Step
    mounts: tuple[kube.Mount, ...]
    """A file for each node of which something is said, which its switch follows while it runs."""
    published: Mapping[str, str]
    details: Mapping[str, Any]


def selector(spec: OVNNetworkSpec) -> Mapping[str, str]:
    """Labels of the nodes of an OVN."""
    return kube.NETWORK if spec.chassis.node_selector is None else spec.chassis.node_selector


def single(ctx: Context[OVNNetworkSpec]) -> Single:
    """An OVNChassis for each node, and ConfigMap `<owner>-nodes` with what these say."""
    live = {name: each for (kind, name), each in ctx.children.items() if kind == _HANDLE}
    names = _nodes(ctx, live)
    own = {name: text for name in names if name in live and (text := _text(live[name]["spec"]))}
    config = kube.obj(ctx, "ConfigMap", ctx.name("nodes"), data=own)
    volume = {"configMap": {"name": config["metadata"]["name"], "defaultMode": 0o444}}
    controllers = sum(_ready(ctx, component) for component in ("gateway", "chassis"))
    return Single(
        config=Step(name="Nodes", objects=(config,)),
        chassis=Step(name="Chassis", objects=tuple(_chassis(ctx, name) for name in names)),
        mounts=(kube.Mount(name="nodes", path=_FOLDER, volume=volume, read_only=True),),
        published={parts.OVN_NODES: ",".join(f"{k}={v}" for k, v in sorted(selector(ctx.spec).items()))},
        details={"chassisCount": len(names), "activeControllers": controllers},
    )


def certified(ctx: Context[OVNNetworkSpec], daemons: Sequence[Object]) -> set[str]:
    """Nodes that have a certificate: those with a controller. While a DaemonSet lacks pods, as during a roll-out, also
    those that had one before.
    """
    nodes = _with_controller(ctx)
    desired = sum((live.get("status") or {}).get("desiredNumberScheduled", 0) for live in daemons)
    return nodes if len(nodes) >= desired else nodes | parts.certified_nodes(ctx, "chassis-tls")


def _with_controller(ctx: Context[OVNNetworkSpec]) -> set[str]:
    components = {"gateway", "chassis"}
    return {
        pod["spec"]["nodeName"]
        for pod in ctx.pods
        if pod["metadata"]["labels"].get(kube.COMPONENT) in components and pod["spec"].get("nodeName")
    }


def _nodes(ctx: Context[OVNNetworkSpec], live: Mapping[str, Object]) -> list[str]:
    """Nodes that run a controller, or did and will again: one that is rolled has no pod for a moment. One that was
    taken out of the selection is a chassis until its pod is gone, which would only register anew.
    """
    run = _with_controller(ctx)
    wanted = selector(ctx.spec)
    stay = {name for name in live if name in ctx.nodes and ctx.nodes[name].selected(wanted)}
    return sorted(name for name in run | stay if name in ctx.nodes)


def _chassis(ctx: Context[OVNNetworkSpec], name: str) -> Object:
    made = kube.obj(ctx, _KIND, name, _API)
    node = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": ctx.nodes[name].uid}
    # All else in it is the human's.
    spec = {"clusterRef": {"name": ctx.owner}, "hostname": name, "systemId": name}
    return {**made, "metadata": {**made["metadata"], "name": name, "ownerReferences": [node]}, "spec": spec}


def _text(spec: Mapping[str, Any]) -> str:
    """What `ovs-chassis` reads: name=value, a line each; nothing of what is not said."""
    lines: list[str] = []
    mappings: Sequence[Mapping[str, str]] | None = spec.get("bridgeMappings")
    if mappings is not None:
        pairs = sorted(f"{each['physicalNetwork']}:{each['bridge']}" for each in mappings)
        lines.append(f"ovn-bridge-mappings={','.join(pairs)}")
    if address := (spec.get("encapsulation") or {}).get("ip"):
        lines.append(f"ovn-encap-ip={address}")
    return "".join(f"{line}\n" for line in lines)


def _ready(ctx: Context[OVNNetworkSpec], component: str) -> int:
    live = ctx.children.get(("DaemonSet", kube.fitting(ctx.name(component)))) or {}
    return (live.get("status") or {}).get("numberReady", 0)
