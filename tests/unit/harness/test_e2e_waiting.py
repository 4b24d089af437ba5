"""Waits of the end-to-end tests: they end when what they wait for has ended, and later tests are not tried in vain."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.e2e import waiting
from tests.e2e.conftest import stays
from tests.e2e.on_reasons.observe import Seconds, Sign, is_over
from tests.e2e.waiting import GRACE, EndedError, Stage, given_up, server_reaches, until
from tools.cloud.session import MINIMAL
from tools.localcluster.kubernetes import ROOT, KubeError, Kubernetes

STALLED = {"type": "Stalled", "status": "True", "message": "nova: InvalidSpec"}


class Clock:
    """Time that passes only where somebody sleeps."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Cluster(Kubernetes):
    """A cluster with one control plane and one pod, whose restarts grow by one every 20 s where it crashes."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("embedded", None)
        self.__dict__.update(clock=clock, conditions=[], waiting={}, crashes=False, away=False)

    def exists(self, *arguments: str) -> bool:
        return arguments[1] == waiting.PLANES[0]

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        told = self.__dict__
        if told["away"]:
            raise KubeError("connection refused")
        if arguments[0] == "pods":
            restarts = int(told["clock"].now // 20) if told["crashes"] else 7
            ended = {"terminated": {"exitCode": 1, "message": "Address already in use"}}
            container = {"name": "libvirt", "restartCount": restarts, "state": {"waiting": told["waiting"]}}
            return [{"metadata": {"name": "p"}, "status": {"containerStatuses": [container | {"lastState": ended}]}}]
        metadata = {"name": "cloud", "generation": 1}
        return [{"kind": "OpenStackControlPlane", "metadata": metadata, "status": {"conditions": told["conditions"]}}]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stage(clock: Clock) -> Iterator[Stage]:
    entered = Stage(Cluster(clock), "openstack", clock)
    waiting.enter(entered)
    yield entered
    waiting.leave(entered)


def waited(clock: Clock, seconds: float = 900) -> float:
    """When a wait for what never comes is given up."""
    with pytest.raises(KubeError) as raised:
        until("the cloud", lambda: None, seconds, 1, clock=clock, sleep=clock.sleep)
    waited.said = str(raised.value)  # pyright: ignore[reportFunctionMemberAccess]
    return clock.now


def said() -> str:
    return cast("Any", waited).said


def test_a_stalled_control_plane_ends_wait_and_stage_within_a_minute(clock: Clock, stage: Stage):
    stage.cluster.__dict__["conditions"] = [STALLED]
    assert GRACE <= waited(clock) <= 60
    assert "OpenStackControlPlane/cloud is Stalled: nova: InvalidSpec" in said()
    assert "the cloud was waited for in vain" in stage.over


def test_a_short_stall_is_waited_out(clock: Clock, stage: Stage):
    def look() -> bool:
        stage.cluster.__dict__["conditions"] = [STALLED] if clock.now % 40 < 30 else []
        return clock.now > 300

    assert until("the cloud", look, 900, 1, clock=clock, sleep=clock.sleep)
    assert stage.over == ""


def test_an_image_that_cannot_be_pulled_ends_the_wait(clock: Clock, stage: Stage):
    stage.cluster.__dict__["waiting"] = {"reason": "ImagePullBackOff", "message": "no such image"}
    assert waited(clock) <= 60
    assert "container libvirt of Pod/p does not start: ImagePullBackOff: no such image" in said()


def test_a_pod_that_crashes_again_and_again_ends_the_wait(clock: Clock, stage: Stage):
    stage.cluster.__dict__["crashes"] = True
    assert waited(clock) < 3 * 20 + 60
    assert "crashes" in said()
    assert "Address already in use" in said()


def test_a_pod_that_crashed_before_the_wait_does_not(clock: Clock, stage: Stage):
    stage.cluster.__dict__["waiting"] = {"reason": "CrashLoopBackOff"}
    assert waited(clock, 300) >= 300
    assert "not within 300 s; seen last: None" in said()
    assert stage.over == ""


def test_an_api_server_that_is_away_says_nothing_about_the_cloud(clock: Clock, stage: Stage):
    stage.cluster.__dict__["away"] = True
    assert waited(clock, 300) >= 300


def test_the_first_true_answer_comes_back(clock: Clock):
    assert until("it", iter([0, "", 7]).__next__, 60, 1, clock=clock, sleep=clock.sleep) == 7
    assert clock.now == 2


class Compute:
    """A server, and what was asked of it last."""

    def __init__(self, *, action: str = "Success", **server: Any) -> None:
        self.server = SimpleNamespace(**{"status": "SHUTOFF", "task_state": None, "fault": None, **server})
        self.action = SimpleNamespace(request_id="r", action="start", message=action)

    def get_server(self, _server: str) -> Any:
        return self.server

    def server_actions(self, _server: str) -> list[Any]:
        return [self.action]

    def get_server_action(self, _action: str, _server: str) -> Any:
        return SimpleNamespace(events=[{"event": "compute_start_instance", "result": "Error"}])


@pytest.mark.parametrize(
    ("compute", "reason"),
    [
        (Compute(status="ERROR", fault={"message": "no valid host"}), "it is in ERROR: no valid host"),
        (Compute(action="Error"), "start failed and nothing is under way; compute_start_instance: Error"),
        (Compute(action="Error", task_state="powering-on"), ""),
        (Compute(), ""),
    ],
    ids=["error", "failed", "under way", "slow"],
)
def test_a_server_that_nobody_starts_is_given_up(clock: Clock, compute: Compute, reason: str):
    conn: Any = SimpleNamespace(compute=compute)
    assert given_up(conn, "id") == reason
    how: Any = {"clock": clock, "sleep": clock.sleep, "stages": ()}
    with pytest.raises(EndedError if reason else KubeError, match=reason or "not within"):
        server_reaches(conn, "id", "ACTIVE", **how)
    assert clock.now == (0 if reason else 180)


def test_after_a_failed_test_the_cloud_is_itself_again_or_over(clock: Clock, stage: Stage):
    stage.cluster.__dict__["conditions"] = [{"type": "Ready", "status": "True", "observedGeneration": 1}]
    stage.suspect = "test_a"
    stage.look_into()
    assert (stage.suspect, stage.over) == ("", "")
    stage.cluster.__dict__["conditions"] = [{"type": "Ready", "status": "False", "message": "waiting for Nova"}]
    stage.suspect = "test_b"
    stage.look_into(sleep=clock.sleep)
    assert stage.over == "the cloud was not Ready again a minute after test_b failed: cloud: waiting for Nova"
    assert clock.now >= 60


def test_a_suites_cloud_is_watched_while_it_converges_and_is_used(clock: Clock):
    cluster, watched = Cluster(clock), list[Stage]()

    def converge(_sample: object, *, timeout: float, in_vain: Any) -> str:
        assert timeout
        watched.append(in_vain.__self__)
        return "cloud"

    def start(_sample: Path) -> Any:
        return session

    session: Any = SimpleNamespace(cluster=cluster, converge=converge)
    with stays(MINIMAL, start) as found:
        assert found == (session, "cloud")
        assert waiting.current() is watched[0]
        assert watched[0].cluster is cluster
    assert waiting.current() is None


def test_the_cloud_of_every_suite_is_watched():
    folder = ROOT / "tests" / "e2e"
    fixtures = {path.parent.name: path.read_text() for path in folder.glob("*/conftest.py")}
    stood = {name: text.partition("def stood()")[2].split("\n\n\n")[0] for name, text in fixtures.items()}
    unwatched = [name for name, body in stood.items() if body and not re.search(r"with (stands|stays|stage)\(", body)]
    assert unwatched == []
    assert stood["on_reasons"]


def reported(*_: list[Any]) -> bool:
    return True


SIGN = Sign(kind="Placement", name="placement", reason="OutOfMemory", text="", reported=reported)


@pytest.mark.parametrize(
    ("seen", "stalls", "since", "over"),
    [
        ({}, False, 59, False),
        ({}, False, 61, True),
        ({"service": 1, "plane": 1}, False, 61, True),
        ({"service": 1, "plane": 1, "event": 2}, False, 2, True),
        ({"service": 1, "plane": 1, "event": 2}, True, 100, False),
        ({"service": 1, "plane": 1, "event": 2, "stalled": 100}, True, 100, True),
    ],
    ids=["new", "silent", "half", "all", "stalls later", "stalled"],
)
def test_an_operator_that_says_nothing_is_waited_for_a_minute(
    seen: dict[str, Any], stalls: bool, since: float, over: bool
):
    assert is_over(Seconds(reason="", **seen), dataclasses.replace(SIGN, stalls=stalls), since) is over
