"""A preview as text for a terminal, and for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...plan import Object
from ..inspection.state import printed
from .changes import FieldChange, ObjectChange, Verb, is_job
from .outage import Outage

_SIGNS: Mapping[Verb, str] = {"created": "+", "changed": "~", "deleted": "-"}
_WIDEST = 160


def lines(
    changes: Sequence[ObjectChange], outages: Sequence[Outage], problems: Sequence[str], durations: Mapping[str, float]
) -> Iterator[str]:
    """Yield the preview, without characters that would move the cursor of a terminal: objects with their fields, then
    jobs and roll-outs in their order, and what stops. `durations` are seconds by Kind/name that it took the last time.
    """
    for line in _lines(changes, outages, problems, durations):
        yield printed(line)


def _lines(
    changes: Sequence[ObjectChange], outages: Sequence[Outage], problems: Sequence[str], durations: Mapping[str, float]
) -> Iterator[str]:
    for change in changes:
        yield f"{_SIGNS[change.verb]} {change.name}{' (replaces its pods)' if change.replaces_pods else ''}"
        for field in change.fields:
            yield f"    {_field(field)}"
    yield from _steps("Jobs, in this order:", [each.name for each in changes if is_job(each)], durations)
    replaced = sorted((each for each in changes if each.replaces_pods), key=lambda each: each.replaced_at)
    rolled_out = [each.name for each in replaced]
    # The pods of a DaemonSet wait for other programs, and none waits for them.
    has_daemon_sets = any(name.startswith("DaemonSet/") for name in rolled_out)
    on_nodes = " (DaemonSets do not wait for each other)" if has_daemon_sets else ""
    yield from _steps(f"Pods are replaced in this order, one workload at a time{on_nodes}:", rolled_out, durations)
    if outages:
        yield ""
        yield "Not available during the change:"
        for outage in outages:
            yield f"  {outage.name}: {outage.reason}"
    if problems:
        yield ""
        yield "Not done:"
        for problem in problems:
            yield f"  {problem}"
    yield ""
    yield _total(changes)


def _steps(title: str, names: Sequence[str], durations: Mapping[str, float]) -> Iterator[str]:
    if not names:
        return
    yield ""
    yield title
    for name in names:
        last = durations.get(name)
        yield f"  {name}{f' (took {last:.0f} s the last time)' if last is not None else ''}"


def _field(field: FieldChange) -> str:
    if field.before is None:
        return f"{field.path}: {_value(field.after)} (new)"
    if field.after is None:
        return f"{field.path}: removed, was {_value(field.before)}"
    if field.before == field.after:
        return f"{field.path}: changes (not shown)"
    return f"{field.path}: {_value(field.before)} -> {_value(field.after)}"


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…"


def _total(changes: Sequence[ObjectChange]) -> str:
    if not changes:
        return "No changes."
    counts = Counter(change.verb for change in changes)
    counted = ", ".join(f"{counts[verb]} {verb}" for verb in _SIGNS if counts[verb])
    replaced = sum(change.replaces_pods for change in changes)
    programs = f"; {replaced} program{'s' * (replaced != 1)} replace{'s' * (replaced == 1)} pods" if replaced else ""
    return f"{len(changes)} object{'s' * (len(changes) != 1)}: {counted}{programs}"


def as_json(
    changes: Sequence[ObjectChange], outages: Sequence[Outage], problems: Sequence[str], durations: Mapping[str, float]
) -> Object:
    """Return the same for programs."""
    return {
        "changes": [
            {
                "apiVersion": change.address.kind.api_version,
                "kind": change.address.kind.kind,
                "namespace": change.address.namespace,
                "name": change.address.name,
                "change": change.verb,
                "replacesPods": change.replaces_pods,
                "fields": [{"path": each.path, "before": each.before, "after": each.after} for each in change.fields],
            }
            for change in changes
        ],
        "jobs": [each.name for each in changes if is_job(each)],
        "outages": [{"name": each.name, "reason": each.reason} for each in outages],
        "notDone": list(problems),
        "secondsLastTime": dict(durations),
    }
