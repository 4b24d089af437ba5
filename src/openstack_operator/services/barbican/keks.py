"""The key-encryption keys of simple_crypto, and the replacement of one by another while programs use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ... import agents, kube, parts
from ...parts.secrets.key_ring import KeyRing, next_ring, read_ring
from ...parts.secrets.keys import fernet_key
from ...parts.secrets.one_line import one_line
from ...plan import READY, Context, Incomplete, Object, State, Step, Verdict
from .model import BarbicanSpec

FILE = "barbican.conf"
"""File of the configuration; it holds the keys, too."""
_KEK = "kek"
_PROGRAMS = ("api", "worker")
"""Programs that read the keys."""


@dataclass(frozen=True)
class KeyState:
    """The keys, and the configuration with them."""

    ring: KeyRing
    conf: parts.Config


def stored_ring(ctx: Context[BarbicanSpec]) -> KeyRing | None:
    """Return the keys in Secret `<owner>-kek`, also if it was just deleted; None if it has none. Raise Incomplete for a
    key of several lines, which a user wrote into it.
    """
    ring = read_ring(ctx.secret("kek", or_deleted=True), _KEK)
    for number, key in ring.keys.items() if ring else ():
        one_line(key, "spec.kekGeneration", ctx.name("kek"), f"{_KEK}.{number}", advice="restore the previous value")
    return ring


def next_state(ctx: Context[BarbicanSpec], configure: Callable[[KeyRing], parts.Config]) -> KeyState:
    """Return the keys, one step further if the previous step is done; a step is done once no pod lacks its keys, and
    the last one once the job has encrypted the keys of all projects again (docs/decisions/0070-barbican.md).
    `configure` returns the configuration with the keys it is given.
    """
    stored = stored_ring(ctx) or _restored_ring(ctx)
    all_read_it = is_rewrapped = False
    if stored is not None:
        conf = configure(stored)
        all_read_it = _all_run_with(ctx, conf)
        is_rewrapped = stored.has_old_keys and _is_complete(ctx, rewrap(ctx, KeyState(stored, conf)))
    ring = next_ring(
        stored,
        ctx.spec.kek_generation,
        lambda: fernet_key(ctx.draw),
        all_read_it=all_read_it,
        retire=lambda old: old.without_old_keys() if is_rewrapped else old,
    )
    return KeyState(ring, configure(ring))


def kek_step(ctx: Context[BarbicanSpec], ring: KeyRing) -> Step:
    """Return Secret `<owner>-kek`, which outlives the Barbican, as its schema does."""
    secret = kube.retained(kube.irreplaceable(kube.secret(ctx, ctx.name("kek"), ring.data(_KEK))))
    return Step(name="KEK", objects=(secret,), guarded=True, barrier=True, verdict=_progress(ring))


def rewrap(ctx: Context[BarbicanSpec], state: KeyState, *, after: tuple[Step, ...] = ()) -> Step:
    """Return the job that encrypts the keys of all projects with the active key, and fails if one needs another."""
    command = ["python3", "-c", agents.text("barbican/rewrap.py")]
    program = parts.ProgramSettings(env={"KEK_GENERATION": str(state.ring.active)})
    return parts.job(ctx, "rewrap", command, state.conf, after=after, condition="KEK", program=program)


def ring_from_config(conf: str, generation: int) -> KeyRing | None:
    """Return the keys from a configuration, the last copy of them if their Secret is gone; None if it has none. It has
    no generations: the first key counts as `generation`, and others as older ones, which a rewrap makes needless.
    """
    lines = [line.partition("=") for line in conf.splitlines()]
    keys = [value.strip() for name, _, value in lines if name.strip() == "kek" and value.strip()]
    newest = max(generation, len(keys))
    return KeyRing({newest - age: key for age, key in enumerate(keys)}, newest) if keys else None


def _restored_ring(ctx: Context[BarbicanSpec]) -> KeyRing | None:
    """Return the keys from the configuration; None for a new Barbican. Raise Incomplete if programs exist whose key is
    nowhere: another key would make all secrets unreadable.
    """
    ring = ring_from_config(ctx.secret("config", or_deleted=True).get(FILE, ""), ctx.spec.kek_generation)
    if ring is None and any(("Deployment", ctx.name(name)) in ctx.children for name in _PROGRAMS):
        secret = ctx.name("kek")
        text = f"Secret {secret!r} has lost its key, which decrypts the stored secrets; restore it from a backup"
        raise Incomplete("spec.kekGeneration", text)
    return ring


def _progress(ring: KeyRing) -> Verdict:
    """Return the progress of a replacement: always READY, since secrets stay readable all the while."""
    if ring.is_waiting_for_readers:
        text = f"all programs receive key-encryption key {ring.newest} before any of them encrypts with it"
        return Verdict(State.READY, text, "Distributing")
    if ring.has_old_keys:
        text = f"programs encrypt with key-encryption key {ring.active}; project keys are being re-encrypted with it"
        return Verdict(State.READY, text, "Rewrapping")
    return READY


def _all_run_with(ctx: Context[BarbicanSpec], conf: parts.Config) -> bool:
    """Return True if all pods have this configuration, also those that are ending: they still serve for some seconds,
    and on a node that is cut off for longer.
    """
    deployments = [ctx.live("Deployment", name) for name in _PROGRAMS]
    if "pods" not in ctx.facts or not all(each and not kube.Rollout(each).is_running for each in deployments):
        return False
    templates = [each["spec"]["template"] for each in deployments if each]
    pods = [pod for pod in ctx.facts["pods"] if _is_program(ctx, pod)]
    return all(_config_digest(each) == conf.digest for each in (*templates, *pods))


def _is_program(ctx: Context[BarbicanSpec], pod: Object) -> bool:
    """Return True if a program of this Barbican runs in the pod."""
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    is_own = kube.pods_of(ctx.kind, ctx.owner).items() <= labels.items()
    # An evicted pod stays for a long time, and nothing runs in it.
    has_ended = (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
    return is_own and labels.get(kube.COMPONENT) in _PROGRAMS and not has_ended


def _config_digest(pod: Mapping[str, Any]) -> str:
    return (pod["metadata"].get("annotations") or {}).get(kube.CONFIG_DIGEST, "")


def _is_complete(ctx: Context[BarbicanSpec], job: Step) -> bool:
    """Return True if the job was completed. The operator tries a failed one again."""
    live = ctx.children.get(("Job", job.objects[0]["metadata"]["name"]))
    return live is not None and kube.judge(live).ready
