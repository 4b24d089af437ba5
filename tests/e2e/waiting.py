"""Waits that end when what they wait for has ended, and stages that say so to the tests which come later."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from openstack.connection import Connection

from tools.cloud.view import conditions, ready
from tools.localcluster.kubernetes import KubeError, Kubernetes

T = TypeVar("T")
Clock = Callable[[], float]

LOOK = 5.0
"""Seconds between two looks at whether the wait is in vain."""
GRACE = 45.0
"""Seconds a sign must last: what is being repaired shows it for a while, too."""
_RESTARTS = 3
"""Of a container, since the wait began, after which it is taken for one that never runs."""
_NOT_STARTED = (
    *("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"),
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
)
PLANES = ("openstackcontrolplanes.openstack.k8s.io", "controlplanes.c5c3.io")


class EndedError(KubeError):
    """What was waited for will not come."""


@dataclass
class Stage:
    """A cloud that tests use in turn, and why it cannot be used any more."""

    cluster: Kubernetes
    namespace: str
    clock: Clock = time.monotonic
    over: str = ""
    """Empty while it can be used."""
    suspect: str = ""
    """A test that failed on it and was not looked into yet."""
    _looked: float = 0.0
    _since: dict[str, float] = field(default_factory=dict[str, float])
    _restarts: dict[str, int] = field(default_factory=dict[str, int])

    def begin(self) -> None:
        """A new wait: what was seen before does not count."""
        self._looked = self.clock()
        self._since.clear()
        self._restarts.clear()

    def look_into(self, sleep: Callable[[float], object] = time.sleep) -> None:
        """After a failed test: the cloud is itself again within a minute, or over."""
        suspect, self.suspect = self.suspect, ""
        if not suspect or self.over:
            return
        try:
            until(
                "every control plane to be Ready",
                lambda: not self.unready(),
                60,
                2,
                stages=(),
                clock=self.clock,
                sleep=sleep,
            )
        except KubeError:
            self.over = f"the cloud was not Ready again a minute after {suspect} failed: {self.unready()}"

    def unready(self) -> str:
        """What the control planes say that are not Ready."""
        try:
            planes = [each for kind in PLANES for each in self._planes(kind)]
        except KubeError as error:
            return str(error)
        said = {plane["metadata"]["name"]: conditions(plane).get("Ready", {}) for plane in planes if not ready(plane)}
        return "; ".join(f"{name}: {ready.get('message', 'no status')}" for name, ready in said.items())

    def in_vain(self) -> str:
        """Why nothing will come of waiting, from signs that lasted; empty where there is hope, or between two looks."""
        now = self.clock()
        if now - self._looked < LOOK:
            return ""
        self._looked = now
        try:
            signs = dict([*self._stalled(), *self._pods()])
        except KubeError:
            # An API server that does not answer says nothing about what it serves.
            return ""
        self._since = {what: self._since.get(what, now) for what in signs}
        lasting = [what for what, since in self._since.items() if now - since >= GRACE]
        return "; ".join(f"{what}: {signs[what]}" for what in lasting)

    def _stalled(self) -> Iterable[tuple[str, str]]:
        for plane in (each for kind in PLANES for each in self._planes(kind)):
            stalled = conditions(plane).get("Stalled", {})
            if stalled.get("status") == "True":
                yield f"{plane['kind']}/{plane['metadata']['name']} is Stalled", stalled.get("message", "")

    def _planes(self, kind: str) -> list[dict[str, Any]]:
        return self.cluster.items(kind, "-n", self.namespace) if self.cluster.exists("crd", kind) else []

    def _pods(self) -> Iterable[tuple[str, str]]:
        for pod in self.cluster.items("pods", "-n", self.namespace):
            status = pod.get("status", {})
            for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
                what = f"container {container['name']} of Pod/{pod['metadata']['name']}"
                waiting = container.get("state", {}).get("waiting", {})
                before = self._restarts.setdefault(what, container.get("restartCount", 0))
                if waiting.get("reason") in _NOT_STARTED:
                    yield f"{what} does not start", f"{waiting['reason']}: {waiting.get('message', '')}"
                elif container.get("restartCount", 0) - before >= _RESTARTS:
                    yield f"{what} crashes", _last_words(container)


def _last_words(container: dict[str, Any]) -> str:
    ended = container.get("lastState", {}).get("terminated", {})
    words = ended.get("message", "").strip()[-300:]
    return f"{container['restartCount']} restarts, exit status {ended.get('exitCode')} {words}".rstrip()


_stages: list[Stage] = []
"""Those that stand now, the latest last."""


def enter(stage: Stage) -> None:
    """All waits from now on end when the stage's cloud has."""
    _stages.append(stage)


def leave(stage: Stage) -> None:
    """The stage is taken down, and nobody's concern any more."""
    _stages.remove(stage)


def current() -> Stage | None:
    """The stage on which tests run now."""
    return _stages[-1] if _stages else None


def until(
    what: str,
    look: Callable[[], T | None],
    timeout: float = 60,
    pause: float = 0.5,
    *,
    failed: Callable[[], str] = str,
    stages: Sequence[Stage] | None = None,
    clock: Clock = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """The first true answer of `look`.

    Raises EndedError as soon as `failed` says why there will be none, or the cloud of the stage is Stalled or does not
    run for longer than GRACE; KubeError when there is no answer in time. Either says what was seen last.
    """
    watched = list(_stages[-1:] if stages is None else stages)
    for stage in watched:
        stage.begin()
    began = clock()
    seen: object = None
    while clock() - began < timeout:
        seen = look()
        if seen:
            return seen
        if reason := failed():
            raise EndedError(f"{what}: will not come: {reason}")
        for stage in watched:
            if reason := stage.in_vain():
                stage.over = f"{what} was waited for in vain: {reason}"
                raise EndedError(f"{what}: will not come, given up after {clock() - began:.0f} s: {reason}")
        sleep(pause)
    raise KubeError(f"{what}: not within {timeout:.0f} s; seen last: {seen!r}")


def server_reaches(conn: Connection, server: str, status: str, timeout: float = 180, **how: Any) -> Any:
    """The server with that status. Raises EndedError as soon as Nova has given up: the server is in ERROR, or what was
    asked of it last has failed.
    """
    compute: Any = conn.compute

    def reached() -> Any:
        found = compute.get_server(server)
        return found if found.status == status else None

    return until(f"server {server} to be {status}", reached, timeout, 1, failed=lambda: given_up(conn, server), **how)


def image_reaches(conn: Connection, image: str, status: str, timeout: float = 60, **how: Any) -> Any:
    """The image with that status. Raises EndedError as soon as Glance has given it up."""
    images: Any = conn.image

    def reached() -> Any:
        found = images.get_image(image)
        return found if found.status == status else None

    def failed() -> str:
        found = images.get_image(image)
        ended = found.status in ("killed", "deleted", "pending_delete")
        return f"it is {found.status}: {found.properties.get('os_glance_failed_import')}" if ended else ""

    return until(f"image {image} to be {status}", reached, timeout, 1, failed=failed, **how)


def given_up(conn: Connection, server: str) -> str:
    """Why a server does not do what it was asked last; empty while it may."""
    compute: Any = conn.compute
    found = compute.get_server(server)
    if found.status == "ERROR":
        return f"it is in ERROR: {(found.fault or {}).get('message', 'no reason given')}"
    if found.task_state:
        return ""
    action = next(iter(compute.server_actions(server)), None)
    if action is None or action.message != "Error":
        return ""
    events = compute.get_server_action(action.request_id, server).events or []
    results = [
        f"{event['event']}: {event['result']}" for event in events if event.get("result") not in (None, "Success")
    ]
    return f"{action.action} failed and nothing is under way; {', '.join(results) or 'no event says why'}"
