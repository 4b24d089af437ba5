"""Barbican: a schema, an API, a worker for orders, and the key-encryption key with its replacement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from ... import agents, kube, oslo, parts
from ...parts.run.purge import purge
from ...parts.secrets.key_ring import KeyRing, next_ring, read_ring
from ...parts.secrets.keys import fernet_key
from ...parts.secrets.rotation import rotation_in_progress
from ...plan import READY, Context, Incomplete, Plan, State, Step, Verdict
from . import stores
from .keks import recovered
from .model import BarbicanSpec

_SERVICE_TYPE = "key-manager"
_PORT = 9311
_FILE = "barbican.conf"
_KEK = "kek"
_WORKLOADS = ("api", "worker")
_RECHECK = timedelta(seconds=10)
"""Interval at which the pods are looked at during a replacement: the end of a pod is no change of its workload."""
_POLICY = {"oslo_policy": {"enforce_new_defaults": True, "enforce_scope": True}}
"""Members of a project store secrets. With the older rules only users with the role `creator` do, which no Keystone has
by default."""
_API = parts.ProgramSettings(workers=parts.Workers(processes=2))


def plan(ctx: Context[BarbicanSpec]) -> Plan:
    """Return everything that a Barbican consists of; published: internalURL, publicURL."""
    base = parts.foundation(ctx, service_type=_SERVICE_TYPE)
    state = _key_state(ctx, base)
    kek = _kek(ctx, state.ring)
    # Nothing may be encrypted with a key that is not stored yet.
    conf = replace(state.conf, after=(*state.conf.after, kek))
    state = replace(state, conf=conf)
    sync = parts.job(ctx, "db-sync", ["barbican-db-manage", "upgrade"], conf, after=base.schema, condition="Schema")
    vault = stores.check(ctx, conf, after=(*base.steps, kek, sync))
    after = (*base.steps, kek, sync, *vault)
    api = parts.api(ctx, "api", _PORT, conf, settings=ctx.spec.api, after=after, program=_API)
    worker = parts.worker(ctx, "worker", conf, settings=ctx.spec.worker, ready=base.connected, after=after)
    entry = parts.catalog(ctx, _SERVICE_TYPE, "Key Manager", api, after=(*base.steps, api))
    command = ["python3", "-c", agents.text("barbican/forget_projects.py"), str(ctx.spec.purge.days)]
    forget = purge(ctx, ctx.spec.purge, command, conf, after=(*base.steps, sync))
    rewrap = [_rewrap(ctx, state, after=(api, worker))] if state.ring.has_old_keys else []
    steps = (*parts.policies(ctx), *base.steps, kek, conf, sync, *vault, api, worker, *forget, *rewrap, entry)
    wake = ctx.now + _RECHECK if len(state.ring.keys) > 1 else None
    return Plan(*steps, wake=wake, endpoint=api.public, published={**base.credentials.published, **api.published})


def needs_pods(ctx: Context[BarbicanSpec]) -> bool:
    """Return True if the next plan has to know which pods run: passwords or the key are being replaced."""
    stored = read_ring(ctx.secret("kek", or_deleted=True), _KEK)
    return rotation_in_progress(ctx) or (stored is not None and len(stored.keys) > 1)


@dataclass(frozen=True)
class _KeyState:
    ring: KeyRing
    conf: parts.Config


def _key_state(ctx: Context[BarbicanSpec], base: parts.Foundation) -> _KeyState:
    """Return the keys, one step further if the step before is done, and the configuration with them."""
    stored = read_ring(ctx.secret("kek", or_deleted=True), _KEK) or _recovered(ctx)
    all_read_it = is_rewrapped = False
    if stored is not None:
        before = _KeyState(stored, _config(ctx, base, stored))
        all_read_it = _all_run_with(ctx, before.conf)
        is_rewrapped = stored.has_old_keys and _is_done(ctx, _rewrap(ctx, before))
    ring = next_ring(
        stored,
        ctx.spec.kek_generation,
        lambda: fernet_key(ctx.draw),
        all_read_it=all_read_it,
        retire=lambda old: old.without_old_keys() if is_rewrapped else old,
    )
    return _KeyState(ring, _config(ctx, base, ring))


def _recovered(ctx: Context[BarbicanSpec]) -> KeyRing | None:
    """Return the keys from the configuration if their Secret is gone; None for a new Barbican. Raise Incomplete if pods
    run, and their key is nowhere: another key would make all secrets unreadable.
    """
    ring = recovered(ctx.secret("config", or_deleted=True).get(_FILE, ""), ctx.spec.kek_generation)
    if ring is None and any(("Deployment", ctx.name(name)) in ctx.children for name in _WORKLOADS):
        secret = ctx.name("kek")
        text = f"Secret {secret!r} has no key, and without it the stored secrets cannot be read; restore it from a copy"
        raise Incomplete("spec.kekGeneration", text)
    return ring


def _config(ctx: Context[BarbicanSpec], base: parts.Foundation, ring: KeyRing) -> parts.Config:
    options = {
        # References to secrets begin with the address that the client called.
        "DEFAULT": {"host_href": "", "db_auto_create": False},
        "crypto": {"enabled_crypto_plugins": "simple_crypto"},
        "simple_crypto_plugin": {"kek": [*ring.in_order]},
        "queue": {"enable": True},
    }
    fixed_options = oslo.merge(base.sections, options, stores.sections(ctx))
    return parts.config(ctx, _FILE, fixed_options, defaults=_POLICY, extra_mounts=stores.trust(ctx))


def _kek(ctx: Context[BarbicanSpec], ring: KeyRing) -> Step:
    """Return Secret `<owner>-kek`, which outlives the Barbican, as its schema does."""
    secret = kube.retained(kube.irreplaceable(kube.secret(ctx, ctx.name("kek"), ring.data(_KEK))))
    return Step(name="KEK", objects=(secret,), guarded=True, barrier=True, verdict=_progress(ring))


def _progress(ring: KeyRing) -> Verdict:
    """Return the progress of a replacement: always READY, since secrets stay readable all the while."""
    if ring.is_waiting_for_readers:
        text = f"all programs get key-encryption key {ring.newest}, before one of them encrypts with it"
        return Verdict(State.READY, text, "Distributing")
    if ring.has_old_keys:
        text = f"programs encrypt with key-encryption key {ring.active}; keys of projects are encrypted with it again"
        return Verdict(State.READY, text, "Rewrapping")
    return READY


def _rewrap(ctx: Context[BarbicanSpec], state: _KeyState, *, after: tuple[Step, ...] = ()) -> Step:
    """Return the job that encrypts the keys of all projects with the active key, and fails if one needs another."""
    command = ["python3", "-c", agents.text("barbican/rewrap.py")]
    program = parts.ProgramSettings(env={"KEK_GENERATION": str(state.ring.active)})
    return parts.job(ctx, "rewrap", command, state.conf, after=after, condition="KEK", program=program)


def _all_run_with(ctx: Context[BarbicanSpec], conf: parts.Config) -> bool:
    """Return True if all pods have this configuration, those that are ending too: they still serve for some seconds,
    and on a node that is cut off for longer.
    """
    live = [ctx.live("Deployment", name) for name in _WORKLOADS]
    if "pods" not in ctx.facts or not all(each is not None and not kube.Rollout(each).is_running for each in live):
        return False
    templates = [each["spec"]["template"] for each in live if each]
    pods = [pod for pod in ctx.facts["pods"] if _is_program(ctx, pod)]
    return all(_digest(each) == conf.digest for each in (*templates, *pods))


def _is_program(ctx: Context[BarbicanSpec], pod: Mapping[str, Any]) -> bool:
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    is_own = kube.pods_of(ctx.kind, ctx.owner).items() <= labels.items()
    # An evicted pod stays for a long time, and nothing runs in it.
    has_ended = (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
    return is_own and labels.get(kube.COMPONENT) in _WORKLOADS and not has_ended


def _digest(pod: Mapping[str, Any]) -> str:
    return (pod["metadata"].get("annotations") or {}).get(kube.CONFIG_DIGEST, "")


def _is_done(ctx: Context[BarbicanSpec], job: Step) -> bool:
    """Return True if the job was completed. The operator tries a failed one again."""
    live = ctx.children.get(("Job", job.objects[0]["metadata"]["name"]))
    return live is not None and kube.judge(live).ready
