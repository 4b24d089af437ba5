"""A Valkey that SAP's valkey-operator runs, or that is not looked after here."""

from __future__ import annotations

from typing import Any

from ... import kube, parts
from ...api import mebibytes
from ...plan import Context, Plan, SpecError, Step
from . import sentinel
from .config import ENCRYPTED, PORT, provided_flags
from .model import ValkeySpec

API, THEIRS = "cache.cs.sap.com/v1alpha1", "Valkey.cache.cs.sap.com"
OPERATOR = "valkey-operator"


def provider(ctx: Context[ValkeySpec]) -> str:
    """Who runs it. Raises SpecError where that was somebody else before."""
    return parts.provider(
        ctx,
        OPERATOR,
        THEIRS,
        builtin=("Secret", kube.fitting(ctx.name("credentials"))) in ctx.children,
        valkey_operator=(THEIRS, kube.fitting(ctx.owner)) in ctx.children,
        external=("Secret", kube.fitting(ctx.name("admin"))) in ctx.children,
    )


def delegated(ctx: Context[ValkeySpec]) -> Plan:
    """Valkey of cache.cs.sap.com, whose objects are called `valkey-<name>`; its password is of its own making, and so
    is its certificate. Sentinels watch over a set called `myprimary` there.
    """
    spec, name = ctx.spec, kube.fitting(ctx.owner)
    parts.unserved(ctx, OPERATOR, "image")
    if spec.tls and spec.tls.secret_ref:
        text = "valkey-operator makes certificates of its own; name a PKI, or choose provider builtin"
        raise SpecError("spec.tls.secretRef", text)
    watched, theirs = spec.sentinel.enabled, f"valkey-{name}"
    host = ctx.host(theirs if watched else f"{theirs}-primary")
    at = f"{host}:{sentinel.SENTINEL if watched else PORT}"
    wanted = parts.served_by(ctx, "Valkey", name, API, _spec(ctx))
    return Plan(
        Step(name="Server", objects=(wanted,)),
        endpoint=at,
        published={
            "host": host,
            "port": str(PORT),
            "adminSecret": theirs,
            "sentinels": at if watched else "",
        },
    )


def _spec(ctx: Context[ValkeySpec]) -> dict[str, Any]:
    spec = ctx.spec
    pods = {"app.kubernetes.io/name": "valkey", "app.kubernetes.io/instance": kube.fitting(ctx.owner)}
    return {
        "replicas": spec.replicas,
        "sentinel": {"enabled": spec.sentinel.enabled},
        "persistence": {"enabled": True, "size": spec.storage_size, "storageClass": spec.storage_class_name},
        "tls": {"enabled": True} if spec.tls else None,
        "resources": parts.sized(ctx, cpu="20m", memory=f"{mebibytes(spec.memory) + 16}Mi"),
        "extraFlags": provided_flags(spec.config, spec.memory),
        **parts.placed_by_others(ctx, pods, several=spec.replicas > 1),
    }


def external(ctx: Context[ValkeySpec]) -> Plan:
    """The address of a Valkey and its password."""
    server = parts.declared_server(ctx.spec.external)
    found = parts.external(ctx, server, "user", "password")
    port = server.port or (ENCRYPTED if found.at.trust else PORT)
    published = {"host": server.host, "port": str(port), "sentinels": "", **found.published}
    return Plan(*found.steps, endpoint=f"{server.host}:{port}", published=published)
