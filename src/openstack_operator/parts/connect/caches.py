"""Cache of a service: its Memcached, and the options for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ... import oslo
from ...api import CachesResults, Sections, UsesCache, UsesIdentity
from ...plan import Context, UnsupportedError
from ..secrets.cache_certificate import CACHE_CERTIFICATE, CACHE_CLIENT, server_of
from ..secrets.credentials import Credentials
from ..secrets.tls import trust_of

TOKEN_CACHE = "token-cache"  # noqa: S105
"""Name of the password with which a service encrypts cached tokens. Each service has its own, so that a compromised one
cannot forge tokens for the others."""


def memcached(ctx: Context[Any]) -> oslo.options.Memcached:
    """Return the service's cache. Raises UnsupportedError if its programs could not verify the server."""
    spec = ctx.spec
    if not isinstance(spec, (UsesCache, CachesResults)):
        return oslo.options.Memcached()
    if servers := spec.cache.servers:
        check_servers("spec.cache.servers", servers)
        return oslo.options.Memcached(",".join(server if ":" in server else f"{server}:11211" for server in servers))
    ref = server_of(spec)
    if ref is None:
        return oslo.options.Memcached()
    at = ctx.refs[ref]
    trust = trust_of(at.published)
    if trust and ctx.spec.image_profile == "kolla":
        raise UnsupportedError(
            "spec.cache.memcachedRef",
            f"Memcached/{ref.name} has tls, which kolla's images do not support; remove tls there",
        )
    return oslo.options.Memcached(at["servers"], trust, CACHE_CERTIFICATE if CACHE_CLIENT in at.published else "")


def check_servers(path: str, servers: Iterable[str]) -> None:
    """Raise UnsupportedError for an address of IPv6, for which the clients of OpenStack have a spelling each."""
    if wrong := next((server for server in servers if server.startswith("[")), ""):
        raise UnsupportedError(path, f"{wrong}: clients of Memcached need a DNS name or an IPv4 address; write one")


def cache(ctx: Context[Any]) -> Sections:
    """Return [cache] of a service, for its computed results."""
    return {"cache": oslo.options.cache(ctx.spec.cache.backend, memcached(ctx))}


def keystone_authtoken(
    ctx: Context[Any], options: Mapping[str, str], credentials: Credentials, service_type: str
) -> Sections:
    """Return [keystone_authtoken] of a service of that type in the catalog, which logs in with these keystoneauth
    options. Whether kolla's images have the library that encrypts depends on the service, so with them cached tokens
    are only signed.
    """
    encrypted = ctx.spec.image_profile != "kolla"
    protection = (
        oslo.options.token_protection(oslo.Verbatim(credentials[TOKEN_CACHE]), encrypted=encrypted)
        if caches_tokens(ctx.spec)
        else {}
    )
    section = oslo.options.keystone_auth(options, memcached(ctx), protection, service_type=service_type)
    return {"keystone_authtoken": section}


def caches_tokens(spec: Any) -> bool:
    """Return True if the service checks tokens, and has a field for their cache."""
    return isinstance(spec, UsesIdentity) and isinstance(spec, (UsesCache, CachesResults))
