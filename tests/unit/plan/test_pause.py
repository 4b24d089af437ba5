"""A paused resource stays as it is, says so, and goes on when the annotation is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.cli.inspection import pausing
from openstack_operator.cli.inspection.causes import Causes
from openstack_operator.cli.inspection.pausing import Options
from openstack_operator.cli.inspection.snapshot import Snapshot
from openstack_operator.cli.inspection.state import reason_of
from openstack_operator.cli.inspection.table import overview
from openstack_operator.cli.main import main
from openstack_operator.plan import PAUSE, PAUSED, READY, Object, State, Transient, Verdict, waiting
from openstack_operator.runtime.cache.entries import Cached, Meta, Request
from openstack_operator.runtime.kubernetes.errors import Conflict, Forbidden, Missing
from openstack_operator.runtime.kubernetes.kinds import Kind
from openstack_operator.runtime.reconcile.apply_cache import ApplyCache
from openstack_operator.runtime.reconcile.passes import Engine, ErrorBoundary, Result
from openstack_operator.runtime.reconcile.report import Report, paused_status, status
from tests.unit.live_objects import NOW, resource

PLANE = "OpenStackControlPlane/cloud"
REQUEST = Request("Keystone.openstack.k8s.io", "openstack", "keystone")
PAUSED_NOW = Verdict(State.READY, "the node is replaced", PAUSED)


def paused(name: str, why: str = "", *, generation: int = 1, **fields: Any) -> Object:
    live = resource(name, PLANE, **fields)
    live["metadata"] |= {"annotations": {PAUSE: why}, "generation": generation}
    return live


def by_type(live_status: Object) -> Mapping[str, Object]:
    return {each["type"]: each for each in live_status["conditions"]}


def test_a_pause_changes_nothing_in_a_status_but_its_own_condition() -> None:
    before = status(Report(conditions={"Ready": waiting("x"), "APIReady": READY}, published={"url": "u"}), {}, 3)
    after = paused_status(PAUSED_NOW, before, 4)
    conditions = by_type(after)
    assert (conditions[PAUSED]["status"], conditions[PAUSED]["observedGeneration"]) == ("True", 4)
    assert {**after, "conditions": [each for each in after["conditions"] if each["type"] != PAUSED]} == before
    assert paused_status(PAUSED_NOW, {}, 1)["conditions"][0]["reason"] == PAUSED
    assert paused_status(PAUSED_NOW, {}, 1)["observedGeneration"] == 0


@pytest.mark.parametrize("keep_others", [True, False])
def test_the_condition_goes_with_the_next_pass(keep_others: bool) -> None:
    before = paused_status(PAUSED_NOW, {}, 1)
    assert set(by_type(status(Report(conditions={"Ready": READY}, keep_others=keep_others), before, 1))) == {"Ready"}


class Engineer:
    """A world, a reporter and a reconciler that note what is asked of them."""

    def __init__(self, meta: Meta, fault: Exception | None = None) -> None:
        self.done: list[str] = []
        self.live, self.fault = Cached(meta, b"{}"), fault

    def get(self, _: Request) -> Cached:
        return self.live

    def resource(self, _: str) -> Kind:
        return Kind("openstack.k8s.io/v1alpha1", "Keystone", "keystones")

    def check_complete(self, _: Request) -> None:
        self.done.append("checked")

    async def report_pause(self, request: Request, live: Cached, verdict: Verdict) -> None:
        self.done.append(f"{verdict.reason}: {verdict.message}")

    async def report(self, request: Request, live: Cached, report: Report) -> None:
        self.done.append(f"reported {report.ready.cause}")

    async def note_plan(self, request: Request, live: Cached) -> Result:
        self.done.append("planned")
        if self.fault:
            raise self.fault
        return Result()

    async def reconcile(self, request: Request, live: Cached) -> Result:
        self.done.append("reconciled")
        return Result()


async def run(meta: Meta, fault: Exception | None = None) -> tuple[Result, Sequence[str]]:
    engineer: Any = Engineer(meta, fault)
    engine = Engine(engineer, engineer, engineer, engineer, ApplyCache())
    return await ErrorBoundary(engine).run(engineer, REQUEST), engineer.done


MESSAGE = (
    "the operator changes nothing for this resource; to resume, run:"
    " openstack-operator resume Keystone/keystone -n openstack"
)


def meta(annotations: Mapping[str, str], deleted: str | None = None) -> Meta:
    return Meta("keystone", namespace="openstack", uid="u", annotations=dict(annotations), deletion_timestamp=deleted)


@pytest.mark.parametrize(
    ("annotations", "deleted", "done"),
    [
        ({}, None, ["checked", "reconciled"]),
        ({PAUSE: ""}, None, [f"{PAUSED}: {MESSAGE}", "planned"]),
        ({PAUSE: "a\nb password=hush"}, None, [f"{PAUSED}: reason given: 'a b password=***'; {MESSAGE}", "planned"]),
        ({PAUSE: ""}, "2026-01-01T00:00:00Z", ["checked", "reconciled"]),
    ],
)
async def test_a_pass_over_a_paused_resource_reports_and_plans_alone(
    annotations: Mapping[str, str], deleted: str | None, done: Sequence[str]
) -> None:
    assert await run(meta(annotations, deleted)) == (Result(), done)


@pytest.mark.parametrize("fault", [Transient("x"), RuntimeError("x")])
async def test_a_fault_is_tried_again_and_leaves_ready_as_it_was(fault: Exception) -> None:
    result, done = await run(meta({PAUSE: ""}), fault)
    assert result.retry
    assert done == [f"{PAUSED}: {MESSAGE}", "planned"]


def test_users_of_a_paused_resource_wait_only_for_pending_changes() -> None:
    assert kube.child_verdict(paused("Keystone/keystone")).ready
    changed = kube.child_verdict(paused("Keystone/keystone", generation=2))
    assert (changed.state, changed.message) == (State.WAITING, "Keystone/keystone is paused")
    new = paused("Keystone/keystone")
    del new["status"]
    assert kube.child_verdict(new).message == "Keystone/keystone is paused"


def test_status_shows_what_is_paused() -> None:
    plane, ready = resource(PLANE), paused("Keystone/keystone", "the node is replaced")
    small = paused("MariaDBDatabase/keystone-db")
    broken = paused("Glance/glance", reason="Progressing", message="starts")
    changed = paused("Nova/nova", generation=2)
    lines = overview(Snapshot(namespace="openstack", now=NOW), [plane, ready, small, broken, changed]).splitlines()
    states = {line.split()[0]: line.split("30m", 1)[1].strip() for line in lines if "30m" in line}
    assert states["Keystone"] == "paused: the node is replaced"
    assert states["MariaDBDatabase"] == states["Nova"] == "paused"
    assert states["Glance"] == "paused; Progressing: starts"
    assert reason_of(changed) == PAUSED


def test_why_names_the_pause_of_what_is_not_ready() -> None:
    plane = resource(PLANE, reason="Waiting", message="Keystone/keystone is paused")
    keystone = paused("Keystone/keystone", "by hand", reason="JobFailed", message="job x failed")
    glance = resource("Glance/glance", PLANE, reason="Waiting", message="waiting for Keystone/keystone")
    snapshot = Snapshot(namespace="openstack", resources=[plane, keystone, glance], now=NOW)
    answer = Causes(snapshot).of(plane)
    assert answer
    [root] = answer[1]
    assert root.chain == [PLANE, "Keystone/keystone", "pause of Keystone/keystone"]
    assert (root.finding.reason, root.holds_up) == (PAUSED, ["Glance/glance"])
    assert root.finding.text == (
        "the operator changes nothing for it (by hand); before, it reported JobFailed: job x failed"
    )


class FakeClient:
    """A client that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[tuple[str, Mapping[str, str | None]]] = []
        self.faults: list[Exception] = []

    async def close(self) -> None: ...

    async def annotate(self, kind: Kind, live: Object, annotations: Mapping[str, str | None], *, manager: str) -> None:
        assert manager == "openstack-operator-cli"
        if self.faults:
            raise self.faults.pop()
        self.written.append((f"{kind.full_name}/{live['metadata']['name']}", annotations))


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    snapshot = Snapshot(namespace="openstack", resources=[resource(PLANE), paused("Keystone/keystone", "old")], now=NOW)
    client = FakeClient()

    async def read(*_: Any, **__: Any) -> Snapshot:
        return snapshot

    def connected(context: str | None) -> FakeClient:
        assert context is None
        return client

    monkeypatch.setattr(pausing, "read", read)
    monkeypatch.setattr("openstack_operator.runtime.kubernetes.client.Client.connect", connected)
    return client


def test_the_commands_write_the_annotation_alone(client: FakeClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert pausing.pause(Options(resource="oscp/cloud", reason="by hand")) == 0
    assert client.written == [("openstackcontrolplanes.openstack.k8s.io/cloud", {PAUSE: "by hand"})]
    first, second = capsys.readouterr().out.splitlines()
    assert first == "OpenStackControlPlane/cloud: paused"
    assert second.startswith("its services are not paused")
    assert pausing.resume(Options(resource=None)) == 0
    assert client.written[1][1] == {PAUSE: None}
    assert capsys.readouterr().out.splitlines() == [
        "OpenStackControlPlane/cloud: not paused",
        "Keystone/keystone: resumed",
    ]
    assert pausing.pause(Options(resource="keystone/keystone", reason="old")) == 0
    assert len(client.written) == 2
    assert pausing.pause(Options(resource="keystone/other")) == 2


def test_a_reason_stays_until_another_one_is_given(client: FakeClient) -> None:
    assert pausing.pause(Options(resource=None)) == 0
    assert client.written == [("openstackcontrolplanes.openstack.k8s.io/cloud", {PAUSE: ""})]
    assert pausing.pause(Options(resource="keystone/keystone", reason="")) == 0
    assert client.written[1:] == [("keystones.openstack.k8s.io/keystone", {PAUSE: ""})]


@pytest.mark.parametrize("fault", [Conflict("changed meanwhile"), Missing("gone"), Forbidden("no right")])
def test_a_fault_of_one_resource_keeps_no_other_from_its_pause(
    client: FakeClient, capsys: pytest.CaptureFixture[str], fault: Exception
) -> None:
    client.faults = [fault]
    assert pausing.pause(Options(resource=None, reason="new")) == 2
    assert client.written == [("keystones.openstack.k8s.io/keystone", {PAUSE: "new"})]
    printed = capsys.readouterr()
    assert printed.out == "Keystone/keystone: paused\n"
    assert f"OpenStackControlPlane/cloud: {fault}" in printed.err
    assert "not paused: OpenStackControlPlane/cloud; run the command again" in printed.err


@pytest.mark.parametrize("arguments", [[], ["keystone"], ["keystone/keystone", "--all"]])
def test_a_pause_of_nothing_certain_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["pause", *arguments])
    assert exit_.value.code == 2
