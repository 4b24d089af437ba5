"""NetworkPolicies of a service's pods: they accept connections only from the operator, unless a rule allows more.

The plan of a server opens its ports to the clients they always have: its other members, the namespace, the world. The
plan of a client opens the ports it uses to its own pods, since a server does not know its clients, and policies add up.

Databases, brokers and caches are closed even if the spec does not enable policies. Then they open themselves to all
pods of our resources in the namespace, so that a client whose own plan is not carried out can still connect.

Every service has an egress policy: pods reach every address except loopback, link-local and metadata addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ... import kube
from ...api import Expose, NetworkPolicies, Ref, RunSpec, references
from ...plan import (
    ALLOWED_RESOURCES,
    ANY_NAME,
    MOST_ENTRIES,
    AllowedUser,
    Context,
    Listens,
    Object,
    State,
    Step,
    Verdict,
    allowed_elsewhere,
    without_effect,
)

_API = "api"
_ON_NODES: tuple[Object, ...] = (
    {"protocol": "TCP", "port": 443},
    # iSCSI is left out: Oracle's machines have their own disks at a link-local address.
    {"protocol": "TCP", "port": 1024, "endPort": 3259},
    {"protocol": "TCP", "port": 3261, "endPort": 65535},
)
"""Ports of nodes, which are in no ipBlock, that pods may reach: consoles of guests, Ceph, NodePorts, an Ingress
controller.
Metadata services answer at ports below 1024."""

_MOST_NAMED, _LONGEST_NAMED = 5, 80
"""Entries of an annotation that a message names, and letters of each."""
_PROMETHEUS = {
    "namespaceSelector": {},
    "podSelector": {
        "matchExpressions": [
            {"key": "app.kubernetes.io/name", "operator": "In", "values": ["prometheus", "prometheus-agent"]}
        ]
    },
}
"""Pods that Prometheus' operator makes, in any namespace."""


_APPLIED = "the objects are applied; the network plug-in of the cluster enforces them, or does not"
"""No API of Kubernetes says which it is."""


@dataclass(frozen=True)
class IngressRule:
    """An ingress rule: ports of a component, all if none is named, and the clients to which they are always open."""

    component: str
    ports: Sequence[int]
    to: Literal["members", "service", "cloud", "namespace", "nodes", "monitoring", "everybody"]
    """The other pods of the component, of the resource, of all our resources in the namespace, all pods of the
    namespace, programs on the network of nodes, a Prometheus, or every client."""


def policies(ctx: Context[Any], *ingress_rules: IngressRule, on_nodes: Sequence[Ref] = ()) -> tuple[Step, ...]:
    """Return the NetworkPolicies of a service; its pods reach no metadata service.

    If the spec enables policies or the kind is always closed, its pods accept only `ingress_rules`; the servers that it
    refers to are opened for its pods, and for the nodes, if its programs on their network use them (`on_nodes`).
    """
    settings, used = _settings(ctx), _used(ctx, on_nodes)
    server = ctx.servers.get(ctx.kind, Listens())
    always = server.closed
    if always and not settings.enabled:
        ingress_rules = (
            *ingress_rules,
            *(IngressRule(name, ports, "cloud") for name, ports in server.ports.items()),
            *(IngressRule(name, ports, "nodes") for name, ports in server.ports.items() if server.open_to_nodes),
        )
    peers = {"from": [_operator(ctx), *settings.allow_from]}
    shut = kube.network_policy(ctx, ctx.owner, kube.pods_of(ctx.kind, ctx.owner), [peers])
    member_policies = (
        (shut, *ingress_policies(ctx, *ingress_rules), *_for_other_namespaces(ctx, server))
        if always or settings.enabled
        else ()
    )
    open_to_nodes = [
        f"port {port} of {rule.component}"
        for rule in ingress_rules
        if rule.to == "nodes"
        for port in rule.ports
        if member_policies
    ]
    open_to_nodes += [f"{kind}/{name}" for kind, name in _on_nodes(ctx, on_nodes)]
    return (
        Step(
            name="NetworkPolicies",
            objects=(_egress(ctx), *member_policies, *used),
            verdict=_verdict(settings, open_to_nodes, _without_effect(ctx, server)),
        ),
    )


def _for_other_namespaces(ctx: Context[Any], server: Listens) -> list[Object]:
    """Return a policy for each component of a server whose annotation allows resources of other namespaces to use it:
    their pods may connect.
    """
    peers = [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": user.namespace}},
            "podSelector": {"matchLabels": _labels(user)},
        }
        for user in allowed_elsewhere(ctx.annotations, server.elsewhere)
    ]
    return [
        kube.network_policy(ctx, ctx.name(component, "allowed"), kube.selector(ctx, component), [_rule(ports, peers)])
        for component, ports in (server.ports.items() if peers else ())
    ]


def _without_effect(ctx: Context[Any], server: Listens) -> str:
    """Return a message about entries of the annotation that a server does not understand."""
    entries = without_effect(ctx.annotations, server.elsewhere) if server.elsewhere else []
    if not entries:
        return ""
    form = " or ".join(f"NAMESPACE/{kind}/NAME" for kind in server.elsewhere)
    number = f" and {len(entries) - _MOST_NAMED} more" if len(entries) > _MOST_NAMED else ""
    names = ", ".join(entry[:_LONGEST_NAMED] for entry in entries[:_MOST_NAMED]) + number
    return f"metadata.annotations[{ALLOWED_RESOURCES}]: {names}: no effect; write {form}, at most {MOST_ENTRIES}"


def _labels(user: AllowedUser) -> dict[str, str]:
    return {kube.KIND: user.kind.lower()} if user.name == ANY_NAME else kube.pods_of(user.kind, user.name)


def _egress(ctx: Context[Any]) -> Object:
    spec = kube.egress(kube.pods_of(ctx.kind, ctx.owner), _ON_NODES)
    return kube.obj(ctx, "NetworkPolicy", ctx.name("egress"), "networking.k8s.io/v1", spec=spec)


def _operator(ctx: Context[Any]) -> Object:
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ctx.operator_namespace}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": kube.MANAGED_BY}},
    }


def _on_nodes(ctx: Context[Any], refs: Sequence[Ref]) -> dict[tuple[str, str], Ref]:
    """Return the servers that programs on the nodes' network use, and that no other policy opens for them."""
    enabled = _settings(ctx).enabled
    kinds = {kind for kind, server in ctx.servers.items() if (server.ports if enabled else server.from_nodes)}
    return {(ref.kind, ref.name): ref for ref in refs if ref.kind in kinds}


def _used(ctx: Context[Any], on_nodes: Sequence[Ref]) -> list[Object]:
    """Open the servers a service refers to: for its pods if it enables policies, and for nodes if its programs there
    use a server that is always closed.
    """
    from_nodes = _on_nodes(ctx, on_nodes)
    # A server of another namespace opens itself to those that it allows.
    near = [ref for _, ref in references(ctx.spec) if ref.namespace_in(ctx.namespace) == ctx.namespace]
    referred = {(ref.kind, ref.name): ref for ref in near if ref.kind in ctx.servers}
    servers = referred | from_nodes if _settings(ctx).enabled else from_nodes
    return [policy for key, ref in servers.items() for policy in _uses(ctx, ref, nodes=key in from_nodes)]


def ingress_policies(ctx: Context[Any], *ingress_rules: IngressRule) -> tuple[Object, ...]:
    """Return a policy for each component with ingress rules, if the spec enables policies or the pods are always
    closed.
    """
    settings = _settings(ctx)
    if not settings.enabled and not ctx.servers.get(ctx.kind, Listens()).closed:
        return ()
    rules: dict[tuple[str, str], list[Object]] = {}
    for rule in ingress_rules:
        peers = {
            "members": [_pods(kube.selector(ctx, rule.component))],
            "service": [_pods(kube.pods_of(ctx.kind, ctx.owner))],
            "cloud": [{"podSelector": {"matchExpressions": [{"key": kube.KIND, "operator": "Exists"}]}}],
            "namespace": [{"podSelector": {}}],
            "nodes": _nodes(settings),
            "monitoring": [_PROMETHEUS],
            "everybody": None,
        }
        # An API is opened by a policy of its own.
        suffix = [rule.to] if rule.to in {"nodes", "monitoring"} else []
        name = ctx.name(rule.component, *suffix)
        rules.setdefault((name, rule.component), []).append(_rule(rule.ports, peers[rule.to]))
    return tuple(
        kube.network_policy(ctx, name, kube.selector(ctx, component), component_rules)
        for (name, component), component_rules in rules.items()
    )


def api_ingress(component: str, port: int, expose: Expose) -> IngressRule:
    """Return the ingress rule of an API that users call: for the namespace, and for every client if it is exposed."""
    return IngressRule(component, [port], "namespace" if expose.type == "ClusterIP" else "everybody")


def _settings(ctx: Context[Any]) -> NetworkPolicies:
    spec = ctx.spec
    return spec.network_policies if isinstance(spec, RunSpec) else NetworkPolicies()


def _uses(ctx: Context[Any], ref: Ref, *, nodes: bool) -> list[Object]:
    """Open a server for the service that refers to it. An API is open to the namespace anyway."""
    pods = [_pods(kube.pods_of(ctx.kind, ctx.owner))]
    network_policies: list[Object] = []
    for component, ports in ctx.servers[ref.kind].ports.items():
        rules = [] if component == _API or not _settings(ctx).enabled else [_rule(ports, pods)]
        if nodes:
            rules.append(_rule(ports, _nodes(_settings(ctx))))
        if rules:
            target = kube.pods_of(ref.kind, ref.name) | {kube.COMPONENT: component}
            name = ctx.name("uses", ref.kind.lower(), ref.name, component)
            network_policies.append(kube.network_policy(ctx, name, target, rules))
    return network_policies


def _pods(labels: Mapping[str, str]) -> Object:
    return {"podSelector": {"matchLabels": dict(labels)}}


def _nodes(settings: NetworkPolicies) -> list[Object] | None:
    return [{"ipBlock": {"cidr": cidr}} for cidr in settings.nodes] or None


def _rule(ports: Sequence[int], peers: Sequence[Object] | None) -> Object:
    """Return an ingress rule: without peers for every client, without ports for all ports."""
    return kube.drop_none(
        {
            "from": list(peers) if peers else None,
            "ports": [{"port": port, "protocol": "TCP"} for port in ports] or None,
        }
    )


def _verdict(settings: NetworkPolicies, open_to_nodes: Sequence[str], wrong_entries: str) -> Verdict:
    messages = [_APPLIED, *([wrong_entries] if wrong_entries else [])]
    if not settings.nodes and open_to_nodes:
        ports = ", ".join(open_to_nodes)
        messages.append(f"spec.networkPolicies.nodes: unset, so any address may connect to: {ports}")
    return Verdict(State.READY, "; ".join(messages))
