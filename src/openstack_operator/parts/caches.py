"""What a service remembers outside of itself: its Memcached, and what it keeps there."""

from __future__ import annotations

from typing import Any

from .. import oslo
from ..api import CachesResults, Sections, UsesCache
from ..plan import Context, NotBuilt
from .tls import trust_of


def memcached(ctx: Context[Any]) -> oslo.options.Memcached:
    """The service's cache. Raises NotBuilt where its programs could not check whom they speak to."""
    spec = ctx.spec
    if not isinstance(spec, (UsesCache, CachesResults)):
        return oslo.options.Memcached()
    if servers := spec.cache.servers:
        return oslo.options.Memcached(",".join(server if ":" in server else f"{server}:11211" for server in servers))
    ref = spec.cache.memcached_ref or spec.implied().get("cache.memcachedRef")
    if ref is None:
        return oslo.options.Memcached()
    at = ctx.refs[ref]
    trust = trust_of(at.published)
    if trust and ctx.spec.image_profile == "kolla":
        raise NotBuilt(
            "spec.cache.memcachedRef",
            f"Memcached/{ref.name} has tls, of which the libraries in kolla's images know nothing; take tls away there",
        )
    return oslo.options.Memcached(at["servers"], trust)


def cache(ctx: Context[Any]) -> Sections:
    """[cache] of a service: what it need not work out again."""
    return {"cache": oslo.options.cache(ctx.spec.cache.backend, memcached(ctx))}
