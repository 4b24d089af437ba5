"""Who may reach the pods of a service, as NetworkPolicies: nobody but the operator, until somebody says so.

A server says which of its ports are open to whom by nature: its other members, the namespace, the world. Who uses a
server opens the ports it uses for its own pods, since a server does not know its clients, and policies add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .. import kube
from ..api import Expose, NetworkPolicies, Ref, RunSpec, references
from ..plan import READY, Context, Object, State, Step, Verdict

_API = "api"
_CEPH = ("mon", "mgr", "osd")
_SERVERS: Mapping[str, Mapping[str, Sequence[int]]] = {
    "MariaDB": {"server": [3306]},
    "RabbitMQ": {"server": [5671, 5672]},
    "Memcached": {"server": [11211, 11212]},
    "Etcd": {"server": [2379]},
    "OVNNetwork": {"nb": [6641, 16641], "sb": [6642, 16642]},
    # Any port: its daemons take the first ones that are free.
    "CephStorage": dict.fromkeys(_CEPH, ()),
    "Keystone": {_API: [5000]},
    "Glance": {_API: [9292]},
    "Placement": {_API: [8778]},
    "Neutron": {_API: [9696]},
    "Cinder": {_API: [8776]},
}
"""Components of each kind that others refer to, and the ports these use."""


_PROMETHEUS = {
    "namespaceSelector": {},
    "podSelector": {
        "matchExpressions": [
            {"key": "app.kubernetes.io/name", "operator": "In", "values": ["prometheus", "prometheus-agent"]}
        ]
    },
}
"""Pods that Prometheus' operator makes, in any namespace."""


@dataclass(frozen=True)
class Way:
    """A way in: ports of a component, any where none is named, and for whom they are open by nature."""

    component: str
    ports: Sequence[int]
    to: Literal["members", "service", "namespace", "nodes", "monitoring", "everybody"]
    """The other pods of the component, of the resource, of the namespace, programs on the network of nodes, a
    Prometheus, or everybody."""


def policies(ctx: Context[Any], *ways: Way, on_nodes: Sequence[Ref] = ()) -> tuple[Step, ...]:
    """The policies of a service, where they are wanted: its pods are shut, its `ways` are open, and so is what it
    refers to, for its pods; and for the nodes, where its programs on their network use that (`on_nodes`).
    """
    wanted = _wanted(ctx)
    if not wanted.enabled:
        return ()
    operator = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": kube.MANAGED_BY}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": kube.MANAGED_BY}},
    }
    everywhere = {"from": [operator, *wanted.allow_from]}
    shut = kube.network_policy(ctx, ctx.owner, kube.pods_of(ctx.kind, ctx.owner), [everywhere])
    there = {(ref.kind, ref.name): ref for ref in on_nodes if ref.kind in _SERVERS}
    referred = {(ref.kind, ref.name): ref for _, ref in references(ctx.spec) if ref.kind in _SERVERS} | there
    used = [policy for key, ref in referred.items() for policy in _uses(ctx, ref, nodes=key in there)]
    asked = [f"port {port} of {way.component}" for way in ways if way.to == "nodes" for port in way.ports]
    asked += ["/".join(key) for key in there]
    return (
        Step(
            name="NetworkPolicies",
            objects=(shut, *opened(ctx, *ways), *used),
            verdict=_verdict(wanted, asked),
        ),
    )


def opened(ctx: Context[Any], *ways: Way) -> tuple[Object, ...]:
    """A policy a component that opens its ways, where policies are wanted."""
    wanted = _wanted(ctx)
    if not wanted.enabled:
        return ()
    rules: dict[tuple[str, str], list[Object]] = {}
    for way in ways:
        peers = {
            "members": [_pods(kube.selector(ctx, way.component))],
            "service": [_pods(kube.pods_of(ctx.kind, ctx.owner))],
            "namespace": [{"podSelector": {}}],
            "nodes": _nodes(wanted),
            "monitoring": [_PROMETHEUS],
            "everybody": None,
        }
        # An API opens itself in a policy of its own.
        apart = [way.to] if way.to in {"nodes", "monitoring"} else []
        name = ctx.name(way.component, *apart)
        rules.setdefault((name, way.component), []).append(_rule(way.ports, peers[way.to]))
    return tuple(
        kube.network_policy(ctx, name, kube.selector(ctx, component), found)
        for (name, component), found in rules.items()
    )


def outside(component: str, port: int, expose: Expose) -> Way:
    """The way to what users call: the namespace's, and everybody's where it is exposed."""
    return Way(component, [port], "namespace" if expose.type == "ClusterIP" else "everybody")


def _wanted(ctx: Context[Any]) -> NetworkPolicies:
    spec = ctx.spec
    return spec.network_policies if isinstance(spec, RunSpec) else NetworkPolicies()


def _uses(ctx: Context[Any], ref: Ref, *, nodes: bool) -> list[Object]:
    """Opens a server for who refers to it. An API is open to the namespace anyway."""
    own = _pods(kube.pods_of(ctx.kind, ctx.owner))
    found: list[Object] = []
    for component, ports in _SERVERS[ref.kind].items():
        rules = [] if component == _API else [_rule(ports, [own])]
        if nodes:
            rules.append(_rule(ports, _nodes(_wanted(ctx))))
        if rules:
            target = kube.pods_of(ref.kind, ref.name) | {kube.COMPONENT: component}
            name = ctx.name("uses", ref.kind.lower(), ref.name, component)
            found.append(kube.network_policy(ctx, name, target, rules))
    return found


def _pods(labels: Mapping[str, str]) -> Object:
    return {"podSelector": {"matchLabels": dict(labels)}}


def _nodes(wanted: NetworkPolicies) -> list[Object] | None:
    return [{"ipBlock": {"cidr": cidr}} for cidr in wanted.nodes] or None


def _rule(ports: Sequence[int], peers: Sequence[Object] | None) -> Object:
    """A rule without peers is for everybody, one without ports for all of them."""
    return kube.drop_none(
        {
            "from": list(peers) if peers else None,
            "ports": [{"port": port, "protocol": "TCP"} for port in ports] or None,
        }
    )


def _verdict(wanted: NetworkPolicies, asked: Sequence[str]) -> Verdict:
    if wanted.nodes or not asked:
        return READY
    text = f"spec.networkPolicies.nodes: unset, so that what nodes use is open to everybody: {', '.join(asked)}"
    return Verdict(State.READY, text)
