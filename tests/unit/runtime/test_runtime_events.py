"""What users are told of, and how often."""

from __future__ import annotations

from typing import Any, cast

import pytest

from openstack_operator.plan import Object
from openstack_operator.runtime.cache.entries import Cached, Meta, OwnerReference
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import Kind
from openstack_operator.runtime.reconcile.events import Recorder

KEYSTONE = Kind("openstack.k8s.io/v1alpha1", "Keystone", "keystones")


class Notebook:
    """Takes Events in a cluster's place."""

    def __init__(self) -> None:
        self.objects: list[Object] = []
        self.events: list[tuple[str, str, str]] = []

    async def create(self, kind: Kind, obj: Object) -> Object:
        del kind
        self.objects.append(obj)
        self.events.append((obj["type"], obj["reason"], obj["message"]))
        return obj


def status(reason: str, message: str = "", *, phase: str = "", stalled: bool = False) -> Object:
    ready = {"type": "Ready", "status": str(reason == "Ready"), "reason": reason, "message": message}
    more = [{"type": "Stalled", "status": "True", "reason": reason, "message": message}] if stalled else []
    return {"conditions": [ready, *more], **({"phase": phase} if phase else {})}


async def told(*statuses: Object, is_service: bool = True, **meta: Any) -> list[tuple[str, str, str]]:
    """The Events of a resource whose status takes these values."""
    notebook = Notebook()
    recorder = Recorder(cast("Client", notebook))
    held = Cached(Meta("keystone", uid="u", namespace="x", **meta), b"{}")
    for old, new in zip(({}, *statuses), statuses, strict=False):
        await recorder.tell(held, KEYSTONE, old, new, is_service=is_service)
    return notebook.events


CAUSE = "pod a cannot pull the image x: not found"


@pytest.mark.parametrize(
    ("statuses", "events"),
    [
        ([status("Progressing"), status("Progressing", "0/1")], []),
        ([status("Progressing"), status("Ready"), status("Ready")], [("Normal", "Ready", "Keystone is ready")]),
        ([status("ImagePullFailed", CAUSE)] * 2, [("Warning", "ImagePullFailed", CAUSE)]),
        ([status("Progressing"), status("ImagePullFailed", CAUSE)], [("Warning", "ImagePullFailed", CAUSE)]),
        ([status("RecoveryInProgress", "members wait")] * 2, [("Warning", "RecoveryInProgress", "members wait")]),
        ([status("InvalidSpec", "spec.a", stalled=True)] * 2, [("Warning", "InvalidSpec", "spec.a")]),
        (
            [status("InvalidSpec", "spec.a", stalled=True), status("InvalidSpec", "spec.b", stalled=True)],
            [("Warning", "InvalidSpec", "spec.a"), ("Warning", "InvalidSpec", "spec.b")],
        ),
        (
            [status("Progressing", phase="Infrastructure"), status("Progressing", phase="Identity")],
            [
                ("Normal", "PhaseChanged", "Keystone is in phase Infrastructure"),
                ("Normal", "PhaseChanged", "Keystone is in phase Identity"),
            ],
        ),
    ],
)
async def test_new_reasons_are_events_once(statuses: list[Object], events: list[tuple[str, str, str]]):
    assert await told(*statuses) == events


async def test_a_lasting_crash_loop_is_an_event_once_and_again_when_stalled():
    lines = [status("CrashLoop", f"its log ends: {n}") for n in range(3)]
    lasts = [status("CrashLoop", f"its log ends: {n}", stalled=True) for n in range(3, 6)]
    events = await told(*lines, *lasts)
    assert [note for _, _, note in events] == ["its log ends: 0", "its log ends: 3"]


@pytest.mark.parametrize(
    ("type_", "reason"),
    [("Normal", "Progressing"), ("Normal", "Waiting"), ("Warning", "NodeLost"), ("Warning", "ProbeFailed")],
)
async def test_lost_readiness_is_told_and_is_no_warning_while_programs_start(type_: str, reason: str):
    events = await told(status("Ready"), status(reason, "0/1 pods ready"))
    assert events[1:] == [(type_, reason, "0/1 pods ready")]


async def test_a_failing_startup_probe_is_a_warning_only_when_stalled():
    start, slow, stuck = status("Progressing"), status("ProbeFailed", "503"), status("ProbeFailed", "503", stalled=True)
    assert await told(start, slow) == [("Normal", "ProbeFailed", "503")]
    assert (await told(start, status("ProbeFailed", "502"), stuck))[-1] == ("Warning", "ProbeFailed", "503")


def changing(reason: str, message: str, *, stalled: bool = False) -> Object:
    """The status of a resource that serves while its change is under way, or failed."""
    progress = {"type": "Progressing", "status": str(not stalled), "reason": reason, "message": message}
    written = status(reason, message, stalled=stalled)["conditions"]
    return {"conditions": [{**written[0], "status": "True"}, *written[1:], progress]}


async def test_a_change_without_outage_is_an_event_at_begin_and_end():
    events = await told(
        status("Ready"), changing("Progressing", "1/2"), changing("Progressing", "2/2"), status("Ready")
    )
    assert events == [
        ("Normal", "Ready", "Keystone is ready"),
        ("Normal", "Progressing", "1/2"),
        ("Normal", "Ready", "Keystone is ready"),
    ]


async def test_a_change_that_fails_while_all_serves_is_a_warning():
    failing = changing("ImagePullFailed", CAUSE), changing("ImagePullFailed", CAUSE, stalled=True)
    events = await told(status("Ready"), changing("Progressing", "1/2"), failing[0])
    assert events[2:] == [("Warning", "ImagePullFailed", CAUSE)]
    refused = await told(status("Ready"), changing("InvalidSpec", "spec.a", stalled=True))
    assert refused[1:] == [("Warning", "InvalidSpec", "spec.a")]


async def test_readiness_of_an_account_is_an_event_of_its_owner():
    owner = (OwnerReference("Keystone", "k", "o", "openstack.k8s.io/v1alpha1", controller=True),)
    assert await told(status("Ready"), is_service=False, owner_references=owner) == []
    assert await told(status("Ready"), owner_references=owner) == [("Normal", "Ready", "Keystone is ready")]


async def test_each_event_is_a_line_of_the_log(capsys: pytest.CaptureFixture[str]):
    await told(status("ImagePullFailed", CAUSE), status("ImagePullFailed", CAUSE))
    assert capsys.readouterr().out.count(CAUSE) == 1


async def test_tools_sort_and_count_events() -> None:
    """kubectl get events --sort-by=.lastTimestamp; the API server takes these fields in the core group alone."""
    notebook = Notebook()
    held = Cached(Meta("keystone", uid="u", namespace="x"), b"{}")
    await Recorder(cast("Client", notebook)).note(held, KEYSTONE, "Ready", "Keystone is ready")
    (event,) = notebook.objects
    assert event["apiVersion"] == "v1"
    assert event["firstTimestamp"] == event["lastTimestamp"] == f"{event['eventTime'].partition('.')[0]}Z"
    assert event["count"] == 1
    assert event["involvedObject"]["name"] == "keystone"
