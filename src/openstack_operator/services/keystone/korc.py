"""K-ORC as who keeps users and services: how it logs in, and what Keystone begins with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import yaml

from ... import kube, parts
from ...plan import Context, Object, SpecError, Step
from .model import KeystoneSpec

CLOUDS = "k-orc-clouds-yaml"
"""The Secret it logs in with, by a name that users' own resources of K-ORC may have in their manifests."""
PROVIDER = "spec.catalog.provider"
_ROLES = ("admin", "manager", "member", "reader", "service")
"""Those `keystone-manage bootstrap` makes."""
_PROJECT = "service"
"""Where service users work. Keystone does not begin with it."""


def kept(ctx: Context[KeystoneSpec]) -> bool:
    """Whether K-ORC keeps the catalog. Raises SpecError where that was somebody else before."""
    asked = ctx.spec.catalog.provider
    theirs = ("Secret", CLOUDS) in ctx.children
    ours = not theirs and ("KeystoneService", kube.fitting(ctx.name("catalog"))) in ctx.children
    known = parts.KORC_OPERATOR if theirs else parts.BUILTIN if ours else ""
    if asked != parts.AUTO and known and asked != known:
        text = f"users and services of this Keystone are kept by {known}, and stay so; set {known} again, or auto"
        raise SpecError(PROVIDER, f"{text} (in a control plane: korc.enabled {str(theirs).lower()})")
    if asked == parts.AUTO:
        return theirs or (not ours and ctx.served >= parts.KEPT)
    return asked == parts.KORC_OPERATOR


def ordered(spec: KeystoneSpec) -> bool:
    """Whether deletion goes in order: K-ORC lets nothing go without asking Keystone."""
    return spec.catalog.provider != parts.BUILTIN


def steps(
    ctx: Context[KeystoneSpec], admin: parts.Credentials, url: str, authorities: str, entry: Step
) -> tuple[Step, ...]:
    """Secret `k-orc-clouds-yaml`, and what K-ORC is shown and keeps of Keystone's own. It finds the identity API by the
    catalog, so that this `entry` is there before.
    """
    login = kube.secret(ctx, CLOUDS, _files(ctx, admin.values, url, authorities))
    clouds = Step(name="KORC", objects=(login,), after=(admin,))
    return clouds, Step(name="KORC", objects=tuple(_shown(ctx)), after=(clouds, entry))


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


def _files(ctx: Context[KeystoneSpec], admin: Mapping[str, str], url: str, authorities: str) -> dict[str, str]:
    """clouds.yaml, and `cacert` beside it."""
    auth = {
        "auth_url": url,
        "username": admin["username"],
        "password": admin["password"],
        "user_domain_name": "Default",
        "project_name": admin["project"],
        "project_domain_name": "Default",
    }
    # It keeps sessions by what stands here, half an hour long, and the authorities it reads from beside it are not part
    # of that: by their digest a session by the ones before is none of these.
    trusted = {"cacert": f"cacert-{kube.digest(authorities)}"} if authorities else {}
    # `endpoint_type` is what it reads; `interface`, which others do, it does not.
    cloud = {"auth": auth, "region_name": ctx.spec.region, "endpoint_type": "internal", **trusted}
    files = {"cacert": authorities} if authorities else {}
    return {"clouds.yaml": yaml.safe_dump({"clouds": {parts.KORC_CLOUD: cloud}}, sort_keys=True), **files}
