"""`status` and `why`: what they print, and their exit status."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lightkube.core.exceptions import ConfigError

from ..api import Resource
from ..catalogue import RESOURCES
from ..kube import conditions
from ..plan import Object, Transient
from ..runtime.client import Client
from .advice import advice
from .causes import Causes, Finding, Log, Root, roots
from .snapshot import Snapshot, read
from .table import overview

READY, NOT_READY, FAULT = 0, 1, 2
"""Exit statuses: all is ready, something is not, the question could not be answered."""
_PLANES = frozenset({"OpenStackControlPlane", "ControlPlane"})
_MOST, _LINES = 5, 5
"""Causes shown, and lines of the log of each."""
_PAUSE = 2.0
"""Seconds between two looks of `status --watch`."""


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
    return _run(options, _status)


def why(options: Options) -> int:
    """Print what keeps a resource from being ready, from the symptom to the cause, with what to do first."""
    return _run(options, _why)


def _run(options: Options, command: Callable[[Options, Client], Awaitable[int]]) -> int:
    async def connected() -> int:
        client = Client.connect(options.context)
        try:
            return await command(options, client)
        finally:
            await client.close()

    try:
        return asyncio.run(connected())
    except (ConfigError, Transient, LookupError) as error:
        print(f"openstack-operator: {error.args[0] if error.args else error}", file=sys.stderr)
        return FAULT
    except KeyboardInterrupt:
        return FAULT
    except BrokenPipeError:
        # A pager was left; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAULT


async def _status(options: Options, client: Client) -> int:
    while True:
        snapshot = await read(client, options.namespace)
        chosen = _chosen(snapshot, options.resource, whole=True)
        is_ready = all(_is_ready(each) for each in chosen)
        if options.as_json:
            print(json.dumps([_summary(each) for each in chosen], indent=2))
        else:
            clear = "\x1b[H\x1b[2J" if options.watch and sys.stdout.isatty() else ""
            print(clear + overview(snapshot, chosen), flush=True)
        _report_unreadable(snapshot)
        if not options.watch:
            return READY if is_ready else NOT_READY
        await asyncio.sleep(_PAUSE)


async def _why(options: Options, client: Client) -> int:
    snapshot = await read(client, options.namespace)
    chosen = _chosen(snapshot, options.resource, whole=False)
    findings = [finding for each in chosen if (finding := Causes(snapshot).of(each))]
    _report_unreadable(snapshot)
    if options.as_json:
        print(json.dumps([{**_as_json(finding), "causes": _roots_as_json(finding)} for finding in findings], indent=2))
        return NOT_READY if findings else READY
    if not findings:
        names = [_name(each) for each in chosen]
        print(f"{', '.join(names) if len(names) <= _MOST else f'all {len(names)} resources'}: Ready")
        return READY
    for finding in findings:
        await _print(client, options.namespace, finding)
    return NOT_READY


async def _print(client: Client, namespace: str, finding: Finding) -> None:
    causes = roots(finding)
    print(f"{finding.subject} in namespace {namespace} is not Ready: {finding.reason or 'Progressing'}")
    for number, root in enumerate(causes[:_MOST], 1):
        print(f"\n{number}. {_headline(root)}")
        if len(root.chain) > 1:
            print(f"   way:  {' → '.join(root.chain)}")
        if root.holds_up:
            print(f"   also: {', '.join(root.holds_up)}")
        text = advice(root.finding.reason) or ("" if root.finding.failed else "wait; this ends by itself")
        print(f"   do:   {text or 'change what the message names'}")
        for line in await _last_lines(client, namespace, root.finding.log):
            print(f"   log:  {_printed(line)}")
    if len(causes) > _MOST:
        print(f"\nand {len(causes) - _MOST} more; name one resource to see them: why KIND/NAME")


def _headline(root: Root) -> str:
    finding = root.finding
    reason = f"{finding.reason}: " if finding.reason else ""
    return _printed(f"{reason}{finding.subject}: {finding.text}")


async def _last_lines(client: Client, namespace: str, log: Log | None) -> Sequence[str]:
    """Return the last lines of a container's log; none where the node does not have it any more."""
    if log is None:
        return ()
    try:
        text = await client.log(namespace, log.pod, log.container, lines=_LINES, previous=log.previous)
    except Transient:
        return ()
    return [line for line in text.splitlines() if line.strip()]


def _printed(text: str) -> str:
    """Return text as one line of a terminal: what programs write in conditions and logs may move its cursor."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _chosen(snapshot: Snapshot, resource: str | None, *, whole: bool) -> list[Object]:
    """Return the resources that the user means. Raises LookupError if there is none."""
    where = f"in namespace {snapshot.namespace!r}"
    if resource is None:
        planes = [each for each in snapshot.resources if each["kind"] in _PLANES]
        resources = list(snapshot.resources) if whole or not planes else planes
        if not resources:
            raise LookupError(f"there is no resource of this operator {where}; name another one with -n")
        return resources
    kind, _, name = resource.partition("/")
    kinds = {each.kind for each in RESOURCES if kind.lower() in _names(each)}
    if not kinds:
        raise LookupError(f"there is no kind {kind!r}; `openstack-operator explain` knows their names")
    resources = [
        each for each in snapshot.resources if each["kind"] in kinds and name in ("", each["metadata"]["name"])
    ]
    if not resources:
        raise LookupError(f"there is no {resource} {where}")
    return resources


def _names(resource: Resource[Any]) -> set[str]:
    """Return the names of a kind that kubectl takes, without and with its group."""
    short = {resource.kind.lower(), resource.plural, *resource.short_names}
    return short | {f"{name}.{resource.group}" for name in short}


def _report_unreadable(snapshot: Snapshot) -> None:
    for each in snapshot.unreadable:
        print(f"not looked at: {each}", file=sys.stderr)


def _is_ready(live: Object) -> bool:
    return conditions(live).get("Ready", {}).get("status") == "True"


def _name(live: Object) -> str:
    return f"{live['kind']}/{live['metadata']['name']}"


def _summary(live: Object) -> Object:
    condition = conditions(live).get("Ready", {})
    return {
        "kind": live["kind"],
        "apiVersion": live["apiVersion"],
        "name": live["metadata"]["name"],
        "ready": condition.get("status") == "True",
        **{key: condition.get(key, "") for key in ("reason", "message", "lastTransitionTime")},
    }


def _as_json(finding: Finding) -> Object:
    return {"subject": finding.subject, "reason": finding.reason, "message": finding.text}


def _roots_as_json(finding: Finding) -> list[Object]:
    return [
        {
            **_as_json(root.finding),
            "chain": list(root.chain),
            "holdsUp": list(root.holds_up),
            "advice": advice(root.finding.reason),
            "failed": root.finding.failed,
            "log": _place(root.finding.log),
        }
        for root in roots(finding)
    ]


def _place(log: Log | None) -> Object | None:
    """Return a log's place as JSON has it."""
    return log._asdict() if log else None
