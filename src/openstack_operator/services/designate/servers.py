"""The pods that speak DNS: mini DNS, with an address each, and the servers that resolvers ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from ... import kube, parts
from ...api import Sections
from ...plan import READY, Context, Object, Step, progressing
from .config import DEFAULTS, DNS_PORT, FILE, MDNS_PORT, SERVER_PORT, ServerPool, endpoints, mdns_options, server_pools
from .model import DesignateSpec, ProgramSpec

MDNS, DNS = "mdns", "dns"
_POD = "statefulset.kubernetes.io/pod-name"
# The port is open when it is in the kernel's list as listening (0A).
_LISTENS = ("grep", "-qs", f":{MDNS_PORT:04X} 0*:0000 0A ", "/proc/net/tcp", "/proc/net/tcp6")


@dataclass(frozen=True)
class Addresses:
    """Addresses of all that speaks DNS: servers want them of mini DNS instead of names, and Designate of servers."""

    step: Step
    """The Services; not ready until Kubernetes has assigned all addresses."""
    masters: Sequence[Mapping[str, Any]] = ()
    """Mini DNS for servers in this cluster."""
    outer_masters: Sequence[Mapping[str, Any]] = ()
    """Mini DNS for servers elsewhere."""
    servers: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Addresses of servers, by the name of their pool."""
    are_complete: bool = False
    """True if Kubernetes has assigned all of them."""


@dataclass(frozen=True, kw_only=True)
class Backend:
    """The servers of a pool, and what those need who command them."""

    component: str = ""
    """Component of its pods, if they are ours."""
    control: int = 0
    """Port of a server for commands."""
    steps: tuple[Step, ...] = ()
    servers: Sequence[Mapping[str, Any]]
    """Addresses at which Designate queries them."""
    targets: Sequence[Mapping[str, Any]]
    """Entries of the pool."""
    prerequisites: tuple[Step, ...] = ()
    """Steps before a program that commands them."""
    authorities: Mapping[str, str] = field(default_factory=dict[str, str])
    """Secrets with the authorities (`ca.crt`) that verify the APIs of PowerDNS, by the folder of their mount."""
    mounts: Sequence[kube.Mount] = ()
    """Further mounts of workers."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment of workers."""


def addresses(ctx: Context[DesignateSpec], servers: Mapping[str, Sequence[Object]]) -> Addresses:
    """Return the addresses of mini DNS and of these Services of `servers`, by pool, and how they are made; none until
    all are known. With another one, as after a Service was deleted, the pool is written again, which changes all zones
    on the servers.
    """
    type_ = ctx.spec.mdns.service_type
    mdns = pod_services(ctx, MDNS, ctx.spec.mdns, MDNS_PORT)
    if is_outside := type_ == "LoadBalancer":
        # Servers are known by their addresses.
        mdns = [_with(each, type=type_, externalTrafficPolicy="Local") for each in mdns]
    inner = [_address(ctx, each) for each in mdns]
    # Addresses of load balancers are for pools whose servers have no other ones.
    is_outer = is_outside and any(
        each.spec.external and not each.spec.external.primaries for each in server_pools(ctx.spec)
    )
    outer = [_outer_address(ctx, each) for each in mdns] if is_outer else inner
    of_pools = {pool: [_address(ctx, each) for each in services] for pool, services in servers.items()}
    is_complete = all((*inner, *outer, *(each for hosts in of_pools.values() for each in hosts)))
    step = Step(
        name="Addresses",
        objects=(*(kube.remembered(each) if is_outside else each for each in mdns), *chain(*servers.values())),
        barrier=True,
        verdict=READY if is_complete else progressing(_obstacle(ctx, mdns if is_outer else ())),
    )
    if not is_complete:
        return Addresses(step)
    masters, outer_masters = endpoints(inner, MDNS_PORT), endpoints(outer, MDNS_PORT)
    return Addresses(step, masters, outer_masters, of_pools, are_complete=True)


def pod_services(
    ctx: Context[DesignateSpec], component: str, program: ProgramSpec, port: int, **further: int
) -> Sequence[Object]:
    """Return a Service for each pod of a StatefulSet, at the port of DNS and `further` ports of TCP."""
    pods = kube.fitting(ctx.name(component), kube.STATEFUL_SET_LIMIT)
    target = kube.selector(ctx, component)
    return [
        service(ctx, ctx.name(component, str(number)), {**target, _POD: f"{pods}-{number}"}, port, further=further)
        for number in range(kube.replicas(ctx.spec.replicas, program.settings))
    ]


def _address(ctx: Context[DesignateSpec], service: Object) -> str:
    return ctx.children.get(("Service", service["metadata"]["name"]), {}).get("spec", {}).get("clusterIP", "")


def _outer_address(ctx: Context[DesignateSpec], service: Object) -> str:
    status = ctx.children.get(("Service", service["metadata"]["name"]), {}).get("status") or {}
    entries = (status.get("loadBalancer") or {}).get("ingress") or []
    return next((each["ip"] for each in entries if each.get("ip")), "")


def _obstacle(ctx: Context[DesignateSpec], balanced: Sequence[Object]) -> str:
    """Return what is waited for, with the first of these Services that has no address of a load balancer."""
    for each in balanced:
        name = each["metadata"]["name"]
        if _address(ctx, each) and not _outer_address(ctx, each):
            status = ctx.children["Service", name].get("status") or {}
            entries = (status.get("loadBalancer") or {}).get("ingress") or []
            hosts = [entry["hostname"] for entry in entries if entry.get("hostname")]
            state = f"has the host name {hosts[0]} and no IP address" if hosts else "has no IP address yet"
            return f"the load balancer of Service {name!r} {state}; name addresses of mini DNS in external.primaries"
    return "Kubernetes assigns addresses to mini DNS and servers"


def _with(service: Object, **fields: str) -> Object:
    return {**service, "spec": {**service["spec"], **fields}}


def mdns(ctx: Context[DesignateSpec], options: Sections, after: Sequence[Step]) -> tuple[Step, Step]:
    """Return the configuration of mini DNS, of the options of all programs, and StatefulSet `<owner>-mdns`."""
    conf = parts.config(ctx, FILE, mdns_options(options), defaults=mdns_options(DEFAULTS), suffix=f"{MDNS}-config")
    ready, settings = kube.Probe.of_worker(_LISTENS), parts.ProgramSettings(stable=True)
    pods = parts.worker(ctx, MDNS, conf, settings=ctx.spec.mdns.settings, after=after, ready=ready, program=settings)
    return conf, pods


def resolvers(ctx: Context[DesignateSpec], pools: Sequence[tuple[ServerPool, Backend]]) -> Step:
    """Return the Service `<owner>-dns` of each pool for resolvers, and NetworkPolicies, if the spec enables them."""
    services: list[Object] = []
    for pool, backend in pools:
        if backend.component:
            type_, name = pool.spec.servers.service_type, ctx.name(pool.prefixed(DNS))
            address = service(ctx, name, kube.selector(ctx, backend.component), SERVER_PORT, type_=type_)
            services.append(kube.remembered(address) if type_ == "NodePort" else address)
    return Step(name="DNS", objects=(*services, *_ingress(ctx, pools)))


def service(
    ctx: Context[DesignateSpec],
    name: str,
    target: Mapping[str, str],
    port: int,
    *,
    type_: str | None = None,
    further: Mapping[str, int] | None = None,
) -> Object:
    """Return a Service of DNS, by TCP and UDP: at port 53 if it has a type, at the port of its pods otherwise; and of
    `further` ports of TCP.
    """
    number = DNS_PORT if type_ else port
    ports = [
        {"name": f"dns-{protocol.lower()}", "port": number, "targetPort": port, "protocol": protocol}
        for protocol in ("TCP", "UDP")
    ]
    ports += [{"name": key, "port": each, "protocol": "TCP"} for key, each in (further or {}).items()]
    body = {"type": type_ or "ClusterIP", "selector": dict(target), "ports": ports}
    return kube.obj(ctx, "Service", name, spec=body)


def _ingress(ctx: Context[DesignateSpec], pools: Sequence[tuple[ServerPool, Backend]]) -> tuple[Object, ...]:
    """Return NetworkPolicies, if the spec enables them: everybody asks the servers, which have zones for that; programs
    of Designate command them; and servers transfer zones from mini DNS.
    """
    if not ctx.spec.network_policies.enabled:
        return ()
    programs = {"podSelector": {"matchLabels": kube.pods_of(ctx.kind, ctx.owner)}}
    blocks = [
        {"ipBlock": {"cidr": f"{each.address}/{128 if ':' in each.address else 32}"}}
        for pool, _ in pools
        for each in (pool.spec.external.servers if pool.spec.external else ())
    ]
    rules = {MDNS: [{"ports": _dns(MDNS_PORT), "from": [programs, *blocks]}]}
    for backend in (backend for _, backend in pools if backend.component):
        rules[backend.component] = [
            {"ports": _dns(SERVER_PORT)},
            {"ports": [{"port": backend.control, "protocol": "TCP"}], "from": [programs]},
        ]
    return tuple(kube.network_policy(ctx, ctx.name(name), kube.selector(ctx, name), rules[name]) for name in rules)


def _dns(port: int) -> list[dict[str, Any]]:
    return [{"port": port, "protocol": protocol} for protocol in ("TCP", "UDP")]
