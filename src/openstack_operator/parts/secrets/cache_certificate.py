"""The certificate that a service presents to its Memcached."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ... import kube
from ...api import CachesResults, MemcachedRef, UsesCache
from ...plan import Context

CACHE_CLIENT = "clientSecret"
"""Key under which a Memcached publishes the Secret with the certificate that its clients present."""
CACHE_CERTIFICATE = "/etc/openstack-cache-tls"
"""Folder of that certificate in a client."""


def server_of(spec: Any) -> MemcachedRef | None:
    """Return the Memcached that a spec names, if it names one."""
    if not isinstance(spec, (UsesCache, CachesResults)) or spec.cache.servers:
        return None
    return spec.cache.memcached_ref or spec.default_refs().get("cache.memcachedRef")


def cache_mounts(ctx: Context[Any], files: Iterable[str]) -> tuple[kube.Mount, ...]:
    """Return the certificate for the service's cache, if a file of its configuration names it. Programs read it for
    each connection, so that a renewal needs no restart.
    """
    ref = server_of(ctx.spec)
    secret = ctx.refs[ref].published.get(CACHE_CLIENT) if ref is not None else None
    if secret is None or not any(CACHE_CERTIFICATE in text for text in files):
        return ()
    return (kube.folder("cache-tls", secret, CACHE_CERTIFICATE),)
