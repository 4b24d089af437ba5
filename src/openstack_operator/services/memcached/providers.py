"""A Memcached that memcached-operator runs, or that is not looked after here."""

from __future__ import annotations

from typing import Any

from ... import kube, parts
from ...api import mebibytes
from ...plan import Context, Plan, SpecError, Step
from .model import MemcachedSpec

API, THEIRS = "memcached.c5c3.io/v1beta1", "Memcached.memcached.c5c3.io"
OPERATOR = "memcached-operator"
PORT = 11211
_MOST = 65536
"""MiB; so says its definition."""


def provider(ctx: Context[MemcachedSpec]) -> str:
    """Who runs it. Raises SpecError where that was somebody else before."""
    server = kube.fitting(ctx.name("server"), kube.STATEFUL_SET_LIMIT)
    return parts.provider(
        ctx,
        OPERATOR,
        THEIRS,
        builtin=("StatefulSet", server) in ctx.children,
        memcached_operator=(THEIRS, kube.fitting(ctx.owner)) in ctx.children,
    )


def ordered(spec: MemcachedSpec) -> bool:
    """Whether it is there until its servers are gone: memcached-operator makes the pods of one that goes anew, unless
    it goes before them, which Kubernetes alone would not see to.
    """
    return spec.provider in {OPERATOR, parts.AUTO}


def delegated(ctx: Context[MemcachedSpec]) -> Plan:
    """Memcached of memcached.c5c3.io; published is one address for all of its servers, since none has a name of its
    own. With a certificate they take nothing but TLS, at the usual port.
    """
    spec, name = ctx.spec, kube.fitting(ctx.owner)
    parts.unserved(ctx, OPERATOR, "node_selector", "tolerations", "affinity", "priority_class_name")
    if mebibytes(spec.memory) > _MOST:
        raise SpecError("spec.memory", f"memcached-operator takes {_MOST} at most; lower it, or choose builtin")
    if not spec.replicas:
        # It would never be Ready.
        return Plan(published={"servers": ""})
    shown = parts.certified(ctx, name, workloads=[(THEIRS, name)])
    wanted = parts.served_by(ctx, "Memcached", name, API, _spec(ctx, shown))
    server = Step(name="Server", objects=(wanted,), after=shown.steps)
    servers = f"{ctx.host(name)}:{PORT}"
    return Plan(*shown.steps, server, endpoint=servers, published={"servers": servers, **shown.published})


def _spec(ctx: Context[MemcachedSpec], shown: parts.Certified) -> dict[str, Any]:
    spec = ctx.spec
    constraints = spec.topology_spread_constraints
    tls = {"enabled": True, "certificateSecretRef": {"name": shown.secret}}
    return {
        "replicas": spec.replicas,
        "image": parts.image(ctx, "memcached"),
        "memcached": {"maxMemoryMB": mebibytes(spec.memory), "maxConnections": spec.max_connections},
        "resources": parts.sized(ctx, cpu="20m", memory=f"{mebibytes(spec.memory) + (24 if shown else 16)}Mi"),
        "highAvailability": {
            "antiAffinityPreset": spec.anti_affinity or "soft",
            "topologySpreadConstraints": list(constraints) if constraints else None,
        },
        "security": {"tls": tls} if shown else None,
    }


def external(ctx: Context[MemcachedSpec]) -> Plan:
    """The addresses of servers that are not looked after here."""
    server = parts.declared_server(ctx.spec.external)
    if ctx.spec.tls:
        raise SpecError("spec.tls", "servers of others are spoken to in plain text; remove it")
    servers = ",".join(each if ":" in each else f"{each}:{PORT}" for each in server.servers)
    return Plan(endpoint=servers, published={"servers": servers})
