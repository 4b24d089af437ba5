"""The state of a namespace as a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ...kube import INSTANCE, KIND, conditions
from ...plan import PAUSED, Object
from ..kind_index import SMALL
from ..terminal import Color
from .certificates import Certificate, certificate_lines
from .members import member_lines
from .selection import labels_of
from .snapshot import Snapshot
from .state import CHANGING, is_ready, is_serving, pause_of, printed, progress_of, reason_of, remarks, subject
from .upgrades import release_of, upgrade_lines

_COLUMNS = ("KIND", "NAME", "READY", "PODS", "SINCE", "STATE")
_WIDEST = 110
"""Letters of a message; `why` has all of it."""
_COLUMNS_OF_TERMINAL = 80
_GOING_ON = frozenset({"Progressing", "Waiting", "Retrying"})
"""Reasons of what may end by itself."""


def overview(snapshot: Snapshot, resources: Sequence[Object], *, every: bool = False) -> str:
    """Return the clouds with their addresses, then a line for each resource, in the order of their kinds and names.
    Small resources that are ready are only counted, unless `every` one is to be shown.
    """
    return "\n".join(line for line, _ in overview_lines(snapshot, resources, every=every))


def overview_lines(
    snapshot: Snapshot,
    resources: Sequence[Object],
    *,
    every: bool = False,
    certificates: Sequence[Certificate] | None = (),
) -> list[tuple[str, Color | None]]:
    """Return the lines of the overview, with their colors. None for `certificates` says that they may not be read."""
    planes = [each for each in resources if each["kind"] in ("OpenStackControlPlane", "ControlPlane")]
    services = [each for each in resources if each not in planes]
    quiet = [] if every else [each for each in services if _is_quiet(each)]
    visible = sorted((each for each in services if each not in quiet), key=lambda live: (live["kind"], subject(live)))
    pods = _pods(snapshot)
    rows = [_row(each, pods.get(labels_of(each), (0, 0)), snapshot.now) for each in (*planes, *visible)]
    lines: list[tuple[str, Color | None]] = []
    for each in planes:
        lines += [(line, _color(each) or Color.GREEN) for line in _headlines(each)]
        lines += [(printed(line), None) for line in upgrade_lines(each, services)]
    if planes:
        lines += [*member_lines(visible), *certificate_lines(certificates, snapshot.now), ("", None)]
    head, *table = aligned([_COLUMNS, *rows])
    lines += [(head, None), *zip(table, map(_color, (*planes, *visible)), strict=True)]
    if quiet:
        lines.append((f"and {len(quiet)} small resource{'s' * (len(quiet) > 1)}, ready", None))
    if not all(map(is_ready, resources)):
        lines.append((f"`openstack-operator why -n {snapshot.namespace}` names the cause, and what to do", None))
    return lines


def _color(live: Object) -> Color | None:
    """Return the color of a line: of what failed, and of what goes on or is paused; none for what is ready."""
    reason = reason_of(live)
    if reason and conditions(live).get("Ready", {}).get("reason") not in _GOING_ON:
        return Color.RED
    return Color.YELLOW if reason or pause_of(live) is not None or remarks(live) else None


def _is_quiet(live: Object) -> bool:
    """Return True for a small resource that has nothing to say."""
    return is_ready(live) and pause_of(live) is None and not remarks(live) and _type(live) in SMALL


def _type(live: Object) -> tuple[str, str]:
    return live["apiVersion"], live["kind"]


def _headlines(plane: Object) -> list[str]:
    """Return the state of a cloud with its address, which has a line of its own where both are too long for one."""
    status = plane.get("status") or {}
    reason, phase = reason_of(plane), status.get("phase")
    word = CHANGING if is_serving(plane) else "not Ready"
    state = f"{word} ({reason}){f', phase {phase}' if phase else ''}" if reason else "Ready"
    parts = (
        state,
        progress_of(plane) if reason else "",
        f"release {release}" if (release := release_of(plane)) else "",
    )
    line = printed(f"{subject(plane)}: {', '.join(part for part in parts if part)}")
    endpoint = printed(status.get("endpoint") or "")
    if len(line) + len(endpoint) > _COLUMNS_OF_TERMINAL - 2:
        return [line, f"  {endpoint}"] if endpoint else [line]
    return [f"{line}, {endpoint}" if endpoint else line]


def _row(live: Object, pods: tuple[int, int], now: datetime) -> Sequence[str]:
    condition, reason = conditions(live).get("Ready", {}), reason_of(live)
    states = [f"paused: {pause}" if pause else "paused"] if (pause := pause_of(live)) is not None else []
    states += [f"{reason}: {condition.get('message', '')}"] if reason not in ("", PAUSED) else []
    state = printed("; ".join([*states, *remarks(live)]))
    count = f"{pods[0]}/{pods[1]}" if pods[1] else ""
    age = age_of(condition.get("lastTransitionTime", ""), now)
    cut = state if len(state) <= _WIDEST else f"{state[: _WIDEST - 1]}…"
    ready = str(not reason or is_serving(live))
    return (live["kind"], live["metadata"]["name"], ready, count, age, cut)


def _pods(snapshot: Snapshot) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the ready pods, and all that are to run, of each resource by the labels of its pods."""
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    for pod in snapshot.pods:
        status, labels = pod.get("status") or {}, pod["metadata"].get("labels") or {}
        if status.get("phase") in ("Succeeded", "Failed"):
            continue
        owner = labels.get(KIND, ""), labels.get(INSTANCE, "")
        ready, total = counts.get(owner, (0, 0))
        counts[owner] = ready + (conditions(pod).get("Ready", {}).get("status") == "True"), total + 1
    return counts


def age_of(since: str, now: datetime) -> str:
    """Return how long ago a time was; empty for one that cannot be read, as a user may have written it."""
    try:
        seconds = max(0, int((now - datetime.fromisoformat(since).astimezone(UTC)).total_seconds()))
    except (ValueError, OverflowError):
        return ""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row, with columns that are as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
