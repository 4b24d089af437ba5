"""The record of a backup or a restore: its results, which outlive its pods."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ... import kube
from ...plan import Context, Object, Step, Verdict
from ...plan.times import valid_time

_FILE = "record.json"
_RESULTS = ("databases", "networks", "imagesBefore", "images", "poolsBefore", "pools", "manifest", "verifications")


def of_plan(ctx: Context[Any], kind: str, name: str) -> Object | None:
    """Return the object `<owner>-<name>`, None if there is none or if it has no owner: others may write one with our
    labels.
    """
    live = ctx.live(kind, name)
    owners = (live or {}).get("metadata", {}).get("ownerReferences") or ()
    return live if any(owner.get("controller") for owner in owners) else None


def stored(ctx: Context[Any]) -> dict[str, Any]:
    """Return the record; empty at first, and if it is none that a plan wrote."""
    data: Mapping[str, str] = (of_plan(ctx, "ConfigMap", "record") or {}).get("data") or {}
    try:
        record: Any = json.loads(data.get(_FILE, "{}"))
    except ValueError:
        return {}
    return record if isinstance(record, dict) and _is_valid(record) else {}


def _is_valid(record: Mapping[str, Any]) -> bool:
    maps: list[Any] = [record.get(name, {}) for name in (*_RESULTS, "attempts")]
    times = [record[name] for name in ("began", "completed", "verified") if name in record]
    if not all(isinstance(each, dict) for each in maps) or not all(isinstance(at, str) for at in times):
        return False
    results = [result for name in _RESULTS for result in record.get(name, {}).values()]
    attempts = [*record.get("attempts", {}).values()]
    are_typed = all(isinstance(each, dict) for each in results) and all(isinstance(each, int) for each in attempts)
    is_dated = "completed" not in record or "began" in record
    return are_typed and is_dated and all(map(valid_time, times))


def step(ctx: Context[Any], record: Mapping[str, Any], *, after: tuple[Step, ...] = (), name: str = "Record") -> Step:
    """Return ConfigMap `<owner>-record`."""
    text = json.dumps(record, sort_keys=True)
    return Step(name=name, objects=(kube.obj(ctx, "ConfigMap", ctx.name("record"), data={_FILE: text}),), after=after)


def stages(names: Sequence[str], verdict: Verdict) -> list[Step]:
    """Return steps without objects, for the conditions of stages that are over, or have not begun."""
    return [Step(name=name, verdict=verdict) for name in names]


def stamp(at: datetime) -> str:
    """Return a time as RFC 3339 has it, in UTC."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def duration(began: str, ended: str) -> str:
    """Return the time between two stamps as Go writes it: 45m12s."""
    seconds = int((datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds())
    minutes, rest = divmod(max(seconds, 0), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{rest}s"


def quantity(size: int | None) -> str | None:
    """Return bytes as Kubernetes writes them, in whole mebibytes."""
    return None if size is None else f"{-(-size >> 20)}Mi"
