"""The language of plans: order, holding back, and what is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openstack_operator.plan import (
    READY,
    Group,
    Incomplete,
    MissingReference,
    Object,
    Plan,
    Predecessor,
    SpecError,
    State,
    Step,
    Transient,
    UnsupportedError,
    Verdict,
    carry_out,
    condition_type,
    conditions,
    failed,
    progressing,
    recovering,
    waiting,
    worst,
)
from openstack_operator.plan.carry_out import ready
from openstack_operator.plan.release import parse


def thing(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": name}}


def step(name: str, *after: Step, barrier: bool = False) -> Step:
    return Step(name=name, objects=(thing(name.lower()),), after=after, barrier=barrier)


class World:
    """Applies everything; what is named in `verdicts` is judged so, the rest is ready."""

    def __init__(self, *present: Step, **verdicts: Verdict | Exception) -> None:
        self.existing = set(present)
        self.verdicts = verdicts
        self.applied: list[str] = []

    async def apply(self, step: Step) -> Sequence[Object]:
        self.applied.append(step.name)
        if isinstance(error := self.verdicts.get(step.name), Exception):
            raise error
        return step.objects

    def judge(self, live: Object) -> Verdict:
        found = {name.lower(): verdict for name, verdict in self.verdicts.items()}.get(live["metadata"]["name"], READY)
        assert isinstance(found, Verdict)
        return found

    async def carry_out(self, plan: Plan) -> dict[str, Verdict]:
        verdicts = await carry_out(plan, self.apply, self.judge, self.existing.__contains__)
        return {step.name: verdict for step, verdict in verdicts.items()}


def test_a_recovery_is_told_of_beside_what_is_worse() -> None:
    pods = failed("no image", "ImagePullFailed")
    assert worst([pods, recovering("waits for a member")]) == failed("no image; waits for a member", "ImagePullFailed")
    starts = Verdict(State.PROGRESSING, "0/1", "ImagePullFailed")
    assert worst([starts, recovering("waits")]).reason == "RecoveryInProgress"


async def test_a_new_step_waits_for_its_predecessors() -> None:
    db = step("Db")
    api = step("Api", db)
    world = World(Db=progressing("starting"))
    found = await world.carry_out(Plan(db, api))
    assert world.applied == ["Db"]
    assert found == {"Db": progressing("starting"), "Api": waiting("waiting for Db")}


async def test_an_outage_does_not_hold_back_what_exists() -> None:
    db = step("Db")
    api = step("Api", db)
    world = World(api, Db=progressing("lost a pod"))
    await world.carry_out(Plan(db, api))
    assert world.applied == ["Db", "Api"]


async def test_a_barrier_holds_back_changes_too() -> None:
    schema = step("Schema", barrier=True)
    api = step("Api", schema)
    world = World(api, Schema=progressing("running"))
    found = await world.carry_out(Plan(schema, api))
    assert world.applied == ["Schema"]
    assert found["Api"].state is State.WAITING


async def test_supporting_objects_of_running_pods_are_not_held_back() -> None:
    schema, other = step("Schema", barrier=True), step("Other")
    run = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api"}}
    api = Step(name="Api", objects=(run, thing("service")), after=(schema,))
    applied: list[Object] = []

    async def apply(step: Step) -> Sequence[Object]:
        applied.extend(step.objects)
        return step.objects

    async def found(*present: Step, before: Predecessor | None = None, schema_is: Verdict = READY) -> Verdict:
        applied.clear()
        world = World(Schema=schema_is)
        verdicts = await carry_out(
            Plan(schema, other, api), apply, world.judge, present.__contains__, lambda s: before if s is api else None
        )
        return verdicts[api]

    assert (await found(api, schema_is=progressing("running"))).state is State.WAITING
    assert applied == [thing("schema"), thing("other"), thing("service")]
    held = await found(api, before=Predecessor("StatefulSet/x"))
    assert (held.turn_after, "for StatefulSet/x" in held.message) == (Predecessor("StatefulSet/x"), True)
    assert applied == [thing("schema"), thing("other"), thing("service")]
    await found(schema_is=progressing("running"))
    assert applied == [thing("schema"), thing("other")]


async def test_workloads_do_not_roll_onto_a_refused_configuration() -> None:
    config, other = step("Config"), step("Other")
    api = step("Api", config)
    world = World(api, Config=SpecError("Secret/config", "too long"))
    found = await world.carry_out(Plan(config, api, other))
    assert "Api" not in world.applied
    assert "Other" in world.applied
    assert found["Api"] == waiting("waiting for Config")


async def test_a_known_answer_applies_nothing() -> None:
    keystone = Step(name="Keystone", verdict=progressing("Keystone/keystone: 0/1 pods ready"))
    api = step("Api", keystone)
    world = World()
    found = await world.carry_out(Plan(keystone, api))
    assert world.applied == []
    assert found["Api"] == waiting("waiting for Keystone")


async def test_an_observation_adds_to_what_is_judged() -> None:
    members = Step(name="Members", objects=(thing("members"),), verdict=progressing("2 of 3 joined"))
    assert (await World().carry_out(Plan(members)))["Members"] == progressing("2 of 3 joined")


async def test_a_refused_step_does_not_stop_the_others() -> None:
    one, other = step("One"), step("Other")
    world = World(One=SpecError("spec.x", "too long"), Other=Transient("conflict"))
    found = await world.carry_out(Plan(one, other))
    assert found == {"One": failed("spec.x: too long", "InvalidSpec"), "Other": Verdict(State.RETRYING, "conflict")}


def test_a_step_before_what_it_needs_is_a_mistake() -> None:
    db = step("Db")
    with pytest.raises(ValueError, match="Api comes before Db"):
        Plan(step("Api", db), db)


def test_two_steps_with_one_object_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="Thing/db is made by Db and by Db"):
        Plan(step("Db"), step("Db"))


def test_a_step_counts_once_however_often_it_is_named() -> None:
    db = step("Db")
    assert next(iter(Plan(db, db, step("Api", db)))) is db


def test_a_group_is_one_condition() -> None:
    one, other = step("One"), step("Other")
    plan = Plan(Group("Cells", [one, Group("More", [other])]))
    verdicts = {one: READY, other: progressing("cell1: 0/1 pods ready")}
    assert conditions(plan, verdicts)["CellsReady"] == progressing("cell1: 0/1 pods ready")


def turn(workload: str = "Deployment/api", until: datetime | None = None) -> Verdict:
    message = f"waits for {workload}, which is being rolled out"
    return Verdict(State.PROGRESSING, message, turn_after=Predecessor(workload, until))


def test_the_sum_counts_what_waits_for_its_turn() -> None:
    """A service of ten programs would say ten times after which it changes."""
    api, scheduler, conductor, config = step("API"), step("Scheduler"), step("Conductor"), step("Config")
    plan = Plan(config, api, scheduler, Group("Cells", [conductor]))
    verdicts = {config: READY, api: progressing("api: 1/1 pods ready"), scheduler: turn(), conductor: turn()}
    shown = conditions(plan, verdicts)
    assert shown["Ready"] == progressing("api: 1/1 pods ready; 2 workloads wait for Deployment/api")
    assert shown["SchedulerReady"].message == "waits for Deployment/api, which is being rolled out"
    alone = conditions(plan, {**verdicts, api: READY, scheduler: READY})["Ready"]
    assert alone == progressing("1 workload waits for Deployment/api, which is being rolled out")
    ends = datetime(2026, 11, 26, 12, 5, tzinfo=UTC)
    both = {
        config: READY,
        api: READY,
        scheduler: turn(until=ends),
        conductor: turn("Deployment/x", ends + timedelta(hours=1)),
    }
    assert conditions(plan, both)["Ready"].message == (
        "1 workload waits for Deployment/api; 1 workload waits for Deployment/x, which is being rolled out, "
        "until 13:05 UTC at the latest"
    )


async def test_a_resource_whose_turn_comes_before_is_not_said_to_roll_out() -> None:
    plan, blocker = Plan(api := step("API")), Predecessor("Keystone/keystone")

    async def apply(_: Step) -> list[Object]:
        raise AssertionError("it is not its turn")

    verdicts = await carry_out(plan, apply, lambda _: READY, lambda _: True, lambda _: blocker)
    assert verdicts[api].message == "waits for Keystone/keystone, which comes first"
    assert conditions(plan, verdicts)["Ready"] == progressing("1 workload " + verdicts[api].message)


def test_a_part_that_waits_for_its_turn_does_not_hide_another() -> None:
    one, other = step("One"), step("Other")
    plan = Plan(Group("Cells", [one, other]))
    found = conditions(plan, {one: turn(), other: failed("no image", "ImagePullFailed")})["Ready"]
    assert found == failed("Cells: no image; 1 workload waits for Deployment/api", "ImagePullFailed")


def test_a_step_that_waits_hides_no_cause_of_its_condition() -> None:
    """A job that discovers nodes waits for nova-compute, of which a container ends again and again."""
    nodes, discovery = step("Nodes"), step("Discovery")
    plan = Plan(Group("Compute", [nodes, discovery]))
    cause = Verdict(State.PROGRESSING, "nodes: container main ends", "CrashLoop")
    found = conditions(plan, {nodes: cause, discovery: waiting("waiting for Nodes")})
    assert found["ComputeReady"] == cause
    assert (found["Ready"].message, found["Ready"].reason) == ("Compute: nodes: container main ends", "CrashLoop")
    alone = conditions(plan, {nodes: READY, discovery: waiting("waiting for Nodes")})
    assert alone["ComputeReady"] == waiting("waiting for Nodes")


def test_published_facts_are_copied() -> None:
    facts = {"host": "a"}
    plan = Plan(published=facts, endpoint="http://a", wake=datetime(2026, 1, 1, tzinfo=UTC))
    facts["host"] = "b"
    assert plan.outcome.published == {"host": "a"}


@pytest.mark.parametrize(
    ("name", "type_"), [("Database", "DatabaseReady"), ("OVNConnected", "OVNConnected"), ("APIReady", "APIReady")]
)
def test_conditions_say_what_is_true(name: str, type_: str) -> None:
    assert condition_type(name) == type_


def test_ready_names_causes_and_not_what_waits_for_them() -> None:
    summary = {"Database": progressing("db is starting"), "API": waiting("waiting for Database"), "Config": READY}
    assert ready(summary) == progressing("Database: db is starting")


def test_ready_names_what_waits_where_nothing_else_is_wrong() -> None:
    assert ready({"API": waiting("waiting for Keystone/keystone")}) == waiting("API: waiting for Keystone/keystone")


def test_ready_takes_the_reason_of_the_worst() -> None:
    found = ready({"Schema": failed("job failed", "JobFailed"), "API": progressing("0/1 pods ready")})
    assert (found.state, found.reason) == (State.FAILED, "JobFailed")
    assert "job failed" in found.message


VERDICTS = st.builds(Verdict, st.sampled_from(State), st.text(max_size=5), st.just(""))


@given(st.lists(VERDICTS))
def test_the_worst_decides_and_nothing_hides_behind_the_first(verdicts: list[Verdict]) -> None:
    found = worst(verdicts)
    assert found.state == max((v.state for v in verdicts), default=State.READY)
    for verdict in verdicts:
        assert verdict.state is not found.state or verdict.message in found.message


@pytest.mark.parametrize(
    ("one", "incomplete"), [(READY, True), (Incomplete("spec.x", "later"), True), (SpecError("spec.x", "wrong"), False)]
)
async def test_sums_of_conditions_are_incomplete_if_a_part_is(one: Verdict | SpecError, incomplete: bool) -> None:
    plan = Plan(Group("Both", [step("One"), step("Other")]), step("Third"))
    world = World(One=one, Other=Incomplete("spec.y", "later"), Third=Incomplete("spec.z", "later"))
    found = conditions(plan, await carry_out(plan, world.apply, world.judge, lambda _: True))
    assert {name: verdict.incomplete for name, verdict in found.items()} == {
        "BothReady": incomplete,
        "ThirdReady": True,
        "Ready": incomplete,
    }


def test_errors_name_the_field_and_their_reason() -> None:
    assert str(SpecError("spec.cells", "two cells are called a")) == "spec.cells: two cells are called a"
    reasons = [error("spec", "").reason for error in (SpecError, MissingReference, UnsupportedError)]
    assert reasons == ["InvalidSpec", "MissingReference", "Unsupported"]


DATA = {
    "release": "2025.1",
    "profiles": {"debian": {"components": {"nova-api": {"image": "nova:1", "uid": 7, "commands": {"run": ["nova"]}}}}},
}


def test_a_release_says_what_runs_a_component() -> None:
    component = parse(DATA, "debian")["nova-api"]
    assert (component.image, component.uid, component.gid, component.command) == ("nova:1", 7, 7, ("nova",))


def test_a_release_names_what_it_lacks() -> None:
    with pytest.raises(SpecError, match=r"spec.imageProfile: there is no profile 'x'; choose from debian"):
        parse(DATA, "x")
    with pytest.raises(SpecError, match=r"release 2025.1 has no 'heat-api' in profile 'debian'"):
        parse(DATA, "debian")["heat-api"]


def test_recovery_is_the_reason_whatever_else_is_progressing():
    found = ready({"Server": recovering("server-1 joins"), "API": progressing("1/2"), "Conf": waiting("for Server")})
    assert (found.state, found.reason) == (State.PROGRESSING, "RecoveryInProgress")
    assert worst([progressing("1/2"), recovering("server-1 joins")]).reason == "RecoveryInProgress"


def test_a_pod_in_a_plan_is_a_certain_one():
    pod = {"kind": "Pod", "metadata": {"name": "server-0", "labels": {}}}
    with pytest.raises(ValueError, match="Pod/server-0 without its uid"):
        Plan(Step(name="Roles", objects=(pod,)))
