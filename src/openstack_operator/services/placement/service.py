"""Placement: a schema, an API and its entry in the catalog; the plainest service of all."""

from __future__ import annotations

from ... import oslo, parts
from ...plan import Context, Plan
from .model import PlacementSpec

_SERVICE_TYPE = "placement"


def plan(ctx: Context[PlacementSpec]) -> Plan:
    """Return everything that a Placement consists of; published: internalURL, publicURL."""
    base = parts.foundation(ctx, section="placement_database", service_type=_SERVICE_TYPE)
    options = oslo.merge(base.sections, {"api": {"auth_strategy": "keystone"}})
    conf = parts.config(ctx, "placement.conf", options, extra_files=parts.policy_files(ctx))
    sync = parts.schema(ctx, ["placement-manage", "db", "sync"], conf, after=base.schema)
    api = parts.api(ctx, "api", 8778, conf, settings=ctx.spec.api, health="/", after=(*base.steps, sync))
    entry = parts.catalog(ctx, _SERVICE_TYPE, "Placement", api, after=(*base.steps, api))
    completion = parts.completion(ctx, ["placement-manage", "db", "online_data_migrations"], conf)
    preflight = parts.preflight(ctx, conf)
    steps = (*parts.policies(ctx), *base.steps, conf, sync, api, entry, *completion)
    published = {**base.credentials.published, **api.published}
    return Plan(*steps, endpoint=api.public, published=published, preflight=preflight)
