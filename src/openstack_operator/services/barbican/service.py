"""Barbican: a schema, an API, a worker for orders, and the jobs beside them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from ... import agents, oslo, parts
from ...parts.connect import broker_move
from ...parts.connect.broker_move import with_moves
from ...parts.run.purge import purge
from ...parts.secrets.key_ring import KeyRing
from ...plan import Context, Plan
from . import stores
from .keks import FILE, kek_step, next_state, rewrap, stored_ring
from .model import BarbicanSpec

_SERVICE_TYPE = "key-manager"
_PORT = 9311
_RECHECK = timedelta(seconds=10)
"""Interval at which the pods are looked at during a replacement: the end of a pod is no change of its workload."""
_POLICY = {"oslo_policy": {"enforce_new_defaults": True, "enforce_scope": True}}
"""Members of a project store secrets. With the older rules only users with the role `creator` do, which no Keystone has
by default."""
_API = parts.ProgramSettings(workers=parts.Workers(threads=8))
_WORKER = parts.ProgramSettings(copied=True)


@with_moves
def plan(ctx: Context[BarbicanSpec]) -> Plan:
    """Return everything that a Barbican consists of; published: internalURL, publicURL."""
    base = parts.foundation(ctx, service_type=_SERVICE_TYPE)
    state = next_state(ctx, lambda ring: _config(ctx, base, ring))
    kek = kek_step(ctx, state.ring)
    # Nothing may be encrypted with a key that is not stored yet.
    conf = replace(state.conf, after=(*state.conf.after, kek))
    state = replace(state, conf=conf)
    sync = parts.schema(ctx, ["barbican-db-manage", "upgrade"], conf, after=base.schema)
    vault = stores.check(ctx, conf, after=(*base.steps, kek, sync))
    after = (*base.steps, kek, sync, *vault)
    api = parts.api(ctx, "api", _PORT, conf, settings=ctx.spec.api, after=after, program=_API)
    worker = parts.worker(
        ctx, "worker", conf, settings=ctx.spec.worker, ready=base.connected, after=after, program=_WORKER
    )
    entry = parts.catalog(ctx, _SERVICE_TYPE, "Key Manager", api, after=(*base.steps, api))
    command = ["python3", "-c", agents.text("barbican/forget_projects.py"), str(ctx.spec.purge.days)]
    forget = purge(ctx, ctx.spec.purge, command, conf, after=(*base.steps, sync))
    rewrap_job = [rewrap(ctx, state, after=(api, worker))] if state.ring.has_old_keys else []
    steps = (*parts.policies(ctx), *base.steps, kek, conf, sync, *vault, api, worker, *forget, *rewrap_job, entry)
    wake = ctx.now + _RECHECK if len(state.ring.keys) > 1 else None
    published = {**base.credentials.published, **api.published}
    return Plan(*steps, wake=wake, endpoint=api.public, published=published, preflight=parts.preflight(ctx, conf))


def needs_pods(ctx: Context[BarbicanSpec]) -> bool:
    """Return True if the next plan has to know which pods run: passwords or the key are being replaced."""
    stored = stored_ring(ctx)
    return broker_move.needs_pods(ctx) or (stored is not None and len(stored.keys) > 1)


def _config(ctx: Context[BarbicanSpec], base: parts.Foundation, ring: KeyRing) -> parts.Config:
    options = {
        # References to secrets begin with the address that the client called.
        "DEFAULT": {"host_href": "", "db_auto_create": False},
        "crypto": {"enabled_crypto_plugins": "simple_crypto"},
        "simple_crypto_plugin": {"kek": [*ring.in_order]},
        "queue": {"enable": True},
    }
    fixed_options = oslo.merge(base.sections, options, stores.sections(ctx))
    return parts.config(
        ctx, FILE, fixed_options, defaults=_POLICY, extra_files=parts.policy_files(ctx), extra_mounts=stores.trust(ctx)
    )
