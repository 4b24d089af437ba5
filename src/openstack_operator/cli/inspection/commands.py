"""`status` and `why`: what they print, and their exit status."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ...kube import conditions
from ...kube.quotes import mask_passwords
from ...plan import Object, SpecError, Transient
from ...runtime.kubernetes.client import Client
from .. import terminal
from .advice import advice
from .causes import Causes, Finding, Log, Root
from .certificates import Certificates
from .selection import PLANES
from .selection import chosen as chosen_resources
from .session import FAULT, run, warn
from .snapshot import Snapshot, read
from .state import CHANGING, is_ready, is_serving, pause_of, printed, reason_of, remarks, subject
from .table import overview_lines

READY, NOT_READY = 0, 1
"""Exit statuses: all is ready, something is not; FAULT is a question that could not be answered."""
_MOST, _LINES, _WIDEST_LINE = 5, 5, 300
"""Causes shown, lines of the log of each, and letters of a line."""
_PAUSE, _SHARE = 2.0, 5
"""Seconds between two looks of `status --watch`, or so many times as long as a look takes."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the command line."""

    namespace: str = "openstack"
    context: str | None = None
    resource: str | None = None
    """`KIND/NAME`; None stands for the clouds of the namespace, or all its resources if it has no cloud."""
    as_json: bool = False
    watch: bool = False


def status(options: Options) -> int:
    """Print the resources of a namespace, with pods, releases and what each waits for."""
    return run(options.context, partial(_status, options))


def why(options: Options) -> int:
    """Print what keeps a resource from being ready, from the symptom to the cause, with what to do first."""
    return run(options.context, partial(_why, options))


async def _status(options: Options, client: Client) -> int:
    certificates = Certificates()
    if not options.watch:
        return await _show(options, client, certificates)
    while True:
        began = time.monotonic()
        try:
            await _show(options, client, certificates)
        except Transient as error:
            # An API server that starts again ends no watch.
            warn(str(error))
        await asyncio.sleep(max(_PAUSE, _SHARE * (time.monotonic() - began)))


async def _show(options: Options, client: Client, certificates: Certificates) -> int:
    snapshot = await read(client, options.namespace, with_workloads=False)
    report_unreadable(snapshot)
    chosen = chosen_resources(snapshot, options.resource, whole=True)
    if options.as_json:
        print(json.dumps([_summary(each) for each in chosen], indent=2), flush=True)
    else:
        is_cloud = any(each["kind"] in PLANES for each in chosen)
        listed = await certificates.read(client, options.namespace, chosen) if is_cloud else ()
        every = options.resource is not None
        if options.watch:
            terminal.control("\x1b[H\x1b[2J")
        for line, color in overview_lines(snapshot, chosen, every=every, certificates=listed):
            terminal.print_line(line, color)
        sys.stdout.flush()
    return _exit(snapshot, ready=all(map(is_ready, chosen)))


async def _why(options: Options, client: Client) -> int:
    snapshot = await read(client, options.namespace)
    report_unreadable(snapshot)
    chosen = chosen_resources(snapshot, options.resource, whole=False)
    answers = _answers(snapshot, chosen)
    if options.as_json:
        listed = [
            {**_as_json(finding), "causes": [_root_as_json(root) for root in roots]} for finding, roots in answers
        ]
        print(json.dumps(listed, indent=2))
    elif not answers:
        names = [subject(each) for each in chosen]
        print(f"{', '.join(names) if len(names) <= _MOST else f'all {len(names)} resources'}: Ready")
    else:
        print("\n".join(await explanation(client, snapshot, chosen)))
    if not options.as_json and (lines := list(_remark_lines(chosen))):
        print("\n".join([*([""] if answers else []), *map(printed, lines)]))
    return _exit(snapshot, ready=not answers)


async def explanation(client: Client, snapshot: Snapshot, resources: Sequence[Object]) -> list[str]:
    """Return the lines that say what keeps resources from being ready; none if all of them are."""
    return [
        printed(line)
        for finding, roots in _answers(snapshot, resources)
        for line in _text(snapshot.namespace, finding, roots, await _logs(client, snapshot.namespace, roots))
    ]


def _remark_lines(resources: Sequence[Object]) -> Iterator[str]:
    """Yield what has no effect in resources, be they ready or not. A cloud says it of those that it made."""
    for live in resources:
        for remark in remarks(live):
            yield f"{subject(live)}: {remark}"


def _answers(snapshot: Snapshot, resources: Sequence[Object]) -> list[tuple[Finding, list[Root]]]:
    causes = Causes(snapshot)
    return [answer for each in resources if (answer := causes.of(each))]


def _exit(snapshot: Snapshot, *, ready: bool) -> int:
    """Return the exit status: what may not be read may be what is not ready."""
    if not ready:
        return NOT_READY
    return FAULT if snapshot.unreadable else READY


def _text(namespace: str, finding: Finding, causes: Sequence[Root], logs: dict[Log, Sequence[str]]) -> Iterator[str]:
    state = CHANGING if finding.serves else "not Ready"
    yield f"{finding.subject} in namespace {namespace} is {state}: {finding.reason}"
    for number, root in enumerate(causes[:_MOST], 1):
        cause = root.finding
        yield ""
        yield f"{number}. {f'{cause.reason}: ' if cause.reason else ''}{cause.subject}: {cause.text}"
        if len(root.chain) > 1:
            yield f"   way:  {' → '.join(root.chain)}"
        if root.holds_up:
            yield f"   also: {', '.join(root.holds_up)}"
        lines = logs.get(cause.log, ()) if cause.log else ()
        text = advice(cause.reason, lines) or (
            "change what the message names" if cause.failed else "wait; no action is needed"
        )
        yield f"   do:   {text}"
        if cause.log:
            yield from _log_lines(namespace, cause.log, lines)
    if len(causes) > _MOST:
        yield ""
        yield f"and {len(causes) - _MOST} more; name one resource to see them: why KIND/NAME"


def _log_lines(namespace: str, log: Log, lines: Sequence[str]) -> Iterator[str]:
    if not lines:
        yield f"   log:  none; kubectl logs {log.pod} -c {log.container} -n {namespace} may have more"
        return
    yield f"   log of {log.pod}, container {log.container}:"
    for line in lines:
        yield f"     {line[:_WIDEST_LINE]}"


async def _logs(client: Client, namespace: str, roots: Sequence[Root]) -> dict[Log, Sequence[str]]:
    """Return the last lines of the logs of the causes that are shown."""
    places = [root.finding.log for root in roots[:_MOST]]
    return {each: await _last_lines(client, namespace, each) for each in places if each}


async def _last_lines(client: Client, namespace: str, log: Log) -> Sequence[str]:
    """Return the last lines of a container's log; none if the node does not have it."""
    try:
        text = await client.log(namespace, log.pod, log.container, lines=_LINES, previous=log.previous)
    except (SpecError, Transient):
        # The API server answers 400 for a container that has not begun, or that never ended.
        return ()
    return [line for line in mask_passwords(text).splitlines() if line.strip()]


def report_unreadable(snapshot: Snapshot) -> None:
    """Name on stderr what the user may not list."""
    for each in snapshot.unreadable:
        print(f"left out, because listing it is forbidden: {printed(each)}", file=sys.stderr)


def _summary(live: Object) -> Object:
    condition = conditions(live).get("Ready", {})
    return {
        "kind": live["kind"],
        "apiVersion": live["apiVersion"],
        "name": live["metadata"]["name"],
        "ready": is_ready(live),
        "serving": is_serving(live),
        "reason": reason_of(live),
        "paused": pause_of(live) is not None,
        "remarks": remarks(live),
        "members": list((live.get("status") or {}).get("members") or ()),
        **{key: condition.get(key, "") for key in ("message", "lastTransitionTime")},
    }


def _as_json(finding: Finding) -> Object:
    return {"subject": finding.subject, "reason": finding.reason, "message": finding.text}


def _root_as_json(root: Root) -> Object:
    return {
        **_as_json(root.finding),
        "chain": list(root.chain),
        "holdsUp": list(root.holds_up),
        "advice": advice(root.finding.reason),
        "failed": root.finding.failed,
        "log": root.finding.log._asdict() if root.finding.log else None,
    }
