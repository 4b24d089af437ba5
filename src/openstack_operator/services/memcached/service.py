"""Memcached: servers that know nothing of each other; clients find each by its own name."""

from __future__ import annotations

from dataclasses import replace

from ... import agents, kube, parts
from ...api import mebibytes
from ...parts.secrets.cache_certificate import CACHE_CLIENT
from ...plan import Context, Plan
from . import exporter
from .clients import DEMANDS, client_certificate, pods_without_certificate, progress, servers
from .model import MemcachedSpec
from .providers import provided

PORT, TLS_PORT = 11211, 11212
TLS = "/etc/memcached/tls"
"""Folder of the certificate and its key."""


def plan(ctx: Context[MemcachedSpec]) -> Plan:
    """Return everything that a Memcached consists of; published: servers (`host:port,host:port`), trustSecret (key
    `ca.crt`) if clients are to check the certificate: the ports speak TLS then; clientSecret if they are to show one.
    """
    spec, cluster = ctx.spec, servers(ctx)
    if plan_of_provider := provided(ctx):
        return plan_of_provider
    # Clients call each server by its own name.
    certificate = parts.certified(ctx, cluster.service, workloads=[cluster.key], also=[cluster.wildcard])
    client = client_certificate(ctx)
    demands = certificate.required and bool(client)
    pods = pods_without_certificate(ctx, client.secret) if demands else []
    ports = {
        **({} if certificate.required else {"memcached": PORT}),
        **({"memcached-tls": TLS_PORT} if certificate else {}),
    }
    main = _server(ctx, certificate, ports, demands=demands and not pods)
    template = cluster.template(main, *exporter.containers(ctx, certificate, TLS, PORT), grace=5)
    server = cluster.step(template, ports=ports, replicas=spec.replicas, after=certificate.steps)
    server = replace(server, objects=(*server.objects, *exporter.monitors(ctx, certificate)))
    port = TLS_PORT if certificate.published else PORT
    addresses = ",".join(f"{host}:{port}" for host in cluster.hosts(spec.replicas))
    client_secret = {CACHE_CLIENT: client.secret} if certificate.published and client else {}
    published = {"servers": addresses, **certificate.published, **client_secret}
    waiting = (progress(ctx, pods),) if demands else ()
    steps = (*certificate.steps, *client.steps, *parts.policies(ctx), server, *waiting)
    return Plan(*steps, endpoint=addresses or None, published=published)


def _server(
    ctx: Context[MemcachedSpec], certificate: parts.Certified, ports: dict[str, int], *, demands: bool
) -> kube.Container:
    spec, entry = ctx.spec, ctx.release["memcached"]
    # A server takes plain text from itself in any case, for orders to reload its certificate and for probes.
    # It keeps the families apart, and commands of the pod itself come by IPv4.
    hosts = ["[::]", "0.0.0.0"] if ctx.is_ipv6 else ["0.0.0.0"]  # noqa: S104
    plain = ["127.0.0.1"] if certificate.required else hosts
    encrypted = [f"{host}:{TLS_PORT}" for host in hosts]
    listen = ",".join([*(f"notls:{host}:{PORT}" for host in plain), *encrypted] if certificate else hosts)
    command = [
        *(word.format(listen=listen, port=PORT) for word in entry.command),
        *("-m", str(mebibytes(spec.memory))),
        *("-c", str(spec.max_connections)),
    ]
    if certificate:
        files = f"ssl_chain_cert={TLS}/tls.crt,ssl_key={TLS}/tls.key"
        files += f",ssl_ca_cert={TLS}/ca.crt,{DEMANDS}" if demands else ""
        words, programs = [*command, "-Z", "-o", files], ("tls/reload_on_change.sh", "memcached/start.sh")
        command = agents.shell(*programs, words=words, options="-c")
    probe = agents.shell("memcached/alive.sh", words=[str(PORT)], options="-c")
    alive = kube.Probe.of_connection(ports.get("memcached", 0), probe)
    return kube.Container(
        entry=entry,
        command=command,
        env={"TLS_FOLDER": TLS, "PLAIN_PORT": str(PORT)} if certificate else {},
        ports=ports,
        mounts=certificate.mounts(TLS),
        ready=kube.Probe.of_worker(alive.command) if alive.command else alive,
        alive=alive,
        # Besides what it remembers: its threads, its hash table, and what some hundred connections take to encrypt.
        memory=f"{mebibytes(spec.memory) + (24 if certificate else 16)}Mi",
        # If its answer is late, services ask Keystone instead, which takes far more.
        cpu="20m",
    )
