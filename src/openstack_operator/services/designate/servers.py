"""The pods that speak DNS: mini DNS, with an address each, and the servers that resolvers ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ... import kube, parts
from ...api import Sections
from ...plan import READY, Context, Object, Step, progressing
from .config import DEFAULTS, DNS_PORT, FILE, MDNS_PORT, SERVER_PORT, mdns_options
from .model import DesignateSpec, Program

MDNS, DNS = "mdns", "dns"
_POD = "statefulset.kubernetes.io/pod-name"
# The port is open when it is in the kernel's list as listening (0A).
_LISTENS = ("grep", "-qs", f":{MDNS_PORT:04X} 0*:0000 0A ", "/proc/net/tcp", "/proc/net/tcp6")


@dataclass(frozen=True)
class Addresses:
    """Addresses of all that speaks DNS: servers want them of mini DNS instead of names, and Designate of servers."""

    step: Step
    """The Services; not ready until Kubernetes has assigned all addresses."""
    mdns: Sequence[str]
    servers: Sequence[str]

    @property
    def are_complete(self) -> bool:
        """True if Kubernetes has assigned all of them."""
        return bool(self.servers)


@dataclass(frozen=True, kw_only=True)
class Backend:
    """The servers of the pool, and what those need who command them."""

    component: str
    control: int
    """Port of a server for commands."""
    steps: tuple[Step, ...]
    targets: Sequence[Mapping[str, Any]]
    """Entries of the pool."""
    needs: tuple[Step, ...]
    """Steps before a program that commands them."""
    trust: Sequence[kube.Mount] = ()
    """Authorities with which such a program verifies them."""
    mounts: Sequence[kube.Mount] = ()
    """Further mounts of workers."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment of workers."""


def addresses(ctx: Context[DesignateSpec], servers: Sequence[Object]) -> Addresses:
    """Return the addresses of mini DNS and of these Services of `servers`, and how they are made; none until all are
    known. With another one, as after a Service was deleted, the pool is written again, which changes all zones on the
    servers.
    """
    mdns = pod_services(ctx, MDNS, ctx.spec.mdns, MDNS_PORT)
    mdns_options, of_servers = ([_address(ctx, each) for each in services] for services in (mdns, servers))
    is_complete = all((*mdns_options, *of_servers))
    step = Step(
        name="Addresses",
        objects=(*mdns, *servers),
        barrier=True,
        verdict=READY if is_complete else progressing("Kubernetes assigns addresses to mini DNS and servers"),
    )
    return Addresses(step, mdns_options, of_servers) if is_complete else Addresses(step, (), ())


def pod_services(
    ctx: Context[DesignateSpec], component: str, program: Program, port: int, **further: int
) -> Sequence[Object]:
    """Return a Service for each pod of a StatefulSet, at the port of DNS and `further` ports of TCP."""
    pods = kube.fitting(ctx.name(component), kube.STATEFUL_SET_LIMIT)
    target = kube.selector(ctx, component)
    return [
        service(ctx, ctx.name(component, str(number)), {**target, _POD: f"{pods}-{number}"}, port, further=further)
        for number in range(kube.replicas(ctx.spec.replicas, program.component))
    ]


def _address(ctx: Context[DesignateSpec], service: Object) -> str:
    return ctx.children.get(("Service", service["metadata"]["name"]), {}).get("spec", {}).get("clusterIP", "")


def mdns(ctx: Context[DesignateSpec], options: Sections, after: Sequence[Step]) -> tuple[Step, Step]:
    """Return the configuration of mini DNS, of the options of all programs, and StatefulSet `<owner>-mdns`."""
    conf = parts.config(ctx, FILE, mdns_options(options), defaults=mdns_options(DEFAULTS), suffix=f"{MDNS}-config")
    ready, program = kube.Probe.of_worker(_LISTENS), parts.Program(stable=True)
    pods = parts.worker(ctx, MDNS, conf, settings=ctx.spec.mdns.component, after=after, ready=ready, program=program)
    return conf, pods


def resolvers(ctx: Context[DesignateSpec], backend: Backend) -> Step:
    """Return the Service `<owner>-dns` for resolvers, and NetworkPolicies, if the spec enables them."""
    type_ = ctx.spec.servers.service_type
    address = service(ctx, ctx.name(DNS), kube.selector(ctx, backend.component), SERVER_PORT, type_=type_)
    remembered = kube.remembered(address) if type_ == "NodePort" else address
    return Step(name="DNS", objects=(remembered, *_ingress(ctx, backend)))


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


def _ingress(ctx: Context[DesignateSpec], backend: Backend) -> tuple[Object, ...]:
    """Return NetworkPolicies, if the spec enables them: everybody asks the servers, which have zones for that; programs
    of Designate command them; and servers transfer zones from mini DNS.
    """
    if not ctx.spec.network_policies.enabled:
        return ()
    programs = {"podSelector": {"matchLabels": kube.pods_of(ctx.kind, ctx.owner)}}
    rules = {
        backend.component: [
            {"ports": _dns(SERVER_PORT)},
            {"ports": [{"port": backend.control, "protocol": "TCP"}], "from": [programs]},
        ],
        MDNS: [{"ports": _dns(MDNS_PORT), "from": [programs]}],
    }
    return tuple(kube.network_policy(ctx, ctx.name(name), kube.selector(ctx, name), rules[name]) for name in rules)


def _dns(port: int) -> list[dict[str, Any]]:
    return [{"port": port, "protocol": protocol} for protocol in ("TCP", "UDP")]
