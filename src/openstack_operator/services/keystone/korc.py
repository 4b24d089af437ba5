"""K-ORC as who keeps users and services: how it logs in, and what Keystone begins with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ... import kube, parts
from ...plan import READY, Context, Object, SpecError, Step, progressing
from .application import Login
from .model import KeystoneSpec, SecretStore

CLOUDS = "k-orc-clouds-yaml"
"""The Secret it logs in with, by a name that users' own resources of K-ORC may have in their manifests."""
PROVIDER = "spec.catalog.provider"
_STORE = "spec.catalog.secretStoreRef"
_ROLES = ("admin", "manager", "member", "reader", "service")
"""Those `keystone-manage bootstrap` makes."""
_PROJECT = "service"
"""Where service users work. Keystone does not begin with it."""
_SECRETS = "external-secrets.io"
_REFRESH = "5m"


def kept(ctx: Context[KeystoneSpec]) -> bool:
    """Whether K-ORC keeps the catalog. Raises SpecError where that was somebody else before, as Keystone's own entry
    says, before which there is nothing.
    """
    asked = ctx.spec.catalog.provider
    entry = ctx.children.get(("KeystoneService", kube.fitting(ctx.name("catalog"))))
    known = entry["spec"].get("provider", parts.BUILTIN) if entry else ""
    if asked == parts.AUTO:
        if not known:
            ctx.installed_kinds.check_permitted(f"{PROVIDER} {asked} (or choose {parts.BUILTIN})", *parts.KEPT)
        return known == parts.KORC_OPERATOR if known else not ctx.installed_kinds.missing(*parts.KEPT)
    if known and asked != known:
        text = f"users and services of this Keystone are kept by {known}, and stay so; set {known} again, or auto"
        raise SpecError(PROVIDER, f"{text} (in a control plane: korc.enabled {str(known != parts.BUILTIN).lower()})")
    return asked == parts.KORC_OPERATOR


def ordered(spec: KeystoneSpec) -> bool:
    """Whether deletion goes in order: K-ORC lets nothing go without asking Keystone."""
    return spec.catalog.provider != parts.BUILTIN


def entered(entry: Step) -> Step:
    """Keystone's own entry where K-ORC keeps it: made before, since K-ORC finds Keystone by it."""
    (obj,) = entry.objects
    return replace(entry, objects=({**obj, "spec": {**obj["spec"], "provider": parts.KORC_OPERATOR}},))


def steps(ctx: Context[KeystoneSpec], login: Login, entry: Step) -> tuple[Step, ...]:
    """Secret `k-orc-clouds-yaml`, and what K-ORC is shown and keeps of Keystone's own. It finds the identity API by the
    catalog, so that this `entry` is there before.
    """
    store = ctx.spec.catalog.secret_store_ref
    if store:
        clouds = _by_way_of(ctx, login, store)
    else:
        clouds = (Step(name="KORC", objects=(kube.secret(ctx, CLOUDS, login.files),), after=(login,)),)
    return *clouds, Step(name="KORC", objects=tuple(_shown(ctx)), after=(clouds[-1], entry))


def _by_way_of(ctx: Context[KeystoneSpec], login: Login, store: SecretStore) -> tuple[Step, ...]:
    """PushSecret `<name>-app-credential-<digest>`, one for each content, since only of a new one it is known what its
    Ready speaks of; and ExternalSecret `k-orc-clouds-yaml`, told to look again once that is pushed. Raises SpecError
    for a key that is not the namespace's.
    """
    key, content = store.key or f"{ctx.namespace}/k-orc/app-credential", kube.digest(dict(login.files))
    ctx.permissions.check_store_key(f"{_STORE}.key", ctx.namespace, f"{store.kind}/{store.name}", key)
    at = {"name": store.name, "kind": store.kind}
    push = _made(
        ctx,
        "v1alpha1",
        "PushSecret",
        f"{kube.fitting(login.secret, 54)}-{content}",
        {
            "refreshInterval": _REFRESH,
            "updatePolicy": "Replace",
            # What is there stays for who reads it; the credential itself goes.
            "deletionPolicy": "None",
            "secretStoreRefs": [at],
            "selector": {"secret": {"name": login.secret}},
            "data": [
                {"match": {"secretKey": file, "remoteRef": {"remoteKey": key, "property": file}}}
                for file in sorted(login.files)
            ],
        },
    )
    lacks = ctx.installed_kinds.missing
    is_old = lacks(f"ExternalSecret.v1.{_SECRETS}") and not lacks(f"ExternalSecret.v1beta1.{_SECRETS}")
    pull = _made(
        ctx,
        "v1beta1" if is_old else "v1",
        "ExternalSecret",
        CLOUDS,
        {
            "refreshInterval": _REFRESH,
            "secretStoreRef": at,
            # By these labels it is ours to read.
            "target": {
                "name": CLOUDS,
                "creationPolicy": "Owner",
                "template": {"metadata": {"labels": kube.labels(ctx)}},
            },
            "data": [{"secretKey": file, "remoteRef": {"key": key, "property": file}} for file in sorted(login.files)],
        },
    )
    pull = kube.annotated(pull, {f"{_SECRETS}/force-sync": content})
    same = kube.secret_data(ctx.children.get(("Secret", CLOUDS))) == dict(login.files)
    given = READY if same else progressing(f"Secret/{CLOUDS}: the store has not given what was pushed yet")
    pushed = Step(name="KORC", objects=(push,), after=(login,), barrier=True)
    return pushed, Step(name="KORC", objects=(pull,), after=(pushed,), verdict=given)


def _made(ctx: Context[KeystoneSpec], version: str, kind: str, name: str, spec: dict[str, Any]) -> Object:
    return kube.annotated(kube.obj(ctx, kind, name, f"{_SECRETS}/{version}", spec=spec), {kube.FIELD: _STORE})


def _shown(ctx: Context[KeystoneSpec]) -> Iterator[Object]:
    asked, domain = ctx.spec.catalog.bootstrap_resources, {"domainRef": parts.KORC_DOMAIN}
    # Users name their domain, whether it was asked for or not.
    yield parts.imported(ctx, CLOUDS, "Domain", parts.KORC_DOMAIN, {"name": "Default"}, PROVIDER)
    if "projects" in asked:
        admins = ctx.spec.bootstrap.admin_project
        yield parts.imported(ctx, CLOUDS, "Project", admins, {"name": admins, **domain}, PROVIDER)
        if admins != _PROJECT:
            yield parts.kept(ctx, CLOUDS, "Project", _PROJECT, {"name": _PROJECT, **domain}, PROVIDER)
    if "roles" in asked:
        yield from (parts.imported(ctx, CLOUDS, "Role", name, {"name": name}, PROVIDER) for name in _ROLES)
    identity = {"type": "identity", "name": ctx.owner, "description": "Identity"}
    yield parts.kept(ctx, CLOUDS, "Service", ctx.name("catalog"), identity, PROVIDER)
