"""What a service remembers outside of itself: its Memcached, and what it keeps there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .. import kube, oslo
from ..api import CachesResults, MemcachedRef, Sections, UsesCache, UsesIdentity
from ..plan import Context, NotBuilt
from .credentials import Credentials
from .tls import trust_of

TOKEN_CACHE = "token-cache"  # noqa: S105
"""Name of the password by which a service encrypts what it caches of tokens. Each has its own, so that one that is
broken into forges no tokens for the others."""
CACHE_CLIENT = "clientSecret"
"""Under which name a Memcached publishes the Secret with the certificate that its clients show."""
_CERTIFICATE = "/etc/openstack-cache-tls"
"""Where they have it."""


def memcached(ctx: Context[Any]) -> oslo.options.Memcached:
    """The service's cache. Raises NotBuilt where its programs could not check whom they speak to."""
    spec = ctx.spec
    if not isinstance(spec, (UsesCache, CachesResults)):
        return oslo.options.Memcached()
    if servers := spec.cache.servers:
        return oslo.options.Memcached(",".join(server if ":" in server else f"{server}:11211" for server in servers))
    ref = _server(spec)
    if ref is None:
        return oslo.options.Memcached()
    at = ctx.refs[ref]
    trust = trust_of(at.published)
    if trust and ctx.spec.image_profile == "kolla":
        raise NotBuilt(
            "spec.cache.memcachedRef",
            f"Memcached/{ref.name} has tls, of which the libraries in kolla's images know nothing; take tls away there",
        )
    return oslo.options.Memcached(at["servers"], trust, _CERTIFICATE if CACHE_CLIENT in at.published else "")


def _server(spec: Any) -> MemcachedRef | None:
    """The Memcached that a spec says, if it says one."""
    if not isinstance(spec, (UsesCache, CachesResults)) or spec.cache.servers:
        return None
    return spec.cache.memcached_ref or spec.implied().get("cache.memcachedRef")


def cache_mounts(ctx: Context[Any], files: Iterable[str]) -> tuple[kube.Mount, ...]:
    """The certificate for the service's cache, where a file of its configuration names it. Programs read it with each
    connection, so that it is renewed without a restart.
    """
    ref = _server(ctx.spec)
    secret = ctx.refs[ref].published.get(CACHE_CLIENT) if ref is not None else None
    if secret is None or not any(_CERTIFICATE in text for text in files):
        return ()
    return (kube.folder("cache-tls", secret, _CERTIFICATE),)


def cache(ctx: Context[Any]) -> Sections:
    """[cache] of a service: what it need not work out again."""
    return {"cache": oslo.options.cache(ctx.spec.cache.backend, memcached(ctx))}


def keystone_authtoken(ctx: Context[Any], options: Mapping[str, str], credentials: Credentials) -> Sections:
    """[keystone_authtoken] of a service that logs in with these keystoneauth options. Whether kolla's images have the
    library that encrypts depends on the service, so with them what is cached is signed alone.
    """
    encrypted = ctx.spec.image_profile != "kolla"
    protection = (
        oslo.options.token_protection(credentials[TOKEN_CACHE], encrypted=encrypted) if caches_tokens(ctx.spec) else {}
    )
    return {"keystone_authtoken": oslo.options.keystone_auth(options, memcached(ctx), protection)}


def caches_tokens(spec: Any) -> bool:
    """Whether it checks tokens, and has a field that says where it caches them."""
    return isinstance(spec, UsesIdentity) and isinstance(spec, (UsesCache, CachesResults))
