"""K-ORC as the manager of users and services: its login, and its resources for what Keystone begins with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ... import kube
from ...parts import delegate
from ...parts.connect.korc import DOMAIN as KORC_DOMAIN
from ...parts.connect.korc import MANAGED_KINDS, managed, unmanaged
from ...parts.connect.korc import OPERATOR as KORC_OPERATOR
from ...plan import READY, Context, Object, SpecError, Step, progressing
from .application import Login
from .model import KeystoneSpec, SecretStore

CLOUDS = "k-orc-clouds-yaml"
"""Secret with which K-ORC logs in; users' own resources of K-ORC may name it in their manifests."""
PROVIDER = "spec.catalog.provider"
_STORE = "spec.catalog.secretStoreRef"
_ROLES = ("admin", "manager", "member", "reader", "service")
"""Roles that `keystone-manage bootstrap` creates."""
_PROJECT = "service"
"""Project of service users; `keystone-manage bootstrap` does not create it."""
SECRETS = "external-secrets.io"
"""API group of the operator that copies Secrets to and from a store."""
_REFRESH = "5m"


def uses_korc(ctx: Context[KeystoneSpec]) -> bool:
    """Return True if K-ORC manages the catalog. Raise SpecError if the spec asks for another provider than the one in
    Keystone's own entry, which is the first one of a catalog.
    """
    provider = ctx.spec.catalog.provider
    entry = ctx.live("KeystoneService", "catalog")
    current = entry["spec"].get("provider", delegate.BUILTIN) if entry else ""
    if provider == delegate.AUTO:
        if not current:
            ctx.installed_kinds.check_permitted(f"{PROVIDER} {provider} (or choose {delegate.BUILTIN})", *MANAGED_KINDS)
        return current == KORC_OPERATOR if current else not ctx.installed_kinds.missing(*MANAGED_KINDS)
    if current and provider != current:
        text = f"{current} manages the users and services of this Keystone, which cannot change; set {current} or auto"
        raise SpecError(
            PROVIDER, f"{text} (in a control plane: korc.enabled {str(current != delegate.BUILTIN).lower()})"
        )
    return provider == KORC_OPERATOR


def ordered_teardown(spec: KeystoneSpec) -> bool:
    """Return True if deletion goes in order: K-ORC releases none of its resources without asking Keystone."""
    return spec.catalog.provider != delegate.BUILTIN


def delegated_entry(entry: Step) -> Step:
    """Return Keystone's own entry for a catalog that K-ORC manages: made first, since K-ORC finds Keystone by it."""
    (obj,) = entry.objects
    return replace(entry, objects=({**obj, "spec": {**obj["spec"], "provider": KORC_OPERATOR}},))


def steps(ctx: Context[KeystoneSpec], login: Login, entry: Step) -> tuple[Step, ...]:
    """Return the steps of Secret `k-orc-clouds-yaml`, and of the resources that K-ORC imports or manages for Keystone
    itself. K-ORC finds the identity API in the catalog, so this `entry` comes first.
    """
    store = ctx.spec.catalog.secret_store_ref
    if store:
        clouds = _through_store(ctx, login, store)
    else:
        clouds = (Step(name="KORC", objects=(kube.secret(ctx, CLOUDS, login.files),), after=(login,)),)
    return *clouds, Step(name="KORC", objects=tuple(_resources(ctx)), after=(clouds[-1], entry))


def _through_store(ctx: Context[KeystoneSpec], login: Login, store: SecretStore) -> tuple[Step, ...]:
    """Return PushSecret `<name>-app-credential-<digest>`, one for each content, since the Ready of an old one may be
    about an old content; and ExternalSecret `k-orc-clouds-yaml`, refreshed once that is pushed. Raise SpecError for a
    key outside of the namespace's.
    """
    key, content = store.key or f"{ctx.namespace}/k-orc/app-credential", kube.digest(dict(login.files))
    ctx.permissions.check_store_key(f"{_STORE}.key", ctx.namespace, f"{store.kind}/{store.name}", key)
    store_ref = {"name": store.name, "kind": store.kind}
    push = _store_object(
        ctx,
        "v1alpha1",
        "PushSecret",
        f"{kube.fitting(login.secret, 54)}-{content}",
        {
            "refreshInterval": _REFRESH,
            "updatePolicy": "Replace",
            # The content of the store stays for its readers; the credential itself is deleted.
            "deletionPolicy": "None",
            "secretStoreRefs": [store_ref],
            "selector": {"secret": {"name": login.secret}},
            "data": [
                {"match": {"secretKey": file, "remoteRef": {"remoteKey": key, "property": file}}}
                for file in sorted(login.files)
            ],
        },
    )
    lacks = ctx.installed_kinds.missing
    is_old = lacks(f"ExternalSecret.v1.{SECRETS}") and not lacks(f"ExternalSecret.v1beta1.{SECRETS}")
    pull = _store_object(
        ctx,
        "v1beta1" if is_old else "v1",
        "ExternalSecret",
        CLOUDS,
        {
            "refreshInterval": _REFRESH,
            "secretStoreRef": store_ref,
            # The operator reads Secrets with these labels.
            "target": {
                "name": CLOUDS,
                "creationPolicy": "Owner",
                "template": {"metadata": {"labels": kube.labels(ctx)}},
            },
            "data": [{"secretKey": file, "remoteRef": {"key": key, "property": file}} for file in sorted(login.files)],
        },
    )
    pull = kube.annotated(pull, {f"{SECRETS}/force-sync": content})
    is_current = kube.secret_data(ctx.children.get(("Secret", CLOUDS))) == dict(login.files)
    verdict = (
        READY if is_current else progressing(f"Secret/{CLOUDS}: the secret store has not returned the pushed value yet")
    )
    pushed = Step(name="KORC", objects=(push,), after=(login,), barrier=True)
    return pushed, Step(name="KORC", objects=(pull,), after=(pushed,), verdict=verdict)


def _store_object(ctx: Context[KeystoneSpec], version: str, kind: str, name: str, spec: dict[str, Any]) -> Object:
    return kube.annotated(kube.obj(ctx, kind, name, f"{SECRETS}/{version}", spec=spec), {kube.FIELD: _STORE})


def _resources(ctx: Context[KeystoneSpec]) -> Iterator[Object]:
    initial, domain = ctx.spec.catalog.bootstrap_resources, {"domainRef": KORC_DOMAIN}
    # Users refer to their domain, also if the spec does not list it.
    yield unmanaged(ctx, CLOUDS, "Domain", KORC_DOMAIN, {"name": "Default"}, PROVIDER)
    if "projects" in initial:
        admins = ctx.spec.bootstrap.admin_project
        yield unmanaged(ctx, CLOUDS, "Project", admins, {"name": admins, **domain}, PROVIDER)
        if admins != _PROJECT:
            yield managed(ctx, CLOUDS, "Project", _PROJECT, {"name": _PROJECT, **domain}, PROVIDER)
    if "roles" in initial:
        yield from (unmanaged(ctx, CLOUDS, "Role", name, {"name": name}, PROVIDER) for name in _ROLES)
    identity = {"type": "identity", "name": ctx.owner, "description": "Identity"}
    yield managed(ctx, CLOUDS, "Service", ctx.name("catalog"), identity, PROVIDER)
