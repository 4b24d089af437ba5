"""A Memcached that memcached-operator runs, or an external one."""

from __future__ import annotations

from typing import Any

from ... import parts
from ...api import mebibytes
from ...parts import delegate
from ...parts.connect.caches import check_servers
from ...plan import Context, IgnoredFields, Kind, Plan, SpecError, Step
from .clients import servers
from .model import MemcachedSpec

API, KIND = "memcached.c5c3.io/v1beta1", "Memcached.memcached.c5c3.io"
OPERATOR = "memcached-operator"
KINDS = (Kind(API, "Memcached", "memcacheds", project=OPERATOR, operator=OPERATOR, recreates_children=True),)
PORT = 11211
_MEMORY_LIMIT = 65536
"""MiB, by its definition."""


def ordered_teardown(spec: MemcachedSpec) -> bool:
    """Return True if it has to exist until its servers are gone: memcached-operator makes the pods of a deleted one
    again, unless that goes before them, which Kubernetes alone would not see to.
    """
    return spec.provider in {OPERATOR, delegate.AUTO}


def _delegated(ctx: Context[MemcachedSpec]) -> Plan:
    """Return the plan of a Memcached of memcached.c5c3.io; published is one address for all of its servers, since none
    has a name of its own. With a certificate they take nothing but TLS, at the usual port.
    """
    spec, name = ctx.spec, ctx.name()
    delegate.reject_unsupported(ctx, OPERATOR, "node_selector", "tolerations", "affinity", "priority_class_name")
    if mebibytes(spec.memory) > _MEMORY_LIMIT:
        raise SpecError(
            "spec.memory", f"memcached-operator allows {_MEMORY_LIMIT} at most; lower it, or choose provider builtin"
        )
    if not spec.replicas:
        # It would never be Ready.
        return Plan(published={"servers": ""})
    certificate = parts.certified(ctx, name, workloads=[(KIND, name)])
    resource = delegate.resource(ctx, "Memcached", name, API, _spec(ctx, certificate))
    server = Step(name="Server", objects=(resource,), after=certificate.steps)
    servers = f"{ctx.host(name)}:{PORT}"
    return Plan(*certificate.steps, server, endpoint=servers, published={"servers": servers, **certificate.published})


def _spec(ctx: Context[MemcachedSpec], certificate: parts.Certified) -> dict[str, Any]:
    spec = ctx.spec
    constraints = spec.topology_spread_constraints
    tls = {"enabled": True, "certificateSecretRef": {"name": certificate.secret}}
    return {
        "replicas": spec.replicas,
        "image": delegate.image(ctx, "memcached"),
        "memcached": {"maxMemoryMB": mebibytes(spec.memory), "maxConnections": spec.max_connections},
        "resources": delegate.resources(
            ctx, cpu="20m", memory=f"{mebibytes(spec.memory) + (24 if certificate else 16)}Mi"
        ),
        "highAvailability": {
            "antiAffinityPreset": spec.anti_affinity or "soft",
            "topologySpreadConstraints": list(constraints) if constraints else None,
        },
        "security": {"tls": tls} if certificate else None,
    }


def _external(ctx: Context[MemcachedSpec]) -> Plan:
    """Return the plan of external servers."""
    server = delegate.declared_server(ctx.spec.external)
    if ctx.spec.tls:
        raise SpecError("spec.tls", "external servers are used without TLS; remove it")
    check_servers("spec.external.servers", server.servers)
    servers = ",".join(each if ":" in each else f"{each}:{PORT}" for each in server.servers)
    return Plan(endpoint=servers, published={"servers": servers})


def provided(ctx: Context[MemcachedSpec]) -> Plan | None:
    """Return the plan of a Memcached that another provider runs; None for a builtin one. Raises SpecError if another
    provider has run it before.
    """
    return delegate.plan(ctx, OPERATOR, KIND, _delegated, _external, builtin=servers(ctx).live is not None)


def ignored(ctx: Context[MemcachedSpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the provider leaves without effect."""
    monitors = f"{OPERATOR} has its own monitors; see `monitoring` of its Memcached"
    return delegate.ignored_elsewhere(ctx) | delegate.ignored_when_delegated(plan, OPERATOR, KIND, monitoring=monitors)
