"""An upgrade is a plan: of the old release until a check of the new one succeeds, then of the new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.api import Dependency, Model, Resource
from openstack_operator.plan import (
    READY,
    UPGRADE_HELD,
    Context,
    Key,
    Object,
    Plan,
    Predecessor,
    Release,
    SpecError,
    State,
    Step,
    Verdict,
    check_hop,
    conditions,
    failed,
    is_earlier,
    key,
    progressing,
    waiting,
)
from openstack_operator.plan.carry_out import ready
from openstack_operator.registry import SERVICES
from openstack_operator.services.cinder.model import CINDER
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.placement.model import PLACEMENT
from openstack_operator.testing import context, granted

CONTRACTS = {
    "MariaDB": {"host": "mariadb.openstack", "port": "3306"},
    "Memcached": {"servers": "memcached-0:11211"},
    "Keystone": {"internalURL": "http://keystone-api.openstack:5000/v3"},
}
OLD, NEW = "2025.1", "2026.1"


def newer(release: Release, name: str = NEW) -> Release:
    """Return the same release under another name, with other images."""
    components = {
        each: replace(entry, image=f"{entry.image}-{name}", version=name) for each, entry in release.components.items()
    }
    return replace(release, name=name, components=components)


@pytest.fixture
def releases(release: Release) -> Mapping[str, Release]:
    return {OLD: release, **{name: newer(release, name) for name in ("2025.2", NEW)}}


def planned(
    releases: Mapping[str, Release], live: Mapping[Key, Object] | None = None, running: str = OLD, **spec: Any
) -> Plan:
    """Return the plan of a Placement of which `live` exists, and that release runs."""

    def of(spec: Model) -> Release:
        return releases[str(getattr(spec, "release", OLD))]

    given = {"release": NEW, **spec}
    ctx = context(
        PLACEMENT,
        given,
        release=releases[given["release"]],
        published=CONTRACTS,
        releases=of,
        running_release=running,
        children=live or {},
    )
    return RECORD.make_plan(ctx)


RECORD = next(each for each in SERVICES if each.resource is PLACEMENT)


def rolled_out(plan: Plan) -> dict[Key, Object]:
    return {key(obj): granted(obj) for obj in plan.objects}


def image(plan: Plan) -> str:
    return str(
        next(obj for obj in plan.objects if obj["kind"] == "Deployment")["spec"]["template"]["spec"]["containers"][0][
            "image"
        ]
    )


def step(plan: Plan, name: str) -> Step | None:
    return next((step for step in plan if step.name == name), None)


def jobs(plan: Plan) -> list[str]:
    return [obj["metadata"]["labels"]["app.kubernetes.io/component"] for obj in plan.objects if obj["kind"] == "Job"]


def test_a_new_resource_needs_no_check(releases: Mapping[str, Release]) -> None:
    plan = planned(releases, running="")
    assert image(plan).endswith(NEW)
    assert jobs(plan) == ["db-sync"]


def test_the_old_release_stays_until_the_check_succeeds(releases: Mapping[str, Release]) -> None:
    before = rolled_out(planned(releases, release=OLD))
    plan = planned(releases, before)
    assert not image(plan).endswith(NEW)
    check = step(plan, "Preflight")
    assert check is not None
    assert {obj["kind"] for obj in check.objects} == {"Secret", "Job"}
    assert {key(obj): obj for obj in plan.objects}.items() >= {
        key(obj): obj for obj in planned(releases, before, release=OLD).objects
    }.items(), "what runs is not changed"
    assert all(image.endswith(NEW) for obj in check.objects if obj["kind"] == "Job" for image in images(obj))


def images(obj: Object) -> list[str]:
    return [each["image"] for each in obj["spec"]["template"]["spec"]["containers"]]


def check_env(plan: Plan) -> dict[str, str]:
    """Return the variables of the Job that checks a release."""
    check = step(plan, "Preflight")
    assert check is not None
    [job] = [obj for obj in check.objects if obj["kind"] == "Job"]
    assert job["metadata"]["annotations"]["openstack.k8s.io/reports"] == "true"
    return {each["name"]: each.get("value", "") for each in job["spec"]["template"]["spec"]["containers"][0]["env"]}


def test_a_check_looks_at_tables_that_the_upgrade_writes_again(releases: Mapping[str, Release]) -> None:
    target = replace(releases[NEW], rewrites={"placement": {"allocations": NEW, "consumers": "2025.2", "traits": OLD}})
    env = check_env(planned({**releases, NEW: target}))
    assert (env["RECORDS_OF"], env["TABLES"]) == ("", "allocations consumers")
    assert env["CONFIG_FILE"] == "/etc/placement/placement.conf"
    assert "FACTS" not in check_env(planned(releases))


def ended(plan: Plan, at: str) -> dict[Key, Object]:
    """Return the check of a plan, which began at that time and succeeded."""
    check = step(plan, "Preflight")
    assert check is not None
    found = {key(obj): granted(obj) for obj in check.objects}
    for (kind, _), obj in found.items():
        if kind == "Job":
            obj["metadata"]["creationTimestamp"] = at
    return found


def test_a_success_of_a_day_ago_is_checked_again(releases: Mapping[str, Release]) -> None:
    """The time of these plans is 2026-01-01 00:00. The Job is deleted, and the next pass makes it again."""
    spec: dict[str, Any] = {"release": OLD, "upgrade": {"checkRelease": NEW}}
    live = rolled_out(planned(releases, release=OLD))
    first = planned(releases, live, **spec)
    fresh = planned(releases, live | ended(first, "2025-12-31T12:00:00Z"), **spec)
    assert jobs(fresh) == ["db-sync", "preflight"]
    assert fresh.outcome.wake == datetime(2026, 1, 1, 12, tzinfo=UTC)
    old = planned(releases, live | ended(first, "2025-12-30T12:00:00Z"), **spec)
    assert jobs(old) == ["db-sync"]
    check = step(old, "Preflight")
    assert check is not None
    assert check.verdict is not None
    assert check.verdict.message == "the check is older than a day, and runs again"
    assert old.outcome.wake
    assert jobs(planned(releases, live | ended(first, "a time of a user"), **spec)) == ["db-sync", "preflight"]


def test_a_success_of_a_day_ago_begins_no_upgrade(releases: Mapping[str, Release]) -> None:
    live = rolled_out(planned(releases, release=OLD))
    old = live | ended(planned(releases, live), "2025-12-30T12:00:00Z")
    plan = planned(releases, old)
    assert not image(plan).endswith(NEW)
    assert jobs(plan) == ["db-sync"]


def test_the_new_release_comes_with_the_success_of_the_check(releases: Mapping[str, Release]) -> None:
    live = rolled_out(planned(releases, release=OLD))
    check = step(planned(releases, live), "Preflight")
    assert check is not None
    live |= {key(obj): granted(obj) for obj in check.objects}
    plan = planned(releases, live)
    assert image(plan).endswith(NEW)
    assert jobs(plan) == ["db-sync", "complete-upgrade", "preflight"], "the check stays until the schema is extended"


def test_an_upgrade_that_has_begun_goes_on_without_a_check(releases: Mapping[str, Release]) -> None:
    live = rolled_out(planned(releases, release=OLD))
    new = planned(releases, running="")
    live |= {key(obj): granted(obj) for obj in new.objects if obj["kind"] == "Job"}
    plan = planned(releases, live)
    assert image(plan).endswith(NEW)
    assert jobs(plan) == ["db-sync", "complete-upgrade"]


def test_rows_move_only_after_the_last_program_of_the_old_release(releases: Mapping[str, Release]) -> None:
    live = rolled_out(planned(releases, running=""))
    completion = step(planned(releases, live), "Upgrade")
    assert completion is not None
    assert "API" in {needed.name for needed in completion.after}
    assert not completion.barrier or not [each for each in planned(releases, live) if completion in each.after]


@pytest.mark.parametrize(
    ("resource", "spec", "programs"),
    [
        (CINDER, {"backends": [{"name": "files", "type": "nfs", "nfs": {"shares": ["files:/a"]}}]}, {"Backend files"}),
        (CINDER, {"backup": {"type": "swift"}}, {"API", "Scheduler", "Backup"}),
        (NOVA, {"cells": [{"name": "cell1"}, {"name": "cell2"}]}, {"Conductor", "Scheduler", "NoVNCProxy"}),
    ],
)
def test_the_last_step_comes_after_all_programs(
    releases: Mapping[str, Release], resource: Resource[Any], spec: dict[str, Any], programs: set[str]
) -> None:
    """Also of a service without a cloud above it."""

    def of(spec: Model) -> Release:
        return releases[str(getattr(spec, "release", OLD))]

    others = {"RabbitMQ": {"host": "rabbitmq.openstack", "port": "5672"}, "Neutron": {"metadataSecret": "neutron"}}
    ctx = context(
        resource,
        {"release": NEW, **spec},
        release=releases[NEW],
        published={**CONTRACTS, **others, "Glance": {"internalURL": "http://glance-api.openstack:9292"}},
        secrets={"neutron": {"metadata": "shared"}},
        releases=of,
        running_release=OLD,
    )
    record = next(each for each in SERVICES if each.resource is resource)
    begun = rolled_out(record.make_plan(replace(ctx, running_release="")))
    plan = record.make_plan(replace(ctx, children=begun))
    last = [each for each in plan if plan.condition[each] == "Upgrade"]
    assert last
    for each in last:
        after = {needed for needed in each.after if needed.workloads}
        assert after == {each for each in plan if each.workloads}
        assert {needed.name for needed in after} >= programs


def test_a_way_back_needs_no_check(releases: Mapping[str, Release]) -> None:
    live = rolled_out(planned(releases, running=""))
    plan = planned(releases, live, release=OLD)
    assert not image(plan).endswith(NEW)
    assert jobs(plan) == ["db-sync"]


def test_once_the_last_step_has_begun_there_is_no_way_back(releases: Mapping[str, Release]) -> None:
    live = rolled_out(planned(releases, rolled_out(planned(releases, running=""))))
    with pytest.raises(SpecError, match=r"the last step of the upgrade to 2026\.1 has begun"):
        planned(releases, live, release=OLD)


def test_a_check_beside_a_new_release_does_not_replace_its_check(releases: Mapping[str, Release]) -> None:
    plan = planned(releases, rolled_out(planned(releases, release=OLD)), upgrade={"checkRelease": NEW})
    assert not image(plan).endswith(NEW)
    assert jobs(plan) == ["db-sync", "preflight"]


def test_other_images_of_the_same_release_are_no_upgrade(releases: Mapping[str, Release]) -> None:
    """As after an upgrade of the operator."""
    live = rolled_out(planned({**releases, NEW: newer(releases[NEW], NEW)}, running=""))
    plan = planned(releases, live)
    assert image(plan).endswith(NEW)
    assert "preflight" not in jobs(plan)


def test_a_service_without_a_last_step_can_wait_as_well(releases: Mapping[str, Release]) -> None:
    def without(_: Context[Any]) -> Plan:
        return Plan(Step(name="API"), preflight=Step(name="Preflight"))

    def of(spec: Model) -> Release:
        return releases[str(getattr(spec, "release", OLD))]

    plan = replace(RECORD, plan=without).make_plan(
        context(
            PLACEMENT,
            {"release": NEW, "upgrade": {"complete": False}},
            release=releases[NEW],
            published=CONTRACTS,
            releases=of,
            running_release=OLD,
        )
    )
    last = step(plan, "Upgrade")
    assert last is not None


def test_the_plan_of_the_old_release_says_so(releases: Mapping[str, Release]) -> None:
    """The status names the release of the plan, not that of the spec."""
    plan = planned(releases, rolled_out(planned(releases, release=OLD)))
    assert plan.release == OLD


def test_a_completed_upgrade_is_not_taken_back(releases: Mapping[str, Release]) -> None:
    with pytest.raises(SpecError, match=r"spec\.release: 2026\.1 runs completely, .* restore a backup of 2025\.1"):
        planned(releases, rolled_out(planned(releases, running="")), running=NEW, release=OLD)


def test_the_last_step_can_wait(releases: Mapping[str, Release]) -> None:
    live = rolled_out(planned(releases, running=""))
    plan = planned(releases, live, upgrade={"complete": False})
    assert jobs(plan) == ["db-sync"]
    last = step(plan, "Upgrade")
    assert last is not None
    assert last.verdict is not None
    assert last.verdict.reason == "Held"


def test_a_check_of_a_release_that_does_not_exist_names_the_field(releases: Mapping[str, Release]) -> None:
    with pytest.raises(SpecError, match=r"spec\.upgrade\.checkRelease: .* upgrade to 2026\.1 first"):
        planned(releases, release=OLD, upgrade={"checkRelease": "2027.1"})


def test_a_completed_upgrade_leaves_nothing(releases: Mapping[str, Release]) -> None:
    live = rolled_out(planned(releases, running=""))
    assert jobs(planned(releases, live, running=NEW)) == ["db-sync"]


def test_a_field_that_the_new_release_refuses_leaves_the_old_one(
    releases: Mapping[str, Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = RECORD.plan

    def refusing(ctx: Context[Any]) -> Plan:
        if ctx.release.name == NEW:
            raise SpecError("spec.config.DEFAULT.old", "no such option")
        return real(ctx)

    record = replace(RECORD, plan=refusing)
    monkeypatch.setitem(globals(), "RECORD", record)
    live = rolled_out(planned(releases, release=OLD))
    plan = planned(releases, live)
    assert not image(plan).endswith(NEW)
    check = step(plan, "Preflight")
    assert check is not None
    assert check.verdict is not None
    assert check.verdict.state is State.FAILED
    assert check.verdict.message == f"not with release {NEW}: spec.config.DEFAULT.old: no such option"
    begun = rolled_out(planned(releases, running="", release="2025.2"))
    with pytest.raises(
        SpecError, match=r"an upgrade to 2025\.2 is in progress; set that release until it is done, or 2025\.1"
    ):
        planned(releases, begun)


def test_a_check_alone_changes_nothing(releases: Mapping[str, Release]) -> None:
    plan = planned(releases, release=OLD, upgrade={"checkRelease": NEW})
    assert not image(plan).endswith(NEW)
    assert jobs(plan) == ["db-sync", "preflight"]
    assert step(plan, "Upgrade") is None


HELD = waiting("held by the user", "Held")


def reported(**verdicts: Verdict) -> Object:
    """Return a Placement as its pass reports these verdicts on its steps."""
    plan = Plan(*(Step(name=name) for name in verdicts))
    ready = conditions(plan, {each: verdicts[each.name] for each in plan})["Ready"]
    condition = {"type": "Ready", "status": "True" if ready.ready else "False", "observedGeneration": 1}
    condition |= {"reason": ready.cause, "message": ready.message}
    metadata = {"name": "placement", "generation": 1}
    return {**PLACEMENT_TYPE, "metadata": metadata, "status": {"conditions": [condition]}}


PLACEMENT_TYPE = {"apiVersion": PLACEMENT.api_version, "kind": PLACEMENT.kind}
DEPENDENCY = Dependency(kind="Placement", name="placement", condition="Ready")


def test_a_cloud_tells_once_what_all_its_services_wait_for() -> None:
    waits = {
        name: Verdict(State.PROGRESSING, f"{name}/{name.lower()}: Upgrade: {HELD.message}", "Held")
        for name in ("Keystone", "Nova")
    }
    assert ready(waits) == Verdict(State.PROGRESSING, f"Keystone, Nova: {HELD.message}", "Held")


def test_users_of_a_service_do_not_wait_for_its_upgrade_to_end() -> None:
    """Else the service that uses it never reports that it is done but for that, for which the cloud waits."""
    live = reported(API=READY, Upgrade=HELD)
    assert kube.child_verdict(live) == Verdict(
        State.PROGRESSING, "Placement/placement: Upgrade: held by the user", "Held"
    )
    assert kube.referent_verdict(live) == READY
    assert kube.dependency_verdict(live, DEPENDENCY) == READY


@pytest.mark.parametrize(
    "api",
    [
        progressing("starts"),
        waiting("waiting for Schema"),
        failed("no image", "ImagePullFailed"),
        Verdict(State.PROGRESSING, "waits for x", turn_after=Predecessor("Deployment/x")),
    ],
)
def test_a_service_that_is_not_done_besides_is_not_held(api: Verdict) -> None:
    live = reported(API=api, Upgrade=HELD)
    assert kube.conditions(live)["Ready"]["reason"] != "Held"
    assert HELD.message not in kube.conditions(live)["Ready"]["message"]
    assert not kube.referent_verdict(live).ready
    assert not kube.dependency_verdict(live, DEPENDENCY).ready


@pytest.mark.parametrize(
    ("running", "target"), [(OLD, OLD), (OLD, "2025.2"), ("2025.2", NEW), (OLD, NEW), (NEW, OLD), ("mine", NEW)]
)
def test_a_hop_that_openstack_supports(running: str, target: str) -> None:
    check_hop(running, target)


@pytest.mark.parametrize(
    ("running", "target", "first"), [("2024.2", NEW, "2025.1"), ("2025.2", "2026.2", "2026.1"), (OLD, "2026.2", NEW)]
)
def test_another_hop_names_the_first_one(running: str, target: str, first: str) -> None:
    with pytest.raises(SpecError, match=f"{running} runs, .* to {target}; upgrade to {first} first"):
        check_hop(running, target)


def test_releases_are_in_order() -> None:
    assert is_earlier("2024.2", "2025.1")
    assert not is_earlier("2025.1", "2025.1")
    assert not is_earlier("2025.1", "mine")
    assert not is_earlier("mine", "2025.1")


def test_an_option_that_the_new_release_has_no_more_fails_its_check(releases: Mapping[str, Release]) -> None:
    lists = {"placement": {"DEFAULT": {"debug": "", "old": ""}}}
    running = replace(releases[OLD], options=lists)
    target = replace(releases[NEW], options={"placement": {"DEFAULT": {"debug": ""}}}, earlier_options=lists)
    plan = planned({OLD: running, NEW: target}, config={"DEFAULT": {"old": True}})
    assert not image(plan).endswith(NEW)
    check = step(plan, "Preflight")
    assert check
    assert check.verdict
    assert check.verdict.state is State.FAILED
    text = "spec.config.DEFAULT.old: Placement 2026.1 no longer has this option; remove it"
    assert check.verdict.message == f"not with release {NEW}: {text}"


@pytest.mark.parametrize(("reason", "is_usable"), [(UPGRADE_HELD, True), ("Progressing", False), ("Waiting", False)])
def test_others_use_a_service_whose_last_step_is_held(reason: str, is_usable: bool) -> None:
    """A cloud holds the last steps until all are new; each would wait for the others for ever."""
    condition = {"type": "Ready", "status": "False", "reason": reason, "message": "", "observedGeneration": 2}
    live = {
        "kind": "Placement",
        "metadata": {"name": "placement", "generation": 2},
        "status": {"conditions": [condition]},
    }
    assert kube.referent_verdict(live).ready == is_usable
    live["metadata"] = {"name": "placement", "generation": 3}
    assert not kube.referent_verdict(live).ready
