"""What counts as a difference, and what a status says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openstack_operator.kube import FIELD, MANAGED_BY, REMEMBERED
from openstack_operator.plan import (
    READY,
    Incomplete,
    SpecError,
    State,
    Step,
    Transient,
    Verdict,
    failed,
    progressing,
    waiting,
)
from openstack_operator.registry import EXTERNAL_KINDS, RESOURCES
from openstack_operator.runtime.cache.entries import Cached, Request, entry
from openstack_operator.runtime.cache.store import Store
from openstack_operator.runtime.guards.node_claims import NodeClaims
from openstack_operator.runtime.kubernetes.errors import Missing
from openstack_operator.runtime.kubernetes.kinds import SECRET, SERVICE, Catalog, Kind
from openstack_operator.runtime.reconcile.apply import Applier, gather_errors
from openstack_operator.runtime.reconcile.apply_cache import ApplyCache
from openstack_operator.runtime.reconcile.compare import covers
from openstack_operator.runtime.reconcile.report import Report, is_same_status, status

TEMPEST = next(each for each in RESOURCES if each.handle == "Tempest.tempest.openstack.c5c3.io")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(JSON)
def test_a_value_covers_itself(value: Any):
    assert covers(value, value)


@given(st.dictionaries(st.text(max_size=3), JSON), st.dictionaries(st.text(min_size=4, max_size=6), JSON))
def test_fields_added_by_others_are_no_difference(wanted: dict[str, Any], added: dict[str, Any]):
    assert covers(wanted, {**wanted, **added})


@pytest.mark.parametrize(
    ("wanted", "live", "same"),
    [
        ({"replicas": 2}, {"replicas": 1}, False),
        ({"replicas": 0}, {}, True),
        ({"replicas": 0}, {"replicas": 1}, False),
        ({"emptyDir": {}}, {"emptyDir": {}}, True),
        ({"limits": {}}, {}, True),
        ([{"name": "a"}], [{"name": "a", "protocol": "TCP"}], True),
        ([{"name": "a"}], [{"name": "sidecar"}, {"name": "a"}], True),
        ([{"name": "a"}], [{"name": "sidecar"}], False),
        (["x"], None, False),
        ({"a": {"b": 1}}, {"a": "text"}, False),
        ({"limits": {"memory": "3072Mi", "cpu": "1000m"}}, {"limits": {"memory": "3Gi", "cpu": "1"}}, True),
        ({"requests": {"memory": "3072Mi"}}, {"requests": {"memory": "3G"}}, False),
        ({"requests": {"storage": "1Gi"}}, {"requests": {}}, False),
        ({"limits": {"memory": "1Gi"}}, {"limits": {"memory": "1Gi", "example.org/gpu": "1"}}, True),
        ({"limits": {"memory": "1Gi"}}, {"limits": {"memory": "much"}}, False),
        ({"sizeLimit": "1024Mi"}, {"sizeLimit": "1Gi"}, True),
        ({"value": "1000m"}, {"value": "1"}, False),
        # As an API server stores what users write: exactly, and of resources no less than a thousandth.
        (
            {"requests": {"cpu": "0.7", "memory": "0.7Gi"}},
            {"requests": {"cpu": "700m", "memory": "751619276800m"}},
            True,
        ),
        ({"requests": {"cpu": "2.3"}}, {"requests": {"cpu": "2300m"}}, True),
        ({"requests": {"cpu": "0.5m"}}, {"requests": {"cpu": "1m"}}, True),
        ({"requests": {"cpu": "0.7"}}, {"requests": {"cpu": "701m"}}, False),
        ({"limits": {"memory": "1Gi"}}, {"limits": {"memory": "1Ei"}}, False),
    ],
)
def test_differences(wanted: Any, live: Any, same: bool):
    assert covers(wanted, live) is same


async def test_all_are_run_and_the_gravest_error_is_raised():
    ran: list[str] = []

    async def work(name: str, error: Exception | None) -> str:
        ran.append(name)
        if error:
            raise error
        return name

    assert await gather_errors([work("a", None), work("b", None)]) == ["a", "b"]
    errors = [Transient("t"), SpecError("spec", "s"), KeyError("k")]
    with pytest.raises(KeyError):
        await gather_errors([work(str(error), error) for error in errors])
    with pytest.raises(SpecError):
        await gather_errors([work(str(error), error) for error in errors[:2]])
    assert len(ran) == 7


def found(report: Report, old: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    return {c["type"]: c for c in status(report, old or {}, 3)["conditions"]}


@pytest.mark.parametrize(
    ("verdict", "value", "reason", "flow"),
    [
        (READY, "True", "Ready", None),
        (progressing("1/2"), "False", "Progressing", "Reconciling"),
        (waiting("for x"), "False", "Waiting", "Reconciling"),
        (Verdict(State.RETRYING, "later"), "Unknown", "Retrying", "Reconciling"),
        (Verdict(State.RETRYING, "id", "InternalError"), "Unknown", "InternalError", "Reconciling"),
        (failed("no", "InvalidSpec"), "False", "InvalidSpec", "Stalled"),
    ],
)
def test_conditions(verdict: Verdict, value: str, reason: str, flow: str | None):
    conditions = found(Report(conditions={"Ready": verdict}))
    assert (conditions["Ready"]["status"], conditions["Ready"]["reason"]) == (value, reason)
    assert conditions["Ready"]["observedGeneration"] == 3
    assert set(conditions) == {"Ready"} | ({flow} if flow else set())


def test_a_transition_is_a_change_of_status_not_of_message():
    old = status(Report(conditions={"Ready": progressing("1/2")}), {}, 1)
    for condition in old["conditions"]:
        condition["lastTransitionTime"] = "2020-01-01T00:00:00Z"
    later = found(Report(conditions={"Ready": progressing("2/3")}), old)
    assert later["Ready"]["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    assert found(Report(conditions={"Ready": READY}), old)["Ready"]["lastTransitionTime"] > "2026"


def test_a_pass_that_got_nowhere_keeps_what_was_known():
    plan = Report(conditions={"APIReady": READY, "Ready": READY}, published={"url": "x"}, endpoint="x")
    old = status(plan, {}, 1)
    new = status(Report(conditions={"Ready": failed("no", "InvalidSpec")}, keep_others=True), old, 2)
    assert new["published"] == {"url": "x"}
    assert {c["type"]: c["status"] for c in new["conditions"]} == {
        "APIReady": "True",
        "Ready": "False",
        "Stalled": "True",
    }
    mended = status(plan, new, 2)
    assert {c["type"] for c in mended["conditions"]} == {"APIReady", "Ready"}


def test_a_remote_side_out_of_reach_leaves_ready_as_it_was():
    away = Report(conditions={"Ready": READY}, progress=Verdict(State.RETRYING, "no answer"))
    conditions = found(away)
    assert conditions["Ready"]["status"] == "True"
    assert (conditions["Reconciling"]["status"], conditions["Reconciling"]["reason"]) == ("True", "Retrying")


def test_none_of_something_is_said_and_what_is_not_known_is_not():
    report = Report(conditions={"Ready": READY}, published={}, details={"volumes": 0, "health": None})
    written = status(report, {}, 1)
    assert written["volumes"] == 0
    assert not {"health", "phase", "members"} & set(written)


def test_the_release_is_the_one_before_until_the_new_one_runs():
    plan = Report(conditions={"Ready": READY}, published={}, release="2025.1")
    old = status(plan, {}, 1)
    assert old["release"] == "2025.1"
    rolling = status(replace(plan, conditions={"Ready": progressing("1/2")}, release="2025.2"), old, 2)
    assert rolling["release"] == "2025.1"
    assert status(replace(plan, release="2025.2"), rolling, 2)["release"] == "2025.2"
    new = status(replace(plan, conditions={"Ready": progressing("1/2")}), {}, 1)
    assert "release" not in new
    assert "release" not in status(replace(plan, release=""), {}, 1)


def test_a_status_says_which_operator_wrote_it_whatever_became_of_the_pass():
    told = Report(conditions={"Ready": READY}, published={})
    old = status(told, {}, 1, "1.0")
    assert old["operatorVersion"] == "1.0"
    assert not is_same_status(status(told, old, 1, "1.1"), old)
    got_nowhere = Report(conditions={"Ready": failed("no", "InvalidSpec")}, keep_others=True)
    assert status(got_nowhere, old, 1, "1.1")["operatorVersion"] == "1.1"


def test_the_order_of_conditions_is_no_change():
    one = status(Report(conditions={"A": READY, "Ready": READY}), {}, 1)
    assert is_same_status(one, {**one, "conditions": one["conditions"][::-1]})
    assert not is_same_status(one, {**one, "observedGeneration": 2})


def test_members_are_told_and_kept_by_a_pass_that_got_nowhere():
    members = [{"name": "b", "state": "serving"}, {"name": "a", "role": "primary"}]
    plan = Report(conditions={"Ready": READY}, published={}, members=members)
    old = status(plan, {}, 1)
    assert old["members"] == members
    assert is_same_status(old, {**old, "members": members[::-1]})
    assert not is_same_status(old, {**old, "members": members[:1]})
    assert (
        status(Report(conditions={"Ready": failed("no", "InvalidSpec")}, keep_others=True), old, 1)["members"]
        == members
    )
    assert "members" not in status(Report(conditions={"Ready": READY}, published={}), old, 1)


class Replacing:
    """An API server as far as creating and replacing go."""

    def __init__(self) -> None:
        self.replaced: list[dict[str, Any]] = []
        self.created: list[dict[str, Any]] = []

    async def create(self, kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
        self.created.append(body)
        return {**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": "9"}}

    async def replace(self, kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
        self.replaced.append(body)
        return {**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": "9"}}


def password(version: str, value: str) -> Cached:
    metadata = {"name": "db-password", "namespace": "ns", "uid": "u", "resourceVersion": version}
    labels = {
        "app.kubernetes.io/managed-by": MANAGED_BY,
        "openstack.k8s.io/kind": "server",
        "app.kubernetes.io/instance": "db",
    }
    return entry({"metadata": {**metadata, "labels": labels}, "data": {"root": value}}, SECRET)


@pytest.mark.parametrize(("planned_from", "replaced"), [("7", 0), ("8", 1)])
async def test_an_object_changed_since_planning_is_not_overwritten(planned_from: str, replaced: int):
    client, store = Replacing(), Store(SECRET, lambda _: None)
    store.put(password("8", "bWluZQ=="))
    world: Any = SimpleNamespace(client=client, stores={SECRET: store}, catalog=Catalog(()), pods=None, foreign=store)
    owner_kind = Kind("v1", "Server", "servers")
    owner = entry({"metadata": {"name": "db", "namespace": "ns", "uid": "o", "resourceVersion": "1"}}, owner_kind)
    wanted = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db-password"}, "data": {"root": "b2xk"}}
    seen = [(SECRET, password(planned_from, "b2xk"))]
    applier = Applier(
        world,
        ApplyCache(),
        Request("Server", "ns", "db"),
        owner,
        owner_kind,
        datetime.now(UTC),
        seen,
        node_claims=NodeClaims(world),
    )
    step = Step(name="Credentials", objects=(wanted,), guarded=True)
    if replaced:
        await applier.apply(step)
    else:
        with pytest.raises(Transient, match="changed meanwhile"):
            await applier.apply(step)
    assert len(client.replaced) == replaced


@pytest.mark.parametrize("was_there", [True, False], ids=["there when planned", "not there when planned"])
async def test_an_object_deleted_since_planning_is_not_created_from_the_old_one(was_there: bool):
    """Who deletes a Secret to have another certificate must not get the old one back."""
    client, store = Replacing(), Store(SECRET, lambda _: None)
    world: Any = SimpleNamespace(client=client, stores={SECRET: store}, catalog=Catalog(()), pods=None, foreign=store)
    owner_kind = Kind("v1", "Server", "servers")
    owner = entry({"metadata": {"name": "db", "namespace": "ns", "uid": "o", "resourceVersion": "1"}}, owner_kind)
    wanted = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db-password"}, "data": {"root": "b2xk"}}
    seen = [(SECRET, password("8", "b2xk"))] if was_there else []
    applier = Applier(
        world,
        ApplyCache(),
        Request("Server", "ns", "db"),
        owner,
        owner_kind,
        datetime.now(UTC),
        seen,
        node_claims=NodeClaims(world),
    )
    step = Step(name="Credentials", objects=(wanted,), guarded=True)
    if was_there:
        with pytest.raises(Transient, match="deleted meanwhile"):
            await applier.apply(step)
    else:
        await applier.apply(step)
    assert len(client.created) == (0 if was_there else 1)


class Unserved:
    """An API server that has no such kind."""

    async def get(self, *_: Any) -> None:
        return None

    async def apply(self, kind: Kind, _: dict[str, Any]) -> dict[str, Any]:
        raise Missing(f"no {kind.plural}")


@pytest.mark.parametrize(
    ("api_version", "kind"), [("cert-manager.io/v1", "Certificate"), (TEMPEST.api_version, TEMPEST.kind)]
)
async def test_a_definition_that_is_not_there_may_come_a_moment_later(api_version: str, kind: str):
    catalog = Catalog([TEMPEST], EXTERNAL_KINDS)
    wanted = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "it", "annotations": {FIELD: "spec.it"}}}
    store = Store(catalog.of(wanted), lambda _: None)
    world: Any = SimpleNamespace(client=Unserved(), stores={store.kind: store}, catalog=catalog, foreign=store)
    owner_kind = Kind("v1", "Server", "servers")
    owner = entry({"metadata": {"name": "db", "namespace": "ns", "uid": "o", "resourceVersion": "1"}}, owner_kind)
    applier = Applier(
        world,
        ApplyCache(),
        Request("Server", "ns", "db"),
        owner,
        owner_kind,
        datetime.now(UTC),
        node_claims=NodeClaims(world),
    )
    with pytest.raises(Incomplete, match="this cluster serves no "):
        await applier.apply(Step(name="It", objects=(wanted,)))


class Allocating:
    """An API server that gives a Service the port it asks for unless that is taken, and else the next free one."""

    def __init__(self, taken: int) -> None:
        self.taken = taken

    async def get(self, *_: Any) -> None:
        return None

    async def apply(self, _: Kind, body: dict[str, Any]) -> dict[str, Any]:
        port = body["spec"]["ports"][0].get("nodePort", 30001)
        if port == self.taken:
            raise SpecError("spec.ports[0].nodePort", "provided port is already allocated")
        metadata = {**body["metadata"], "uid": "new", "resourceVersion": "9"}
        return {**body, "metadata": metadata, "spec": {**body["spec"], "ports": [{"name": "sql", "nodePort": port}]}}


@pytest.mark.parametrize(("taken", "given"), [(0, 30500), (30500, 30001)])
async def test_a_returning_service_gets_its_node_port_back_if_free(taken: int, given: int):
    store = Store(SERVICE, lambda _: None)
    labels = {"openstack.k8s.io/kind": "server", "app.kubernetes.io/instance": "db"}
    metadata = {"name": "db", "namespace": "ns", "labels": labels, "annotations": {REMEMBERED: "true"}}
    for version, uid, port in (("1", "a", 30400), ("3", "b", 30500)):
        spec = {"ports": [{"name": "sql", "nodePort": port}]}
        gone = entry({"metadata": {**metadata, "uid": uid, "resourceVersion": version}, "spec": spec}, SERVICE)
        store.put(gone)
        store.remove(gone)
    world: Any = SimpleNamespace(
        client=Allocating(taken), stores={SERVICE: store}, catalog=Catalog(()), pods=None, foreign=store
    )
    owner_kind = Kind("v1", "Server", "servers")
    owner = entry({"metadata": {"name": "db", "namespace": "ns", "uid": "o", "resourceVersion": "1"}}, owner_kind)
    applier = Applier(
        world,
        ApplyCache(),
        Request("Server", "ns", "db"),
        owner,
        owner_kind,
        datetime.now(UTC),
        node_claims=NodeClaims(world),
    )
    wanted = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "db", "annotations": {REMEMBERED: "true"}},
        "spec": {"type": "NodePort", "ports": [{"name": "sql", "port": 3306}]},
    }
    (live,) = await applier.apply(Step(name="Server", objects=(wanted,)))
    assert [port["nodePort"] for port in live["spec"]["ports"]] == [given]
    assert store.last_deleted("ns", "db") is None
