"""Barbican: a schema, an API, a worker for orders, and the key-encryption key with its replacement."""

from __future__ import annotations

from dataclasses import dataclass

from ... import kube, oslo, parts
from ...parts.keys import fernet_key
from ...plan import READY, Context, Plan, State, Step, Verdict
from .keks import KeyRing, next_ring, read
from .model import BarbicanSpec

_PORT = 9311
_WORKLOADS = (("Deployment", "api"), ("Deployment", "worker"))


def plan(ctx: Context[BarbicanSpec]) -> Plan:
    """Return everything that a Barbican consists of; published: internalURL, publicURL."""
    base = parts.foundation(ctx)
    state = _key_state(ctx, base)
    conf, kek = state.conf, _kek(ctx, state.ring)
    sync = parts.job(ctx, "db-sync", ["barbican-db-manage", "upgrade"], conf, after=base.schema, condition="Schema")
    after = (*base.steps, kek, sync)
    workers = parts.Workers(processes=2)
    api = parts.api(ctx, "api", _PORT, conf, settings=ctx.spec.api, health="/healthcheck", after=after, workers=workers)
    worker = parts.worker(ctx, "worker", conf, settings=ctx.spec.worker, ready=base.connected, after=after)
    entry = parts.catalog(ctx, "key-manager", "Key Manager", api, after=(*base.steps, api))
    rewrap = [_rewrap(ctx, state, after=(api, worker))] if state.ring.needs_rewrap else []
    steps = (*parts.policies(ctx), *base.steps, kek, conf, sync, api, worker, *rewrap, entry)
    return Plan(*steps, endpoint=api.public, published={**base.credentials.published, **api.published})


@dataclass(frozen=True)
class _KeyState:
    ring: KeyRing
    conf: parts.Config


def _key_state(ctx: Context[BarbicanSpec], base: parts.Foundation) -> _KeyState:
    """Return the keys, one step further if the step before is done, and the configuration with them."""
    name = kube.fitting(ctx.name("kek"))
    stored = read(kube.secret_data(ctx.children.get(("Secret", name)) or ctx.lost.get(name)))
    all_read_it = is_rewrapped = False
    if stored is not None:
        before = _KeyState(stored, _config(ctx, base, stored))
        all_read_it = _all_run_with(ctx, before.conf)
        is_rewrapped = stored.needs_rewrap and _is_done(ctx, _rewrap(ctx, before))
    ring = next_ring(
        stored,
        ctx.spec.kek_generation,
        lambda: fernet_key(ctx.draw),
        all_read_it=all_read_it,
        is_rewrapped=is_rewrapped,
    )
    return _KeyState(ring, _config(ctx, base, ring))


def _config(ctx: Context[BarbicanSpec], base: parts.Foundation, ring: KeyRing) -> parts.Config:
    options = {
        # References to secrets begin with the address that the client called.
        "DEFAULT": {"host_href": "", "db_auto_create": False},
        "secretstore": {"enabled_secretstore_plugins": "store_crypto"},
        "crypto": {"enabled_crypto_plugins": "simple_crypto"},
        "simple_crypto_plugin": {"kek": ring.options},
        "queue": {"enable": True},
    }
    return parts.config(ctx, "barbican.conf", oslo.merge(base.sections, options))


def _kek(ctx: Context[BarbicanSpec], ring: KeyRing) -> Step:
    """Return Secret `<owner>-kek`, which outlives the Barbican, as its schema does."""
    secret = kube.retained(kube.irreplaceable(kube.secret(ctx, ctx.name("kek"), ring.data)))
    # A barrier: nothing may be encrypted with a key that is not stored yet.
    return Step(name="KEK", objects=(secret,), guarded=True, barrier=True, verdict=_progress(ring))


def _progress(ring: KeyRing) -> Verdict:
    """Return the progress of a replacement: always READY, since secrets stay readable all the while."""
    if ring.is_waiting_for_readers:
        text = f"all programs get key-encryption key {ring.newest}, before one of them encrypts with it"
        return Verdict(State.READY, text, "Distributing")
    if ring.needs_rewrap:
        text = f"programs encrypt with key-encryption key {ring.active}; keys of projects are encrypted with it again"
        return Verdict(State.READY, text, "Rewrapping")
    return READY


def _rewrap(ctx: Context[BarbicanSpec], state: _KeyState, *, after: tuple[Step, ...] = ()) -> Step:
    """Return the job that encrypts the keys of all projects with the active key."""
    command = ["barbican-manage", "simple_crypto", "rewrap_pkek"]
    env = {"KEK_GENERATION": str(state.ring.active)}
    return parts.job(ctx, "rewrap", command, state.conf, after=after, condition="KEK", env=env)


def _all_run_with(ctx: Context[BarbicanSpec], conf: parts.Config) -> bool:
    """Return True if all pods that run have this configuration."""
    live = [ctx.children.get((kind, kube.fitting(ctx.name(name)))) for kind, name in _WORKLOADS]
    return all(
        each is not None
        and each["spec"]["template"]["metadata"].get("annotations", {}).get(kube.CONFIG_DIGEST) == conf.digest
        and not kube.is_rolling_out(each)
        for each in live
    )


def _is_done(ctx: Context[BarbicanSpec], job: Step) -> bool:
    """Return True if the job was completed. A failed one is made again with the next configuration."""
    live = ctx.children.get(("Job", job.objects[0]["metadata"]["name"]))
    return live is not None and kube.judge(live).ready
