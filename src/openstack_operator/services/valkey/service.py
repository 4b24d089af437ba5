"""Valkey: servers on a volume each, and a sentinel beside each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ... import kube, parts
from ...api import mebibytes
from ...parts.members import PEER_TLS_PHASE, POD_NAME, volume
from ...plan import Context, Plan
from . import exporter, sentinel
from .config import CONF, PORT, STATE, TLS, TLS_PORT, tls_options, valkey_conf
from .model import ValkeySpec
from .providers import provided


@dataclass(frozen=True)
class Listeners:
    """Listeners of servers and sentinels, for clients and for each other."""

    certificate: parts.Certified
    peer_tls: str
    """As `Cluster.peer_tls` says."""
    has_sentinels: bool

    def options(self, port: int) -> dict[str, Any]:
        """Return options of a server, or of a sentinel, that takes TLS on a port."""
        return tls_options(port, self.peer_tls) if self.certificate else {}

    def _ports_of(self, name: str, plain: int, port: int) -> dict[str, int]:
        plain_ports = {} if self.peer_tls == "only" else {name: plain}
        return {**plain_ports, **({f"{name}-tls": port} if self.certificate else {})}

    @property
    def server_ports(self) -> dict[str, int]:
        """Ports of a server."""
        return self._ports_of("valkey", PORT, TLS_PORT)

    @property
    def sentinel_ports(self) -> dict[str, int]:
        """Ports of a sentinel."""
        return self._ports_of("sentinel", sentinel.SENTINEL, sentinel.TLS_PORT)

    @property
    def ports(self) -> dict[str, int]:
        return {**self.server_ports, **(self.sentinel_ports if self.has_sentinels else {})}

    @property
    def sentinel_conf(self) -> str:
        """Lines of sentinel.conf that the sentinel itself must not change."""
        lines = {"port": sentinel.SENTINEL, **self.options(sentinel.TLS_PORT)}
        return "".join(f"{name} {value}\n" for name, value in lines.items())


def plan(ctx: Context[ValkeySpec]) -> Plan:
    """Return everything that a Valkey consists of; published: host, port, adminSecret (key `password`), sentinels
    (`host:port,…`, empty without them; the set they watch over is called `mymaster`), and trustSecret (key `ca.crt`) if
    clients are to check certificates: the ports speak TLS then. With sentinels, host is any of the servers.
    """
    spec, cluster = ctx.spec, parts.cluster(ctx)
    if plan_of_provider := provided(ctx):
        return plan_of_provider
    has_sentinels = spec.sentinel.enabled
    hosts = cluster.hosts(spec.replicas)
    # Sentinels remember it on their volumes.
    accounts = [exporter.ACCOUNT] if exporter.has_exporter(ctx) else []
    creds = parts.credentials(ctx, "password", *accounts, retain=spec.retention == "Retain")
    # Sentinels answer clients with the name of a server.
    certificate = parts.certified(ctx, ctx.name(), workloads=[cluster.key], also=[cluster.wildcard])
    peer_tls = cluster.peer_tls(certificate, closes=certificate.required)
    listeners = Listeners(certificate, peer_tls, has_sentinels)
    text = valkey_conf(
        spec.config,
        creds["password"],
        spec.memory,
        sentinels=has_sentinels,
        tls=listeners.options(TLS_PORT),
        accounts=[exporter.account(creds[name]) for name in accounts],
    )
    directory, _, file = CONF.rpartition("/")
    conf = parts.written(ctx, {file: text}, directory=directory)
    port, sentinel_port = (TLS_PORT, sentinel.TLS_PORT) if certificate.published else (PORT, sentinel.SENTINEL)
    host = cluster.host
    template = cluster.template(
        *_containers(ctx, cluster, creds, conf, listeners),
        config=conf,
        annotations={PEER_TLS_PHASE: peer_tls} if peer_tls else {},
    )
    server = cluster.step(
        template, ports=listeners.ports, replicas=spec.replicas, after=(creds, *certificate.steps, conf)
    )
    return Plan(
        # No service of the cloud uses it: it is for other clients.
        *parts.policies(ctx, parts.IngressRule("server", [*listeners.ports.values()], "namespace")),
        creds,
        *certificate.steps,
        conf,
        server,
        cluster.endpoint(listeners.ports, extra_objects=exporter.monitors(ctx, certificate)),
        endpoint=f"{host}:{sentinel_port if has_sentinels else port}",
        published={
            "host": host,
            "port": str(port),
            "adminSecret": creds.secret,
            "sentinels": ",".join(f"{member}:{sentinel_port}" for member in hosts) if has_sentinels else "",
            **certificate.published,
        },
    )


def _containers(
    ctx: Context[ValkeySpec],
    cluster: parts.Cluster,
    creds: parts.Credentials,
    conf: parts.Config,
    listeners: Listeners,
) -> Sequence[kube.Container]:
    """Return the server, and the sentinel beside it if there are several."""
    hosts = cluster.hosts(ctx.spec.replicas)
    secret = kube.folder("credentials", creds.secret, sentinel.SECRET_FOLDER)
    mounts = (volume(STATE, "valkey"), secret, *listeners.certificate.mounts(TLS))
    env = sentinel.env(certified=bool(listeners.certificate), peer_tls=bool(listeners.peer_tls))
    entry, watcher = ctx.release["valkey"], ctx.release["valkey-sentinel"]
    server = kube.Container(
        entry=entry,
        command=sentinel.start_server(entry.command, alone=True),
        env=env,
        ports=listeners.server_ports,
        mounts=(*mounts, *conf.mounts, *kube.scratch("/run", "/tmp")),  # noqa: S108
        ready=kube.Probe(command=sentinel.READY, period=5),
        alive=kube.Probe.of_connection(listeners.server_ports.get("valkey", 0), entry.commands["alive"]),
        # Besides what it holds: its tables, and what clients wait for.
        memory=f"{mebibytes(ctx.spec.memory) + 16}Mi",
        cpu="20m",
    )
    plain = "valkey" in listeners.server_ports
    exporters = exporter.containers(ctx, creds, listeners.certificate, plain=plain)
    if len(hosts) == 1:
        return (server, *exporters)
    member_env = {
        **POD_NAME,
        **env,
        "HOST": cluster.own_host,
        "VALKEY_HOSTS": " ".join(hosts),
        "VALKEY_QUORUM": str(len(hosts) // 2 + 1),
    }
    member = replace(
        server,
        command=sentinel.start_server(entry.command, alone=False),
        env=member_env,
        lifecycle={"preStop": {"exec": {"command": sentinel.STOP}}},
    )
    alive = kube.Probe.of_connection(listeners.sentinel_ports.get("sentinel", 0), watcher.commands["alive"])
    sentinel_container = kube.Container(
        entry=watcher,
        name="sentinel",
        command=sentinel.start_sentinel(watcher.command),
        env={**member_env, "SENTINEL_CONF": listeners.sentinel_conf},
        ports=listeners.sentinel_ports,
        mounts=(*mounts, *kube.scratch("/tmp")),  # noqa: S108
        ready=kube.Probe.of_worker(alive.command) if alive.command else alive,
        alive=alive,
        memory="16Mi",
    )
    return (member, sentinel_container, *exporters)
