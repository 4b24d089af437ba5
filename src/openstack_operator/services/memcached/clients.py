"""The certificate that clients show to a Memcached, which has no accounts, and the time from which it demands one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ... import kube, parts
from ...parts import delegate
from ...parts.secrets.rotation import read_by
from ...plan import Context, State, Step, Verdict
from .model import MemcachedSpec

DEMANDS = "ssl_verify_mode=2"
"""Option of memcached: it closes a connection without a certificate by its authority."""
_RETRY = timedelta(seconds=15)
"""Time until the operator looks at the clients again."""
_LIST_LIMIT = 12


def servers(ctx: Context[Any]) -> parts.Cluster:
    """Return the servers, whose Service has the name of their owner."""
    return parts.cluster(ctx, service=ctx.name())


def client_certificate(ctx: Context[MemcachedSpec]) -> parts.Certified:
    """Return Secret `<owner>-client-tls`, which all clients share, if a PKI makes certificates. Its names are none of
    the servers', so that no client can pose as one.
    """
    if ctx.spec.tls is None or ctx.spec.tls.pki_ref is None:
        return parts.Certified()
    return parts.certified(ctx, ctx.name("client"), workloads=(), name="client-tls", calls=True)


def awaits_clients(ctx: Context[MemcachedSpec]) -> bool:
    """Return True if the operator has to know the client pods: servers are to demand certificates, and do not yet."""
    tls = ctx.spec.tls
    may_be_builtin = ctx.spec.provider in {delegate.BUILTIN, delegate.AUTO}
    return bool(may_be_builtin and tls and tls.pki_ref and tls.announced and tls.required) and not _demands(ctx)


def _demands(ctx: Context[Any]) -> bool:
    """Return True if the servers demand them already; they go on to, even if another client comes without one."""
    live = servers(ctx).live
    containers = live["spec"]["template"]["spec"]["containers"] if live else ()
    return any(DEMANDS in word for container in containers for word in container.get("command") or ())


def pods_without_certificate(ctx: Context[MemcachedSpec], secret: str) -> list[str]:
    """Return pods that may be clients and do not mount the certificate, as `Kind/name`: existing ones whose
    configuration names a server of this Memcached.
    """
    if _demands(ctx):
        return []
    if "pods" not in ctx.facts:
        return ["the state of its clients"] if servers(ctx).live else []
    address = f".{servers(ctx).domain}:"
    configs = {
        item["metadata"]["name"]
        for item in ctx.facts["secrets"]
        if any(address in text for text in kube.secret_data(item).values())
    }
    pods = ((pod["metadata"]["name"], set(read_by(pod))) for pod in ctx.facts["pods"])
    return sorted(f"Pod/{name}" for name, secrets in pods if configs & secrets and secret not in secrets)


def progress(ctx: Context[Any], pods: list[str]) -> Step:
    """Return a step that says for which pods the servers still wait; they work all the while."""
    names = ", ".join([*pods[:_LIST_LIMIT], *([f"{len(pods) - _LIST_LIMIT} more"] if pods[_LIST_LIMIT:] else [])])
    text = f"certificates are not required yet; clients without one: {names}" if pods else ""
    return Step(name="Clients", verdict=Verdict(State.READY, text), wake=ctx.now + _RETRY if pods else None)
