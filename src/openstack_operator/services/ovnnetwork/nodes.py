"""The nodes of an OVNCluster, each with an OVNChassis in which a user can write settings of that node alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import kube
from ...parts.connect.ovn import OVN_NODES
from ...plan import Context, Object, Step
from .model import OVNNetworkSpec

_API, _KIND = "ovn.c5c3.io/v1alpha1", "OVNChassis"
_HANDLE = f"{_KIND}.ovn.c5c3.io"
_FOLDER = "/etc/ovn-chassis"


@dataclass(frozen=True)
class Overrides:
    """Objects and files with the settings of single nodes."""

    config: Step
    """The step that switches wait for."""
    chassis: Step
    mounts: tuple[kube.Mount, ...]
    """Folder with a file for each node that has settings; its switch follows the file while it runs."""
    published: Mapping[str, str]
    details: Mapping[str, Any]


def selector(spec: OVNNetworkSpec) -> Mapping[str, str]:
    """Return the labels of the nodes of an OVN."""
    return kube.NETWORK if spec.chassis.node_selector is None else spec.chassis.node_selector


def node_overrides(ctx: Context[OVNNetworkSpec]) -> Overrides:
    """Return an OVNChassis for each node, and ConfigMap `<owner>-nodes` with their settings."""
    live = {name: each for (kind, name), each in ctx.children.items() if kind == _HANDLE}
    names = _nodes(ctx, live)
    files = {name: text for name in names if name in live and (text := _settings_file(live[name]["spec"]))}
    config = kube.obj(ctx, "ConfigMap", ctx.name("nodes"), data=files)
    volume = {"configMap": {"name": config["metadata"]["name"], "defaultMode": 0o444}}
    controllers = kube.Rollout(ctx.live("DaemonSet", "controller")).ready
    return Overrides(
        config=Step(name="Nodes", objects=(config,)),
        chassis=Step(name="Chassis", objects=tuple(_chassis(ctx, name) for name in names)),
        mounts=(kube.Mount(name="nodes", path=_FOLDER, volume=volume, read_only=True),),
        published={OVN_NODES: ",".join(f"{k}={v}" for k, v in sorted(selector(ctx.spec).items()))},
        details={"chassisCount": len(names), "activeControllers": controllers},
    )


def nodes_to_certify(ctx: Context[OVNNetworkSpec], daemons: Sequence[Object]) -> Mapping[str, str]:
    """Return the uids of the nodes that any of the DaemonSets selects, by name. Pods are no proof: a user who may
    create some can give them any label and any node.
    """
    selections = [kube.NodeSelection.of(each) for each in daemons]
    return {
        name: node.uid
        for name, node in ctx.nodes.items()
        if any(selection.takes(name, node.labels) for selection in selections)
    }


def _nodes(ctx: Context[OVNNetworkSpec], live: Mapping[str, Object]) -> list[str]:
    """Return the nodes that run a switch, or did and will again: during a roll-out a node has no pod for a moment.
    A node that is no longer selected is a chassis until its pod is deleted, which would only register again.
    """
    components = {"gateway", "chassis"}
    with_switch = {
        pod["spec"]["nodeName"]
        for pod in ctx.pods
        if pod["metadata"]["labels"].get(kube.COMPONENT) in components and pod["spec"].get("nodeName")
    }
    labels = selector(ctx.spec)
    remaining = {name for name in live if name in ctx.nodes and ctx.nodes[name].selected(labels)}
    return sorted(name for name in with_switch | remaining if name in ctx.nodes)


def _chassis(ctx: Context[OVNNetworkSpec], name: str) -> Object:
    chassis = kube.obj(ctx, _KIND, name, _API)
    node = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": ctx.nodes[name].uid}
    # All other fields belong to the user.
    spec = {"clusterRef": {"name": ctx.owner}, "hostname": name, "systemId": name}
    return {**chassis, "metadata": {**chassis["metadata"], "name": name, "ownerReferences": [node]}, "spec": spec}


def _settings_file(spec: Mapping[str, Any]) -> str:
    """Return the file that `ovs-chassis` reads: a line `name=value` for each setting, none for an unset one."""
    lines: list[str] = []
    mappings: Sequence[Mapping[str, str]] | None = spec.get("bridgeMappings")
    if mappings is not None:
        pairs = sorted(f"{each['physicalNetwork']}:{each['bridge']}" for each in mappings)
        lines.append(f"ovn-bridge-mappings={','.join(pairs)}")
    if address := (spec.get("encapsulation") or {}).get("ip"):
        lines.append(f"ovn-encap-ip={address}")
    return "".join(f"{line}\n" for line in lines)
