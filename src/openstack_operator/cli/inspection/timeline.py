"""The last convergence of a cloud: when each part began and ended, what it waited for, and the critical path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any

from ...kube import MANAGED_BY, complete_since, conditions
from ...plan import Object
from ...runtime.kubernetes.kinds import VOLUME_CLAIM
from .graph import svg
from .relations import Relations, is_plane, relations
from .snapshot import Snapshot
from .state import printed, subject

_BAR = 40
"""Letters of the longest bar."""
_SCALE, _ROW, _NAME, _MARGIN = 700, 20, 330, 20
"""Pixels: of all seconds, of a row, of the names, and around all."""


@dataclass(frozen=True)
class Span:
    """A part of a cloud at work."""

    name: str
    """Kind/name."""
    owner: str
    """The resource that it belongs to; its own name for a resource."""
    began: float
    """Seconds since the cloud was changed."""
    ended: float
    after: str = ""
    """The span that ended last before this one began, of those that it may have waited for."""


@dataclass(frozen=True)
class Timeline:
    """All parts that worked since the last change of a cloud."""

    start: datetime
    spans: Sequence[Span]
    """By the time at which they began."""
    critical: Sequence[str]
    """Names of the spans that decided how long it took, the first one first."""


def timeline(snapshot: Snapshot) -> Timeline | None:
    """Return the last convergence: since the last change of a cloud after which a part of it worked. None where there
    is no cloud, or nothing of it is ready.

    Times are of whole seconds, as Kubernetes keeps them. What a part waited for is not recorded: it is taken from the
    order of the times and from what the resources need.
    """
    changes = {time for each in snapshot.resources if is_plane(each) for time in _changes(each)}
    related = relations(snapshot.resources, small=True)
    for start in sorted(changes, reverse=True):
        if spans := _since(start, snapshot, related):
            waits = list(_with_waits(spans, related))
            return Timeline(start, waits, _critical(waits))
    return None


def _since(start: datetime, snapshot: Snapshot, related: Relations) -> list[Span]:
    names = {each["metadata"].get("uid", ""): name for name, each in related.resources.items()}
    spans = [*_resources(related, start), *_workloads(snapshot.workloads, names, start)]
    # The status of a workload whose spec is older was written for another reason, such as a pod that was replaced.
    worked = [each for each in spans if each.began >= 0 and each.ended >= 0]
    return sorted(worked, key=lambda each: (each.began, each.ended, each.name))


def _resources(related: Relations, start: datetime) -> Iterator[Span]:
    for name, live in related.resources.items():
        if is_plane(live):
            continue
        yield from _span(name, name, max(_changed(live), start), complete_since(live), start)


def _workloads(workloads: Iterable[Object], names: Mapping[str, str], start: datetime) -> Iterator[Span]:
    for live in workloads:
        owners = [names[each["uid"]] for each in live["metadata"].get("ownerReferences") or () if each["uid"] in names]
        if owners and live["kind"] != VOLUME_CLAIM.kind:
            yield from _span(subject(live), owners[0], _changed(live), _ended(live), start)


def _span(name: str, owner: str, began: datetime, ended: datetime | None, start: datetime) -> Iterator[Span]:
    if ended is not None and ended >= began:
        yield Span(name, owner, (began - start).total_seconds(), (ended - start).total_seconds())


def _ended(live: Object) -> datetime | None:
    """Return when a workload was done; None where nothing tells."""
    if live["kind"] == "Job":
        return _time((live.get("status") or {}).get("completionTime"))
    times = [conditions(live).get(type_, {}).get("lastUpdateTime") for type_ in ("Progressing", "Available")]
    if parsed := [time for each in times if (time := _time(each))]:
        return max(parsed)
    # A StatefulSet and a DaemonSet have no such conditions; their controller wrote the status last when all was ready.
    return max(
        (time for each in _managers(live) if each.get("subresource") == "status" and (time := _time(each.get("time")))),
        default=None,
    )


def _changed(live: Object) -> datetime:
    """Return when the spec of an object was written last: by the operator, or by a user of a cloud."""
    return max(_changes(live))


def _changes(live: Object) -> list[datetime]:
    """Return the times at which an object was made, and at which programs wrote its spec last."""
    is_ours = not is_plane(live)
    times = [
        time
        for each in _managers(live)
        if "f:spec" in (each.get("fieldsV1") or {})
        and (each.get("manager") == MANAGED_BY) == is_ours
        and (time := _time(each.get("time")))
    ]
    return [_time(live["metadata"].get("creationTimestamp")) or datetime.min.replace(tzinfo=UTC), *times]


def _managers(live: Object) -> Sequence[Mapping[str, Any]]:
    return live["metadata"].get("managedFields") or ()


def _time(text: str | None) -> datetime | None:
    """Return a time; None for one that cannot be read, as a user may have written it."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if text else None
    except (ValueError, OverflowError):
        return None


def _with_waits(spans: Sequence[Span], related: Relations) -> Iterator[Span]:
    """Yield the spans with what each one waited for: of its own resource and of those that this needs, the one that
    ended last before it began.
    """
    for span in spans:
        needed = {span.owner, *related.needs.get(span.owner, ())}
        parts = [each for each in spans if each.owner in needed and each.name not in (span.name, span.owner)]
        # A resource exists from the beginning, and is done when its parts, and what it needs, are.
        latest = span.ended if span.name == span.owner else span.began
        candidates = [each for each in parts if each.ended <= latest]
        last = max(candidates, key=lambda each: (each.ended, each.name == each.owner), default=None)
        yield Span(span.name, span.owner, span.began, span.ended, last.name if last else "")


def _critical(spans: Sequence[Span]) -> list[str]:
    """Return the way back from what ended last, over what each one waited for."""
    by_name = {span.name: span for span in spans}
    span: Span | None = max(spans, key=lambda each: (each.ended, each.name == each.owner))
    path: list[str] = []
    while span is not None and span.name not in path:
        path.append(span.name)
        span = by_name.get(span.after)
    return path[::-1]


def as_text(last: Timeline) -> str:
    """Return a bar for each part, with what it waited for, and the critical path."""
    total = max(each.ended for each in last.spans)
    width = max(len(each.name) for each in last.spans)
    lines = [f"since {last.start:%Y-%m-%d %H:%M:%S} UTC, {total:.0f} s"]
    for each in last.spans:
        offset = _letters(each.began, total)
        bar = " " * offset + "█" * max(1, _letters(each.ended, total) - offset)
        mark = "*" if each.name in last.critical else " "
        waits = f"  after {each.after}" if each.after else ""
        lines.append(
            f"{mark} {each.name:<{width}} {each.began:5.0f} {each.ended:5.0f} s  {bar:<{_BAR + 1}}{waits}".rstrip()
        )
    lines += ["", f"critical path (*): {' → '.join(last.critical)}"]
    return "\n".join(map(printed, lines))


def _letters(seconds: float, total: float) -> int:
    return round(seconds / max(total, 1) * _BAR)


def as_svg(last: Timeline) -> str:
    """Return the same as a picture."""
    total = max([1.0, *(each.ended for each in last.spans)])
    lines: list[str] = []
    for row, each in enumerate(last.spans):
        top, x = _MARGIN + row * _ROW, _MARGIN + _NAME + each.began / total * _SCALE
        width = max(2.0, (each.ended - each.began) / total * _SCALE)
        color = "#c62828" if each.name in last.critical else "#1565c0"
        lines.append(f'<text x="{_MARGIN}" y="{top + 14}" font-size="12">{escape(printed(each.name))}</text>')
        lines.append(f'<rect x="{x:.1f}" y="{top + 3}" width="{width:.1f}" height="{_ROW - 7}" fill="{color}"/>')
        lines.append(f'<text x="{x + width + 4:.1f}" y="{top + 14}" font-size="11">{each.ended:.0f} s</text>')
    return svg(_MARGIN * 2 + _NAME + _SCALE + 60, _MARGIN * 2 + len(last.spans) * _ROW, lines)


def as_json(last: Timeline) -> Object:
    """Return the same for programs."""
    return {
        "start": last.start.isoformat(),
        "spans": [
            {"name": each.name, "owner": each.owner, "began": each.began, "ended": each.ended, "after": each.after}
            for each in last.spans
        ],
        "criticalPath": list(last.critical),
    }
