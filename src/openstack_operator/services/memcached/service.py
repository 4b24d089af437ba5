"""Memcached: servers that know nothing of each other; clients find each by its own name."""

from __future__ import annotations

from ... import kube, parts
from ...plan import Context, Plan
from .model import MemcachedSpec

PORT = 11211


def plan(ctx: Context[MemcachedSpec]) -> Plan:
    """Everything a Memcached is made of; published: servers (`host:port,host:port`)."""
    spec = ctx.spec
    program = ctx.release["memcached"]
    main = kube.Container(
        component=program,
        command=[
            *(word.format(port=PORT) for word in program.command),
            *("-m", str(spec.memory_mb)),
            *("-c", str(spec.max_connections)),
        ],
        ports={"memcached": PORT},
        ready=kube.Probe(tcp=PORT),
        alive=kube.Probe(tcp=PORT),
        # Besides what it remembers: its threads, and its hash table.
        memory=f"{spec.memory_mb + 16}Mi",
        # Where its answer is late, Keystone is asked instead, which takes far more.
        cpu="20m",
    )
    template = kube.pod(ctx, "server", main, wanted=kube.settings(spec), grace=5)
    server = parts.members(
        ctx, "server", template, service=ctx.owner, ports={"memcached": PORT}, replicas=spec.replicas
    )
    servers = ",".join(f"{host}:{PORT}" for host in server.hosts)
    return Plan(server, endpoint=servers or None, published={"servers": servers})
