"""A Valkey that SAP's valkey-operator runs, or an external one."""

from __future__ import annotations

from typing import Any

from ...api import mebibytes
from ...parts import delegate
from ...plan import Context, IgnoredFields, Kind, Plan, SpecError, Step, url_host
from . import sentinel
from .config import PORT, TLS_PORT, provided_flags
from .model import ValkeySpec

API, KIND = "cache.cs.sap.com/v1alpha1", "Valkey.cache.cs.sap.com"
OPERATOR = "valkey-operator"
KINDS = (Kind(API, "Valkey", "valkeys", project=OPERATOR, operator=OPERATOR),)


def _delegated(ctx: Context[ValkeySpec]) -> Plan:
    """Return the plan of a Valkey of cache.cs.sap.com, whose objects are called `valkey-<name>`; its operator makes the
    password and the certificate. Sentinels watch over a set called `myprimary` there.
    """
    spec, name = ctx.spec, ctx.name()
    delegate.reject_unsupported(ctx, OPERATOR, "image")
    if spec.tls and spec.tls.secret_ref:
        text = "valkey-operator issues its own certificates; use pkiRef, or provider builtin"
        raise SpecError("spec.tls.secretRef", text)
    has_sentinels, delegated_name = spec.sentinel.enabled, f"valkey-{name}"
    host = ctx.host(delegated_name if has_sentinels else f"{delegated_name}-primary")
    at = f"{host}:{sentinel.SENTINEL if has_sentinels else PORT}"
    resource = delegate.resource(ctx, "Valkey", name, API, _spec(ctx))
    return Plan(
        Step(name="Server", objects=(resource,)),
        endpoint=at,
        published={
            "host": host,
            "port": str(PORT),
            "adminSecret": delegated_name,
            "sentinels": at if has_sentinels else "",
        },
    )


def _spec(ctx: Context[ValkeySpec]) -> dict[str, Any]:
    spec = ctx.spec
    pods = {"app.kubernetes.io/name": "valkey", "app.kubernetes.io/instance": ctx.name()}
    return {
        "replicas": spec.replicas,
        "sentinel": {"enabled": spec.sentinel.enabled},
        "persistence": {"enabled": True, "size": spec.storage_size, "storageClass": spec.storage_class_name},
        "tls": {"enabled": True} if spec.tls else None,
        "resources": delegate.resources(ctx, cpu="20m", memory=f"{mebibytes(spec.memory) + 16}Mi"),
        "extraFlags": provided_flags(spec.config, spec.memory),
        **delegate.placement(ctx, pods, several=spec.replicas > 1),
    }


def _external(ctx: Context[ValkeySpec]) -> Plan:
    """Return the plan of an external Valkey: its address and its password."""
    server = delegate.declared_server(ctx.spec.external)
    admin = delegate.external(ctx, server, "user", "password")
    port = server.port or (TLS_PORT if admin.at.trust else PORT)
    published = {"host": server.host, "port": str(port), "sentinels": "", **admin.published}
    return Plan(*admin.steps, endpoint=f"{url_host(server.host)}:{port}", published=published)


def provided(ctx: Context[ValkeySpec]) -> Plan | None:
    """Return the plan of a Valkey that another provider runs; None for a builtin one. Raises SpecError if another
    provider has run it before.
    """
    return delegate.plan(ctx, OPERATOR, KIND, _delegated, _external)


def ignored(ctx: Context[ValkeySpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the provider leaves without effect."""
    issued = "valkey-operator always uses TLS with its own certificates; remove it"
    return delegate.ignored_elsewhere(ctx) | delegate.ignored_when_delegated(
        plan,
        OPERATOR,
        KIND,
        imageProfile="valkey-operator chooses the image; remove it",
        retention="valkey-operator keeps the volumes; delete the claims yourself",
        tls=issued,
        monitoring="valkey-operator has its own monitors; see `metrics` of its Valkey",
    )
