"""State of a Ceph, as conditions and as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from ... import kube
from ...plan import READY, Context, Object, State, Step, Verdict, failed, out_of_service, progressing, url_host

WATCHER = "status"
"""Component of the status pod."""
PORT = 9284
"""Port at which it serves what it sees."""

GRAVE = ("OSD_FULL", "POOL_FULL", "OSD_BACKFILLFULL", "OSD_NEARFULL", "PG_AVAILABILITY", "OSD_DOWN", "MON_DOWN")
"""Warnings of Ceph that make HealthReady False; other warnings are only in its message."""

UNREACHABLE, REFUSED, POOL, UNHEALTHY = "Unreachable", "KeyRefused", "MissingPool", "Unhealthy"


def questions(ctx: Context[Any]) -> dict[str, str]:
    """Return the URL of the facts that the status pod serves, by its address."""
    addresses = [pod["status"].get("podIP", "") for pod in ctx.pods if "deletionTimestamp" not in pod["metadata"]]
    return {f"{WATCHER}-{address}": f"http://{url_host(address)}:{PORT}/" for address in addresses if address}


def status_facts(ctx: Context[Any]) -> Mapping[str, Any]:
    """Return the facts from the status pod; empty if it did not answer."""
    return next((facts for facts in ctx.facts.values() if facts), {})


def connection_verdict(facts: Mapping[str, Any], *, repairs_keys: bool, makes_pools: bool) -> Verdict:
    """Return READY if the keys of all services are valid and their pools exist. Otherwise the verdict says what the
    user has to do, unless the operator repairs keys, and it or Rook makes pools.
    """
    if not facts:
        return progressing("the status pod has not reported yet")
    if refused := facts["refused"]:
        text = "; ".join(f"the key of {user} is refused ({message})" for user, message in refused.items())
        if repairs_keys:
            return Verdict(State.PROGRESSING, f"{text}; a job corrects it", REFUSED)
        return failed(f"{text}; copy the key from `ceph auth get {next(iter(refused))}` into the Secret", REFUSED)
    if not facts["reachable"]:
        return out_of_service(f"the monitors cannot be reached: {facts['message']}", UNREACHABLE)
    if missing := facts["missing"]:
        text = "; ".join(f"the pool {pool!r} of {user} is missing" for user, pool in missing.items())
        missing_pool = failed(f"{text}; create it, or choose another pool", POOL)
        return Verdict(State.PROGRESSING, text, POOL) if makes_pools else missing_pool
    return READY


def health_verdict(facts: Mapping[str, Any]) -> Verdict:
    """Return the health that Ceph reports. Warnings outside GRAVE are in the message, and do not prevent READY."""
    if not facts.get("reachable"):
        return out_of_service("unknown, because Ceph does not answer")
    checks: Mapping[str, str] = facts["checks"]
    text = "; ".join(f"{name}: {summary}" for name, summary in checks.items())
    grave = facts["health"] == "HEALTH_ERR" or any(name in GRAVE for name in checks)
    return out_of_service(f"{facts['health']}: {text}", UNHEALTHY) if grave else Verdict(State.READY, text)


def details(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return `status.health` and `status.capacity`; empty until Ceph has answered."""
    if not facts.get("reachable"):
        return {}
    # In whole GiB, as Cinder counts, so that a cloud at rest writes no status.
    capacity = {name: f"{facts[name] // 1024**3}Gi" for name in ("total", "used", "available")}
    return {"health": facts["health"][:63], "capacity": capacity}


JOB = "pools"
"""Component of the job that makes pools and clients."""
_FACTS_DELAY = timedelta(minutes=1)
"""Time after the end of a job after which facts are surely newer than its work."""


def rerun_marker(ctx: Context[Any], digest: str, facts: Mapping[str, Any]) -> str:
    """Return a word for the job that makes pools and clients; another word makes it run again, if it has done its work
    (`digest` is that of its Secret), and a pool or client has been missing since.
    """
    for job in (live for (kind, _), live in ctx.children.items() if kind == "Job"):
        env = {entry["name"]: entry.get("value", "") for entry in _environment(job)}
        if env.get("WANTED") != digest:
            continue
        end = (job.get("status") or {}).get("completionTime")
        is_newer = (ended_at := kube.valid_time(end)) is not None and ended_at + _FACTS_DELAY <= ctx.now
        return str(end) if is_newer and (facts.get("refused") or facts.get("missing")) else env.get("AGAIN", "")
    return ""


def _environment(job: Object) -> list[Object]:
    return job["spec"]["template"]["spec"]["containers"][0].get("env") or []


def condition_steps(facts: Mapping[str, Any], connection: Verdict) -> tuple[Step, Step]:
    """Return the steps of the conditions CephConnected and HealthReady."""
    connected = Step(name="CephConnected", verdict=connection)
    return connected, Step(name="Health", after=(connected,), verdict=health_verdict(facts))
