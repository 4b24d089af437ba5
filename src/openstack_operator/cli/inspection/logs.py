"""`logs`: what the pods of a service log, in the order of time, without passwords."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...kube import COMPONENT, INSTANCE, KIND, NAME
from ...kube.quotes import mask_passwords
from ...plan import Object, SpecError, Transient
from ...runtime.kubernetes.client import Client
from .selection import ServiceOptions, chosen, kinds_of, labels_of
from .session import run, text_of, warn
from .snapshot import Snapshot, read
from .state import printed

_LINES = 100
_MOST = 16 << 20
"""Letters of the log of one container: what is put in order has to fit into memory."""
_STAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})")
_SECOND = len("2026-01-01T00:00:00")
_PAUSE = 5.0
"""Seconds between two looks for new pods."""


@dataclass(frozen=True, kw_only=True)
class Options(ServiceOptions):
    """Options of the command line."""

    follow: bool = False
    since: float | None = None
    """Seconds; None sets no limit."""
    tail: int | None = None
    """Lines of each container; None takes 100, or all with `since`. A negative number stands for all."""


class Container(NamedTuple):
    """A container of a pod, or an init container."""

    pod: str
    name: str
    restarts: int = 0
    is_running: bool = False
    uid: str = ""
    """Of the pod: another one may have its name later."""


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
    snapshot.check_complete()
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
        status, metadata = pod.get("status") or {}, pod["metadata"]
        listed = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        statuses = {each["name"]: each for each in listed}
        for name in _containers(pod) if not program or _runs(pod, program) else [program]:
            each = statuses.get(name, {})
            is_running = "running" in (each.get("state") or {})
            containers.append(
                Container(metadata["name"], name, each.get("restartCount", 0), is_running, metadata.get("uid", ""))
            )
    return containers


def _containers(pod: Object) -> list[str]:
    """Return the names of the containers, in the order in which they start."""
    spec = pod.get("spec") or {}
    return [each["name"] for field_name in ("initContainers", "containers") for each in spec.get(field_name) or ()]


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
    stamp = ""
    try:
        async for line in client.log_lines(options.namespace, container.pod, container.name, **parameters):
            own_stamp, text = _split(line)
            stamp, entry = own_stamp or stamp, printable(container, text)
            lines.append((stamp, entry))
            size += len(entry)
            while size > _MOST:
                size -= len(lines.popleft()[1])
    except (SpecError, Transient) as error:
        warn(f"{'an incomplete' if lines else 'no'} log of {name}: {text_of(error)}")
    return lines


def _split(line: str) -> tuple[str, str]:
    """Return the time of a line and its text. A further part of a very long line has no time, nor has what a node says
    in place of a log.
    """
    stamp, _, text = line.partition(" ")
    return (stamp, text) if _STAMP.fullmatch(stamp) else ("", line)


async def _follow(client: Client, options: Options, containers: Sequence[Container]) -> None:
    """Print what containers log, also those that come later, until the user ends it."""
    parameters = _parameters(options)
    readers: dict[tuple[str, str], _Reader] = {}
    try:
        while True:
            for container in containers:
                # One that began meanwhile is read from its beginning.
                key = container.uid, container.name
                reader = readers.setdefault(key, _Reader(client, options.namespace, parameters))
                reader.look(container)
            parameters = {}
            await asyncio.sleep(_PAUSE)
            try:
                snapshot = await _read(client, options)
                containers = containers_of(matching_pods(snapshot, options.service, options.program), options.program)
            except Transient as error:
                warn(text_of(error))
    finally:
        tasks = [each.task for each in readers.values() if each.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class _Reader:
    """A reader of the log of one container. A stream ends before the log does: the node rotates the file, a server of
    the API stops, or nothing is logged for hours. The next one goes on behind the last line.
    """

    client: Client
    namespace: str
    part: Mapping[str, str]
    """Parameters of the API for the part that is read as long as no line was."""
    task: asyncio.Task[None] | None = None
    _container: Container | None = None
    """The container as it was when the present stream, or the last one, began."""
    _is_broken: bool = False
    _is_resumed: bool = False
    _began: float = field(default_factory=time.monotonic)
    _newest: str = ""
    """Latest second of which a line was printed; the API server cuts off fractions."""
    _zone: str = ""
    _printed: Counter[str] = field(default_factory=Counter[str])
    """Lines of that second."""
    _fault: str = ""

    def look(self, container: Container) -> None:
        """Begin to read, or go on if the stream ended and there may be more."""
        if self.task:
            if not self.task.done():
                return
            self.task.result()
            # What ended while it was being read may have logged more meanwhile; it is read once again.
            if not container.is_running and container == self._container and not self._is_broken:
                return
        self._container = container
        self.task = asyncio.create_task(self._read(container))

    async def _read(self, container: Container) -> None:
        """Print the log of a container from where the last stream ended, as it grows."""
        parameters = {"follow": "true", "timestamps": "true", **self._part()}
        remaining, is_shown, has_lines = self._printed.copy(), True, False
        self._is_broken = False
        try:
            async for line in self.client.log_lines(self.namespace, container.pod, container.name, **parameters):
                stamp, text = _split(line)
                if stamp:
                    has_lines = True
                    is_shown = self._is_new(stamp, line, remaining)
                if not has_lines:
                    self._report(container, text)
                elif is_shown:
                    print(printable(container, text), flush=True)
        except (SpecError, Transient) as error:
            self._is_broken = True
            self._report(container, text_of(error))
            if isinstance(error, SpecError):
                # It has not begun; then all that it logs is new.
                self.part = {}
        else:
            self.part = {"tailLines": "0"}
        finally:
            self._is_resumed = True

    def _part(self) -> Mapping[str, str]:
        if self._newest:
            return {"sinceTime": self._newest + self._zone}
        if self._is_resumed and self.part.get("tailLines") == "0":
            # There was nothing to read yet: all since then is new.
            return {"sinceSeconds": str(math.ceil(time.monotonic() - self._began) + 1)}
        return self.part

    def _is_new(self, stamp: str, line: str, remaining: Counter[str]) -> bool:
        """Return True for a line that no stream before had, and remember it. `remaining` are those that the present
        stream repeats.
        """
        second = stamp[:_SECOND]
        if second == self._newest and remaining[line] > 0:
            remaining[line] -= 1
            return False
        if second > self._newest:
            self._newest, self._zone = second, stamp[_SECOND:].lstrip(".0123456789")
            self._printed.clear()
        if second == self._newest:
            self._printed[line] += 1
        return True

    def _report(self, container: Container, text: str) -> None:
        """Say on stderr why there is no log, or no more of it, once."""
        if text != self._fault:
            self._fault = text
            warn(f"{container.pod}, container {container.name}: {text}")


def printable(container: Container, line: str) -> str:
    """Return a line as it may be shown, behind the names of its pod and of a container that is not the main one."""
    name = container.pod if container.name == "main" else f"{container.pod}/{container.name}"
    return printed(f"{name} {mask_passwords(line)}")
