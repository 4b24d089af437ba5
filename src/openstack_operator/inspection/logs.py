"""`logs`: what the pods of a service log, in the order of time, without passwords."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..kube import COMPONENT, INSTANCE, KIND, NAME
from ..kube.quotes import mask_passwords
from ..plan import Object, SpecError, Transient
from ..runtime.client import Client
from .selection import chosen, kinds_of, labels_of
from .session import run, text_of, warn
from .snapshot import Snapshot, read
from .state import printed

_LINES = 100
_MOST = 16 << 20
"""Letters of the log of one container: what is put in order has to fit into memory."""
_RECENT = {"sinceSeconds": "10"}
_PAUSE = 5.0
"""Seconds between two looks for new pods."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the command line."""

    service: str
    """`KIND` or `KIND/NAME`."""
    program: str = ""
    """Component, label or container of the pods; empty stands for all."""
    namespace: str = "openstack"
    context: str | None = None
    follow: bool = False
    since: float | None = None
    """Seconds; None sets no limit."""
    tail: int | None = None
    """Lines of each container; None takes 100, or all with `since`. A negative number stands for all."""


class Container(NamedTuple):
    """A container of a pod; after a restart it is another one."""

    pod: str
    name: str
    restarts: int = 0


def logs(options: Options) -> int:
    """Print logs. Returns 0, or 2 if there is no such service, program or pod."""
    return run(options.context, lambda client: _logs(client, options))


async def _logs(client: Client, options: Options) -> int:
    snapshot = await _read(client, options)
    containers = containers_of(matching_pods(snapshot, options.service, options.program), options.program)
    if not containers:
        raise LookupError(_nothing(snapshot, options))
    if options.follow:
        await _follow(client, options, containers)
        return 0
    limit = asyncio.Semaphore(8)

    async def collected(container: Container) -> Iterable[tuple[str, str]]:
        async with limit:
            return await _timed(client, options, container)

    timed = await asyncio.gather(*map(collected, containers))
    # Without the Z, since there may be any number of digits before it.
    for _, line in sorted((each for lines in timed for each in lines), key=lambda each: each[0].rstrip("Z")):
        print(line)
    return 0


async def _read(client: Client, options: Options) -> Snapshot:
    snapshot = await read(client, options.namespace, kinds_of(options.service), with_workloads=False)
    if snapshot.unreadable:
        raise LookupError(f"you may not list {'; '.join(snapshot.unreadable)}")
    return snapshot


def matching_pods(snapshot: Snapshot, service: str, program: str = "") -> list[Object]:
    """Return the pods of a service that may run a program. Raises LookupError if there is no such service."""
    owners = {labels_of(each) for each in chosen(snapshot, service, whole=True)}
    pods = [each for each in snapshot.pods if (_label(each, KIND), _label(each, INSTANCE)) in owners]
    return [each for each in pods if not program or _runs(each, program) or program in _containers(each)]


def _runs(pod: Object, program: str) -> bool:
    """Return True if the pod is one of a program; `compute` is that of every cell."""
    component = _label(pod, COMPONENT)
    return program in (component, _label(pod, NAME)) or component.endswith(f"-{program}")


def containers_of(pods: Iterable[Object], program: str = "") -> list[Container]:
    """Return the containers of pods; of a pod that only has a container of that name, this one."""
    containers: list[Container] = []
    for pod in pods:
        status = pod.get("status") or {}
        statuses = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
        restarts = {each["name"]: each.get("restartCount", 0) for each in statuses}
        names = _containers(pod) if not program or _runs(pod, program) else [program]
        containers += [Container(pod["metadata"]["name"], name, restarts.get(name, 0)) for name in names]
    return containers


def _containers(pod: Object) -> list[str]:
    return [each["name"] for each in (pod.get("spec") or {}).get("containers") or ()]


def _label(pod: Object, name: str) -> str:
    return (pod["metadata"].get("labels") or {}).get(name, "")


def _nothing(snapshot: Snapshot, options: Options) -> str:
    programs = sorted({_label(each, COMPONENT) for each in matching_pods(snapshot, options.service)} - {""})
    if options.program and programs:
        return f"{options.service} has no pods of a program {options.program!r}; choose from {', '.join(programs)}"
    return f"{options.service} has no pods in namespace {options.namespace!r}"


def _parameters(options: Options) -> dict[str, str]:
    """Return the parameters of the API for the part of a log that the user wants."""
    tail = options.tail if options.tail is not None else -1 if options.since is not None else _LINES
    parameters = {"tailLines": str(tail)} if tail >= 0 else {}
    if options.since is not None:
        parameters["sinceSeconds"] = str(max(1, round(options.since)))
    return parameters


async def _timed(client: Client, options: Options, container: Container) -> Iterable[tuple[str, str]]:
    """Return the last lines of a container, each with its time; none, with a note on stderr, if there is no log."""
    parameters = {**_parameters(options), "timestamps": "true"}
    lines, size, name = deque[tuple[str, str]](), 0, f"{container.pod}, container {container.name}"
    try:
        async for line in client.log_lines(options.namespace, container.pod, container.name, **parameters):
            stamp, _, text = line.partition(" ")
            lines.append((stamp, printable(container, text)))
            size += len(line)
            while size > _MOST:
                size -= len(lines.popleft()[1])
    except (SpecError, Transient) as error:
        warn(f"{'only a part of the' if lines else 'no'} log of {name}: {text_of(error)}")
    return lines


async def _follow(client: Client, options: Options, containers: Sequence[Container]) -> None:
    """Print what containers log, also those that come later, until the user ends it."""
    tasks: dict[Container, asyncio.Task[None]] = {}
    parameters = dict.fromkeys(containers, _parameters(options))
    try:
        while True:
            for container in containers:
                if container not in tasks:
                    # One that began meanwhile from its beginning, one whose connection broke from there on.
                    part = parameters.get(container, {})
                    parameters[container] = _RECENT
                    tasks[container] = asyncio.create_task(_print(client, options.namespace, container, part))
            await asyncio.sleep(_PAUSE)
            try:
                snapshot = await _read(client, options)
                containers = containers_of(matching_pods(snapshot, options.service, options.program), options.program)
            except Transient as error:
                warn(text_of(error))
            tasks = {each: task for each, task in tasks.items() if not _has_failed(task)}
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


def _has_failed(task: asyncio.Task[None]) -> bool:
    """Return True if a container has no log yet, or its connection broke. Raises any other error."""
    if not task.done() or (error := task.exception()) is None:
        return False
    if not isinstance(error, (SpecError, Transient)):
        raise error
    return True


async def _print(client: Client, namespace: str, container: Container, part: Mapping[str, str]) -> None:
    """Print the log of a container from a part on, as it grows."""
    async for line in client.log_lines(namespace, container.pod, container.name, follow="true", **part):
        print(printable(container, line), flush=True)


def printable(container: Container, line: str) -> str:
    """Return a line as it may be shown, behind the names of its pod and of a container that is not the main one."""
    name = container.pod if container.name == "main" else f"{container.pod}/{container.name}"
    return printed(f"{name} {mask_passwords(line)}")
