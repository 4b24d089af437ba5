"""What is missing may be on its way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from openstack_operator.kube import conditions
from openstack_operator.plan import READY, Incomplete, MissingReference, SpecError, State, Verdict, failed, progressing
from openstack_operator.runtime.cache.entries import Cached, Meta, Request
from openstack_operator.runtime.cache.store import Store
from openstack_operator.runtime.kubernetes.kinds import Kind
from openstack_operator.runtime.reconcile.grace_period import GracePeriod
from openstack_operator.runtime.reconcile.report import Patience, Report, Reporter

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
REQUEST = Request("Keystone.openstack.k8s.io", "x", "keystone")
MISSING = MissingReference("spec.database", "there is no Secret 'db' in this namespace").verdict
UNUSABLE = Incomplete("spec.tls.secretRef", "Secret 'mine': it lacks tls.key").verdict


class Process:
    """An operator that has just begun, so many seconds after the resource was made."""

    def __init__(self, age: float = 0) -> None:
        self.now = age
        self.grace = GracePeriod(30, lambda: self.now, lambda: BEGAN + timedelta(seconds=self.now))

    def judge(self, at: float, verdict: Verdict = MISSING) -> tuple[State, float | None]:
        self.now = at
        held = Cached(Meta("keystone", creation_timestamp="2026-01-01T00:00:00Z"), b"{}")
        found, left = self.grace.judge(REQUEST, held, verdict)
        assert verdict.message in found.message
        return found.state, left


@pytest.mark.parametrize("verdict", [MISSING, UNUSABLE], ids=["missing", "unusable"])
def test_incomplete_specs_are_waited_for_before_they_fail(verdict: Verdict):
    process = Process()
    assert process.judge(0, verdict) == (State.WAITING, 30)
    assert process.judge(29, verdict) == (State.WAITING, 1)
    assert process.judge(30, verdict) == (State.FAILED, None)
    assert process.judge(999, verdict) == (State.FAILED, None)


def test_grace_is_given_once_for_consecutive_missing_parts():
    process = Process()
    assert process.judge(0, MISSING) == (State.WAITING, 30)
    assert process.judge(20, UNUSABLE) == (State.WAITING, 10)


def test_a_restart_does_not_begin_anew():
    assert Process(20).judge(20) == (State.WAITING, 10)
    assert Process(3600).judge(3600) == (State.FAILED, None)


def test_grace_is_given_again_for_a_part_missing_later():
    process = Process(3600)
    process.grace.complete(REQUEST)
    assert process.judge(4000) == (State.WAITING, 30)
    process.grace.complete(REQUEST)
    assert process.judge(4020) == (State.WAITING, 30), "another one, for all we know"


def test_a_namesake_begins_anew():
    process = Process()
    process.grace.complete(REQUEST)
    process.judge(3600)
    process.grace.forget(REQUEST)
    assert process.judge(3601) == (State.FAILED, None)


@pytest.mark.parametrize("verdict", [READY, SpecError("spec", "no").verdict, Verdict(State.RETRYING, "no answer")])
def test_nothing_else_is_waited_for(verdict: Verdict):
    process = Process()
    assert process.judge(1, verdict) == (verdict.state, None)


def test_the_waiting_message_names_the_time_and_stays_the_same():
    process = Process()
    held = Cached(Meta("keystone", creation_timestamp="2026-01-01T00:00:00Z"), b"{}")
    texts = set[str]()
    for process.now in (1, 2, 29):
        texts.add(process.grace.judge(REQUEST, held, MISSING)[0].message)
    assert texts == {f"{MISSING.message}; this counts as a failure after 30 s"}


KIND = Kind("openstack.k8s.io/v1alpha1", "Keystone", "keystones")


class Cluster:
    """Takes statuses; the resource was made at BEGAN."""

    def __init__(self) -> None:
        self.now = 0.0
        self.stores = {KIND: Store(KIND, lambda _: None)}
        self.status: dict[str, Any] = {}
        world: Any = SimpleNamespace(
            publish=self.publish,
            published=self.published,
            resource=self.resource,
            client=self,
            stores=self.stores,
            plans=SimpleNamespace(kinds=()),
        )
        recorder: Any = SimpleNamespace(tell=self.tell)
        self.reporter = Reporter(world, recorder, patience=Patience(initial=0, later=0), clock=lambda: self.now)
        self.reporter.grace_period.wall_clock = lambda: BEGAN + timedelta(seconds=self.now)

    def publish(self, *_: object) -> bool:
        return False

    def published(self, _: Cached) -> dict[str, str]:
        return {}

    def resource(self, _: str) -> Kind:
        return KIND

    async def apply_status(self, kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
        del kind
        self.status = body["status"]
        return {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}

    async def tell(self, *_: object, **__: object) -> None:
        pass

    async def report(self, at: float, **verdicts: Verdict) -> tuple[dict[str, str], float | None]:
        """The reasons by condition after a pass that carried its plan out, and when to come again."""
        self.now = at
        held = Cached(Meta("keystone", uid="u", creation_timestamp="2026-01-01T00:00:00Z"), b"{}")
        again = await self.reporter.report(REQUEST, held, Report(conditions=verdicts, published={}))
        return {name: each["reason"] for name, each in conditions({"status": self.status}).items()}, again


async def test_a_step_with_missing_parts_waits_while_others_go_on():
    cluster = Cluster()
    found = {"APIReady": progressing("0/1"), "CertificateReady": UNUSABLE, "Ready": UNUSABLE}
    waits = {"APIReady": "Progressing", "CertificateReady": "Waiting", "Ready": "Waiting", "Reconciling": "Waiting"}
    assert await cluster.report(1, **found) == (waits, 29)
    fails = {"APIReady": "Progressing", "CertificateReady": "InvalidSpec", "Ready": "InvalidSpec"}
    assert await cluster.report(31, **found) == ({**fails, "Stalled": "InvalidSpec"}, None)
    await cluster.report(40, Ready=READY)
    assert (await cluster.report(3600, **found)) == (waits, 30), "what goes later has gone just then"


async def test_a_failure_of_another_kind_is_one_at_once():
    cluster = Cluster()
    wrong = failed("spec.replicas: too many", "InvalidSpec")
    found, _ = await cluster.report(1, APIReady=wrong, CertificateReady=UNUSABLE, Ready=wrong)
    assert (found["CertificateReady"], found["Ready"], "Stalled" in found) == ("Waiting", "InvalidSpec", True)
