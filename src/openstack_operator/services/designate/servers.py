"""The pods that speak DNS: mini DNS, with an address each, and BIND, which resolvers ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import kube, parts
from ...parts.cluster import volume
from ...plan import READY, Context, Object, Step, progressing
from .config import BIND_FOLDER, CONTROL_PORT, DNS_PORT, MDNS_PORT, SERVER_PORT, ZONES, named_conf
from .model import DesignateSpec, Program

MDNS, BIND9, DNS = "mdns", "bind9", "dns"
_POD = "statefulset.kubernetes.io/pod-name"
# The port is open when it is in the kernel's list as listening (0A).
_LISTENS = ("grep", "-qs", f":{MDNS_PORT:04X} 0*:0000 0A ", "/proc/net/tcp", "/proc/net/tcp6")


@dataclass(frozen=True)
class Addresses:
    """An address for each pod that speaks DNS: BIND wants them of mini DNS instead of names, and so does Designate of
    servers.
    """

    step: Step
    """A Service for each pod; not ready until Kubernetes has assigned all addresses."""
    mdns: Sequence[str]
    servers: Sequence[str]

    @property
    def are_complete(self) -> bool:
        """True if Kubernetes has assigned all of them."""
        return bool(self.servers)


def addresses(ctx: Context[DesignateSpec]) -> Addresses:
    """Return the addresses, and how they are made; none until all are known. With another one, as after a Service was
    deleted, the pool is written again, which changes all zones on the servers.
    """
    services = {
        MDNS: _services(ctx, MDNS, ctx.spec.mdns, MDNS_PORT),
        BIND9: _services(ctx, BIND9, ctx.spec.bind9, SERVER_PORT, control=CONTROL_PORT),
    }
    assigned = {name: [_address(ctx, each) for each in objects] for name, objects in services.items()}
    is_complete = all(address for of_component in assigned.values() for address in of_component)
    step = Step(
        name="Addresses",
        objects=(*services[MDNS], *services[BIND9]),
        barrier=True,
        verdict=READY if is_complete else progressing("Kubernetes assigns addresses to mini DNS and servers"),
    )
    return Addresses(step, assigned[MDNS], assigned[BIND9]) if is_complete else Addresses(step, (), ())


def _services(
    ctx: Context[DesignateSpec], component: str, program: Program, port: int, **further: int
) -> Sequence[Object]:
    pods = kube.fitting(ctx.name(component), kube.STATEFUL_SET_LIMIT)
    target = kube.selector(ctx, component)
    return [
        _service(ctx, ctx.name(component, str(number)), {**target, _POD: f"{pods}-{number}"}, port, further=further)
        for number in range(kube.replicas(ctx.spec.replicas, program.component))
    ]


def _address(ctx: Context[DesignateSpec], service: Object) -> str:
    return ctx.children.get(("Service", service["metadata"]["name"]), {}).get("spec", {}).get("clusterIP", "")


def mdns(ctx: Context[DesignateSpec], conf: parts.Config, after: Sequence[Step]) -> Step:
    """Return StatefulSet `<owner>-mdns`."""
    ready, program = kube.Probe.of_worker(_LISTENS), parts.Program(stable=True)
    return parts.worker(ctx, MDNS, conf, settings=ctx.spec.mdns.component, after=after, ready=ready, program=program)


def bind9(ctx: Context[DesignateSpec], keys: parts.Credentials) -> tuple[Step, ...]:
    """Return StatefulSet `<owner>-bind9` with its configuration, and the Service `<owner>-dns` for resolvers."""
    spec = ctx.spec.bind9
    conf = parts.written(ctx, {"named.conf": named_conf(keys)}, suffix="bind9-config", directory=BIND_FOLDER)
    main = kube.Container(
        component=parts.program(ctx, BIND9),
        ports={"dns": SERVER_PORT, "control": CONTROL_PORT},
        mounts=(*conf.mounts, volume(ZONES, "named"), *kube.scratch("/run", "/tmp")),  # noqa: S108
        ready=kube.Probe(tcp=SERVER_PORT),
        alive=kube.Probe(tcp=SERVER_PORT),
        memory="64Mi",
    )
    cluster = parts.cluster(ctx, BIND9, ctx.name(BIND9), storage=spec, path="spec.bind9")
    servers = cluster.step(
        cluster.template(main, config=conf),
        ports={"dns": SERVER_PORT, "control": CONTROL_PORT},
        replicas=kube.replicas(ctx.spec.replicas, spec.component),
        condition="Servers",
        after=(keys, conf),
        # Zones that were deleted since would come back with the volume of a server that is added again.
        keeps_volumes=False,
    )
    address = _service(ctx, ctx.name(DNS), kube.selector(ctx, BIND9), SERVER_PORT, type_=spec.service_type)
    remembered = kube.remembered(address) if spec.service_type == "NodePort" else address
    return conf, servers, Step(name="DNS", objects=(remembered, *_ingress(ctx)))


def _service(
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


def _ingress(ctx: Context[DesignateSpec]) -> tuple[Object, ...]:
    """Return NetworkPolicies, if the spec enables them: everybody asks BIND, which has zones for that; workers give it
    commands; and it transfers zones from mini DNS.
    """
    if not ctx.spec.network_policies.enabled:
        return ()
    programs = {"podSelector": {"matchLabels": kube.pods_of(ctx.kind, ctx.owner)}}
    rules = {
        BIND9: [
            {"ports": _dns(SERVER_PORT)},
            {"ports": [{"port": CONTROL_PORT, "protocol": "TCP"}], "from": [programs]},
        ],
        MDNS: [{"ports": _dns(MDNS_PORT), "from": [programs]}],
    }
    return tuple(kube.network_policy(ctx, ctx.name(name), kube.selector(ctx, name), rules[name]) for name in rules)


def _dns(port: int) -> list[dict[str, Any]]:
    return [{"port": port, "protocol": protocol} for protocol in ("TCP", "UDP")]
