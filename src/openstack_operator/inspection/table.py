"""The state of a namespace as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from ..catalogue import RESOURCES
from ..kube import INSTANCE, KIND, conditions
from ..plan import Object
from .snapshot import Snapshot

_COLUMNS = ("KIND", "NAME", "READY", "PODS", "SINCE", "STATE")
_WIDEST = 110
"""Letters of a message; `why` has all of it."""
_ROLES = {(each.api_version, each.kind): each.role for each in RESOURCES}


def overview(snapshot: Snapshot, resources: Sequence[Object]) -> str:
    """Return the clouds with their addresses, then a line for each resource, in the order of their kinds and names;
    small resources that are ready are counted only.
    """
    planes = [each for each in resources if each["kind"] in ("OpenStackControlPlane", "ControlPlane")]
    services = [each for each in resources if each not in planes]
    pods = _pods(snapshot)
    rows, quiet = list[Sequence[str]](), 0
    for each in (*planes, *sorted(services, key=lambda live: (live["kind"], live["metadata"]["name"]))):
        count = pods.get((_role(each), each["metadata"]["name"]), (0, 0))
        if _ready(each) == "True" and not count[1] and each not in planes:
            quiet += 1
            continue
        rows.append(_row(each, count, snapshot.now))
    lines = [*map(_headline, planes), *([""] if planes else []), *_aligned([_COLUMNS, *rows])]
    if quiet:
        lines.append(f"and {quiet} resources without pods, all ready")
    return "\n".join(lines)


def _headline(plane: Object) -> str:
    status, spec = plane.get("status") or {}, plane.get("spec") or {}
    parts = [status.get("phase") or "new", f"release {spec['release']}" if spec.get("release") else ""]
    parts.append(status.get("endpoint") or "")
    return f"{plane['kind']}/{plane['metadata']['name']}: {', '.join(part for part in parts if part)}"


def _row(live: Object, pods: tuple[int, int], now: datetime) -> Sequence[str]:
    condition = conditions(live).get("Ready", {})
    reason, message = (
        condition.get("reason", ""),
        "".join(letter if letter.isprintable() else " " for letter in condition.get("message", "")),
    )
    state = "" if condition.get("status") == "True" else f"{reason or 'Unknown'}: {message}"
    count = f"{pods[0]}/{pods[1]}" if pods[1] else ""
    since = condition.get("lastTransitionTime", "")
    age = _age(now - datetime.fromisoformat(since).astimezone(UTC)) if since else ""
    cut = state if len(state) <= _WIDEST else f"{state[: _WIDEST - 1]}…"
    return (live["kind"], live["metadata"]["name"], _ready(live), count, age, cut)


def _ready(live: Object) -> str:
    return conditions(live).get("Ready", {}).get("status", "Unknown")


def _pods(snapshot: Snapshot) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the ready pods, and all that are to run, of each resource by its role and name."""
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    for pod in snapshot.pods:
        status, labels = pod.get("status") or {}, pod["metadata"].get("labels") or {}
        if status.get("phase") in ("Succeeded", "Failed"):
            continue
        owner = labels.get(KIND, ""), labels.get(INSTANCE, "")
        ready, total = counts.get(owner, (0, 0))
        counts[owner] = ready + (_ready(pod) == "True"), total + 1
    return counts


def _role(live: Object) -> str:
    """Return the kind by which pods are labeled: that of our own group for those of c5c3's."""
    return _ROLES[live["apiVersion"], live["kind"]].lower()


def _age(age: timedelta) -> str:
    seconds = max(0, int(age.total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
