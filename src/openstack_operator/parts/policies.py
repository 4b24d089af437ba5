"""Who may reach the pods of a service, as NetworkPolicies: nobody but the operator, until somebody says so.

A server says which of its ports are open to whom by nature: its other members, the namespace, the world. Who uses a
server opens the ports it uses for its own pods, since a server does not know its clients, and policies add up.

Databases, brokers and caches are shut also where nobody asks for policies. Then they open themselves to all pods of
resources of ours in the namespace, so that none of these is shut out because its own plan is not carried out.

An egress policy is always there: pods reach every address except loopback, link-local and metadata addresses.
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
    "Glance": {_API: [9292], "internal-api": [9292]},
    "Placement": {_API: [8778]},
    "Neutron": {_API: [9696]},
    "Cinder": {_API: [8776]},
}
"""Components of each kind that others refer to, and the ports these use."""

_ALWAYS = frozenset({"MariaDB", "RabbitMQ", "Memcached", "Valkey", "Etcd", "OVNNetwork"})
"""Kinds whose pods are shut in any case: who reaches them reads or changes what a cloud knows."""
_OF_NODES: Mapping[str, Mapping[str, Sequence[int]]] = {"RabbitMQ": _SERVERS["RabbitMQ"]}
"""What programs on the nodes' network use in any cloud, of kinds that do not say so themselves."""
_FROM_NODES = frozenset({"MariaDB", "Etcd"})
"""Kinds that are always shut, and that programs of some services use from the nodes' network."""

_ON_NODES: tuple[Object, ...] = (
    {"protocol": "TCP", "port": 443},
    # iSCSI is left out: Oracle's machines have their own disks at a link-local address.
    {"protocol": "TCP", "port": 1024, "endPort": 3259},
    {"protocol": "TCP", "port": 3261, "endPort": 65535},
)
"""What pods may reach on nodes that are in no ipBlock: consoles of guests, Ceph, NodePorts, an Ingress controller.
Metadata services answer at ports below 1024."""

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
    to: Literal["members", "service", "cloud", "namespace", "nodes", "monitoring", "everybody"]
    """The other pods of the component, of the resource, of all resources of ours in the namespace, all pods of the
    namespace, programs on the network of nodes, a Prometheus, or everybody."""


def policies(ctx: Context[Any], *ways: Way, on_nodes: Sequence[Ref] = ()) -> tuple[Step, ...]:
    """The policies of a service: its pods reach no metadata service.

    Where policies are wanted or it is of a kind that is always shut, its pods are shut, its `ways` are open, and so is
    what it refers to, for its pods; and for the nodes, where its programs on their network use that (`on_nodes`).
    """
    wanted, used = _wanted(ctx), _used(ctx, on_nodes)
    always = ctx.kind in _ALWAYS
    if always and not wanted.enabled:
        ways = (*ways, *(Way(name, ports, "cloud") for name, ports in _SERVERS.get(ctx.kind, {}).items()))
        ways = (*ways, *(Way(name, ports, "nodes") for name, ports in _OF_NODES.get(ctx.kind, {}).items()))
    peers = {"from": [_operator(ctx), *wanted.allow_from]}
    shut = kube.network_policy(ctx, ctx.owner, kube.pods_of(ctx.kind, ctx.owner), [peers])
    own = (shut, *opened(ctx, *ways)) if always or wanted.enabled else ()
    asked = [f"port {port} of {way.component}" for way in ways if way.to == "nodes" for port in way.ports if own]
    asked += [f"{kind}/{name}" for kind, name in _on_nodes(ctx, on_nodes)]
    return (Step(name="NetworkPolicies", objects=(_egress(ctx), *own, *used), verdict=_verdict(wanted, asked)),)


def _egress(ctx: Context[Any]) -> Object:
    spec = kube.egress(kube.pods_of(ctx.kind, ctx.owner), _ON_NODES)
    return kube.obj(ctx, "NetworkPolicy", ctx.name("egress"), "networking.k8s.io/v1", spec=spec)


def _operator(ctx: Context[Any]) -> Object:
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ctx.operator_namespace}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": kube.MANAGED_BY}},
    }


def _on_nodes(ctx: Context[Any], refs: Sequence[Ref]) -> dict[tuple[str, str], Ref]:
    """The servers that programs on the nodes' network use, and that no other policy opens for them."""
    kinds = _SERVERS.keys() if _wanted(ctx).enabled else _FROM_NODES
    return {(ref.kind, ref.name): ref for ref in refs if ref.kind in kinds}


def _used(ctx: Context[Any], on_nodes: Sequence[Ref]) -> list[Object]:
    """Opens what a service refers to: for its pods where it wants policies, and for nodes where its programs there use
    what is always shut.
    """
    there = _on_nodes(ctx, on_nodes)
    referred = {(ref.kind, ref.name): ref for _, ref in references(ctx.spec) if ref.kind in _SERVERS}
    servers = referred | there if _wanted(ctx).enabled else there
    return [policy for key, ref in servers.items() for policy in _uses(ctx, ref, nodes=key in there)]


def opened(ctx: Context[Any], *ways: Way) -> tuple[Object, ...]:
    """A policy a component that opens its ways, where policies are wanted or the pods are always shut."""
    wanted = _wanted(ctx)
    if not wanted.enabled and ctx.kind not in _ALWAYS:
        return ()
    rules: dict[tuple[str, str], list[Object]] = {}
    for way in ways:
        peers = {
            "members": [_pods(kube.selector(ctx, way.component))],
            "service": [_pods(kube.pods_of(ctx.kind, ctx.owner))],
            "cloud": [{"podSelector": {"matchExpressions": [{"key": kube.KIND, "operator": "Exists"}]}}],
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
    pods = [_pods(kube.pods_of(ctx.kind, ctx.owner))]
    found: list[Object] = []
    for component, ports in _SERVERS[ref.kind].items():
        rules = [] if component == _API or not _wanted(ctx).enabled else [_rule(ports, pods)]
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
