"""The certificate that clients show to a Memcached, which has no accounts, and from when on it demands one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ... import kube, parts
from ...plan import Context, State, Step, Verdict
from .model import MemcachedSpec

DEMANDS = "ssl_verify_mode=2"
"""Option of memcached: a connection without a certificate by its authority is closed."""
_AGAIN = timedelta(seconds=15)
"""Until clients are looked at again."""
_LISTED = 12


def server_name(ctx: Context[Any]) -> str:
    """Name of the StatefulSet."""
    return kube.fitting(ctx.name("server"), kube.STATEFUL_SET_LIMIT)


def client_certificate(ctx: Context[MemcachedSpec]) -> parts.Certified:
    """Secret `<owner>-client-tls`, which all clients share, where a PKI makes certificates. Its names are none of the
    servers', so that no client can pose as one.
    """
    if ctx.spec.tls is None or ctx.spec.tls.pki_ref is None:
        return parts.Certified()
    return parts.certified(ctx, ctx.name("client"), workloads=(), name="client-tls", calls=True)


def awaits_clients(ctx: Context[MemcachedSpec]) -> bool:
    """Whether it has to be known which pods are clients: the servers are to demand certificates, and do not yet."""
    tls = ctx.spec.tls
    ours = ctx.spec.provider in {parts.BUILTIN, parts.AUTO}
    return bool(ours and tls and tls.pki_ref and tls.announced and tls.required) and not _demands(ctx)


def _demands(ctx: Context[Any]) -> bool:
    """Whether the servers were told so before; it stays, whoever else comes without."""
    live = ctx.children.get(("StatefulSet", server_name(ctx)))
    containers = live["spec"]["template"]["spec"]["containers"] if live else ()
    return any(DEMANDS in word for container in containers for word in container.get("command") or ())


def without_certificate(ctx: Context[MemcachedSpec], secret: str) -> list[str]:
    """Pods that may be clients and do not mount the certificate, as `Kind/name`: of those there are, whose
    configuration names a server of this Memcached.
    """
    if _demands(ctx):
        return []
    if "pods" not in ctx.facts:
        is_new = ("StatefulSet", server_name(ctx)) not in ctx.children
        return [] if is_new else ["what the cluster says of its clients"]
    servers = f".{ctx.host(kube.fitting(ctx.owner))}:"
    configs = {
        item["metadata"]["name"]
        for item in ctx.facts["secrets"]
        if any(servers in text for text in kube.secret_data(item).values())
    }
    found = ((pod["metadata"]["name"], set(parts.read_by(pod))) for pod in ctx.facts["pods"])
    return sorted(f"Pod/{name}" for name, secrets in found if configs & secrets and secret not in secrets)


def progress(ctx: Context[Any], waits: list[str]) -> Step:
    """A step that says for whom the servers still wait; they work all the while."""
    listed = ", ".join([*waits[:_LISTED], *([f"{len(waits) - _LISTED} more"] if waits[_LISTED:] else [])])
    text = f"clients need no certificate yet; waits for those without one: {listed}" if waits else ""
    return Step(name="Clients", verdict=Verdict(State.READY, text), wake=ctx.now + _AGAIN if waits else None)
