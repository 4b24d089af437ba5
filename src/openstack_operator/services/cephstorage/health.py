"""What is seen of a Ceph, as conditions and as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ...plan import READY, Context, Object, State, Step, Verdict, failed, progressing
from .keeper import PORT

WATCHER = "status"
"""Component of the pod that looks."""

GRAVE = ("OSD_FULL", "POOL_FULL", "OSD_BACKFILLFULL", "OSD_NEARFULL", "PG_AVAILABILITY", "OSD_DOWN", "MON_DOWN")
"""What HEALTH_WARN may stand for that keeps a CephStorage from being as it should be; other warnings are told."""

UNREACHABLE, REFUSED, POOL, UNHEALTHY = "Unreachable", "KeyRefused", "MissingPool", "Unhealthy"


def questions(ctx: Context[Any]) -> dict[str, str]:
    """The URL at which the pod that looks tells what it sees."""
    addresses = [pod["status"].get("podIP", "") for pod in ctx.pods if "deletionTimestamp" not in pod["metadata"]]
    return {f"{WATCHER}-{address}": f"http://{address}:{PORT}/" for address in addresses if address}


def seen(ctx: Context[Any]) -> Mapping[str, Any]:
    """What was answered; empty where nobody did."""
    return next((facts for facts in ctx.facts.values() if facts), {})


def connected(facts: Mapping[str, Any], *, ours: bool) -> Verdict:
    """Whether the keys of all services are good. `ours` are keys that we made, and make good again."""
    if not facts:
        return progressing("nothing was heard yet of what the status pod sees")
    if refused := facts["refused"]:
        text = "; ".join(f"the key of {user} is refused ({message})" for user, message in refused.items())
        if ours:
            return Verdict(State.PROGRESSING, f"{text}; the job puts it right", REFUSED)
        return failed(f"{text}; put the key that `ceph auth get {next(iter(refused))}` shows into the Secret", REFUSED)
    if not facts["reachable"]:
        return Verdict(State.PROGRESSING, f"the monitors cannot be reached: {facts['message']}", UNREACHABLE)
    if missing := facts["missing"]:
        text = "; ".join(f"there is no pool {pool!r} for {user}" for user, pool in missing.items())
        return Verdict(State.PROGRESSING, text, POOL) if ours else failed(f"{text}; create it, or name another", POOL)
    return READY


def healthy(facts: Mapping[str, Any]) -> Verdict:
    """What Ceph says of itself. What it only warns of is told, and keeps nothing from being ready."""
    if not facts.get("reachable"):
        return progressing("unknown as long as Ceph cannot be asked")
    checks: Mapping[str, str] = facts["checks"]
    told = "; ".join(f"{name}: {text}" for name, text in checks.items())
    grave = facts["health"] == "HEALTH_ERR" or any(name in GRAVE for name in checks)
    return Verdict(State.PROGRESSING, f"{facts['health']}: {told}", UNHEALTHY) if grave else Verdict(State.READY, told)


def details(facts: Mapping[str, Any]) -> dict[str, Any]:
    """`status.health` and `status.capacity`; empty as long as Ceph has told nothing."""
    if not facts.get("reachable"):
        return {}
    # In whole GiB, as Cinder counts, so that a cloud at rest writes no status.
    capacity = {name: f"{facts[name] // 1024**3}Gi" for name in ("total", "used", "available")}
    return {"health": facts["health"][:63], "capacity": capacity}


JOB = "pools"
"""Component of the job that makes pools and clients."""
_SETTLED = timedelta(minutes=1)
"""After which what is seen is surely newer than what a job has done."""


def again(ctx: Context[Any], wanted: str, facts: Mapping[str, Any]) -> str:
    """A word for the job that makes pools and clients, another one where it is to be done again: it has done what is
    `wanted`, and something of that is missing since.
    """
    for job in (live for (kind, _), live in ctx.children.items() if kind == "Job"):
        env = {entry["name"]: entry.get("value", "") for entry in _environment(job)}
        if env.get("WANTED") != wanted:
            continue
        ended = (job.get("status") or {}).get("completionTime")
        missing = bool(facts.get("refused") or facts.get("missing"))
        settled = ended and datetime.fromisoformat(ended) + _SETTLED <= ctx.now
        return str(ended) if missing and settled else env.get("AGAIN", "")
    return ""


def _environment(job: Object) -> list[Object]:
    return job["spec"]["template"]["spec"]["containers"][0].get("env") or []


def condition(facts: Mapping[str, Any], *, ours: bool) -> tuple[Step, Step]:
    """The conditions CephConnected and HealthReady."""
    there = Step(name="CephConnected", verdict=connected(facts, ours=ours))
    return there, Step(name="Health", after=(there,), verdict=healthy(facts))
