"""An upgrade of a cloud: no service changes before all have checked the new release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from openstack_operator.api import Model
from openstack_operator.plan import READY, Key, Object, Plan, Release, SpecError, State, Step, Verdict, key
from openstack_operator.services.controlplane.c5c3 import SCHEDULES, translate
from openstack_operator.services.controlplane.c5c3_model import C5C3_CONTROL_PLANE
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.controlplane.service import plan
from openstack_operator.testing import context

OLD, NEW = "2025.1", "2026.1"
CHECKED = {"keystone", "glance", "placement", "neutron", "nova"}


def cloud(
    images: Release,
    live: Mapping[Key, Object] | None = None,
    running: str = OLD,
    schedules: Sequence[Object] = (),
    **spec: Any,
) -> Plan:
    def of(spec: Model) -> Release:
        return replace(images, name=str(getattr(spec, "release", OLD)))

    given = {"tls": {"enabled": False}, "release": NEW, **spec}
    named = replace(images, name=str(given["release"]))
    return plan(
        context(
            CONTROL_PLANE,
            given,
            release=named,
            releases=of,
            owner="cloud",
            children=live or {},
            running_release=running,
            facts={"resources": schedules},
        )
    )


def live(made: Plan, **conditions: str) -> dict[Key, Object]:
    """Return the resources of a plan as their own passes leave them: each check has succeeded, or says its text."""
    found: dict[Key, Object] = {}
    for obj in made.objects:
        text = conditions.get(obj["metadata"]["name"], "")
        condition = {
            "type": "PreflightReady",
            "observedGeneration": 1,
            "status": "False" if text else "True",
            "message": text,
        }
        condition["reason"] = "JobFailed" if text else "Ready"
        status = {"observedGeneration": 1, "conditions": [condition]}
        found[key(obj)] = {**obj, "metadata": {**obj["metadata"], "generation": 1}, "status": status}
    return found


def rolled(made: Plan, **pending: str) -> dict[Key, Object]:
    """Return the resources of a plan as their own passes leave them before the last step, which is held; with a
    condition that is not ready for those in `pending`.
    """
    found = live(made)
    for (_, name), obj in found.items():
        held = {"type": "UpgradeReady", "status": "False", "reason": "Held", "message": "waits"}
        api = {"type": "APIReady", "status": "False" if name in pending else "True", "reason": "Progressing"}
        obj["status"]["conditions"] = [held, api, {"type": "Ready", "status": "False", "reason": "Held"}]
    return found


def releases(made: Plan) -> set[str]:
    return {obj["spec"]["release"] for obj in made.objects}


def check(made: Plan) -> Step | None:
    return next((step for step in made if step.name == "Preflight"), None)


def test_all_services_check_the_new_release_before_one_gets_it(release: Release) -> None:
    made = cloud(release)
    assert releases(made) == {OLD}
    asked = {obj["metadata"]["name"] for obj in made.objects if obj["spec"].get("upgrade") == {"checkRelease": NEW}}
    assert asked == CHECKED
    step = check(made)
    assert step is not None
    assert step.verdict is not None
    assert not step.verdict.ready


def test_a_failed_check_of_one_holds_all(release: Release) -> None:
    made = cloud(release, live(cloud(release), nova="Older than N-1 computes: node-1"))
    assert releases(made) == {OLD}
    step = check(made)
    assert step is not None
    assert step.verdict is not None
    assert step.verdict.state is State.FAILED
    assert step.verdict.message == f"check of release {NEW}: nova: Older than N-1 computes: node-1"


def test_warnings_of_checks_hold_nothing_and_are_shown(release: Release) -> None:
    checking: dict[str, Any] = {"release": OLD, "upgrade": {"checkRelease": NEW}}
    made = live(cloud(release, **checking))
    made["Nova", "nova"]["status"]["conditions"][0]["message"] = "node-9 has not reported to Nova"
    step = check(cloud(release, made, **checking))
    assert step is not None
    assert step.verdict == Verdict(State.READY, "nova: node-9 has not reported to Nova")
    upgrade = live(cloud(release))
    upgrade["Nova", "nova"]["status"]["conditions"][0]["message"] = "node-9 has not reported to Nova"
    assert releases(cloud(release, upgrade)) == {NEW}


def held(made: Plan) -> set[str]:
    return {
        obj["metadata"]["name"] for obj in made.objects if (obj["spec"].get("upgrade") or {}).get("complete") is False
    }


def test_all_get_it_once_all_checks_succeeded(release: Release) -> None:
    made = cloud(release, live(cloud(release)))
    assert releases(made) == {NEW}
    assert held(made) == CHECKED


def test_the_last_steps_are_held_until_all_programs_are_new(release: Release) -> None:
    begun = cloud(release, live(cloud(release)))
    assert held(cloud(release, rolled(begun, nova="rolling"))) == CHECKED
    done = cloud(release, rolled(begun))
    assert held(done) == set()
    # The next pass sees resources that have not looked at their spec yet.
    again = live(done)
    for obj in again.values():
        obj["metadata"]["generation"] = 2
    assert held(cloud(release, again)) == set()


@pytest.mark.proves("OpenStackControlPlane", "spec.upgrade.complete")
def test_the_user_may_hold_the_last_steps(release: Release) -> None:
    begun = cloud(release, live(cloud(release)))
    assert held(cloud(release, rolled(begun), upgrade={"complete": False})) == CHECKED


REPOSITORY = {"nfs": "server:/path", "passwordRef": {"name": "repository"}}
NAME = "cloud-before-2026-1"
SAVED = ("OpenStackBackup", NAME)


def schedule(name: str = "nightly", **spec: Any) -> Object:
    spec = {"repository": REPOSITORY, "schedule": "0 1 * * *", **spec}
    return {"kind": "OpenStackBackupSchedule", "metadata": {"name": name}, "spec": spec}


def saved(made: Plan, status: str = "True", **fields: Any) -> dict[Key, Object]:
    """Return the backup of a plan as its own pass leaves it."""
    (obj,) = (obj for obj in made.objects if key(obj) == SAVED)
    ready = {"type": "Ready", "status": status, "observedGeneration": 1, "reason": "Progressing", "message": "stores"}
    metadata = {**obj["metadata"], "generation": 1}
    return {SAVED: {**obj, "metadata": metadata, "status": {"conditions": [ready, *fields.pop("more", ())], **fields}}}


def before_last_steps(release: Release) -> dict[Key, Object]:
    return rolled(cloud(release, live(cloud(release))))


def of_backup(made: Plan) -> Verdict | None:
    return next((step.verdict for step in made if step.name == "Backup"), None)


def test_the_last_steps_wait_for_a_verified_backup(release: Release) -> None:
    found, schedules = before_last_steps(release), [schedule("weekly"), schedule()]
    made = cloud(release, found, schedules=schedules)
    assert held(made) == CHECKED
    (created,) = (obj for obj in made.objects if key(obj) == SAVED)
    assert created["spec"] == {"repository": REPOSITORY, "verify": True}
    running = cloud(release, found | saved(made, "False"), schedules=schedules)
    assert held(running) == CHECKED
    verdict = of_backup(running)
    assert verdict is not None
    assert verdict.state is State.PROGRESSING
    assert (
        "repository of OpenStackBackupSchedule/nightly: OpenStackBackup/cloud-before-2026-1: stores" in verdict.message
    )
    assert held(cloud(release, found | saved(made), schedules=schedules)) == set()


def test_a_backup_of_an_upgrade_includes_what_its_schedule_includes(release: Release) -> None:
    include = {"images": False}
    made = cloud(release, before_last_steps(release), schedules=[schedule(include=include)])
    (created,) = (obj for obj in made.objects if key(obj) == SAVED)
    assert created["spec"] == {"repository": REPOSITORY, "include": include, "verify": True}


def test_a_backup_that_is_being_deleted_is_not_enough(release: Release) -> None:
    found = before_last_steps(release)
    backup = saved(cloud(release, found, schedules=[schedule()]))
    backup[SAVED]["metadata"]["deletionTimestamp"] = "2026-11-30T08:15:00Z"
    assert held(cloud(release, found | backup, schedules=[schedule()])) == CHECKED


def test_a_failed_backup_holds_the_last_steps_and_names_the_way_out(release: Release) -> None:
    found = before_last_steps(release)
    stalled = [{"type": "Stalled", "status": "True"}]
    backup = saved(cloud(release, found, schedules=[schedule()]), "False", more=stalled)
    made = cloud(release, found | backup, schedules=[schedule()])
    assert held(made) == CHECKED
    verdict = of_backup(made)
    assert verdict is not None
    assert (verdict.state, verdict.reason) == (State.FAILED, "BackupFailed")
    assert verdict.message.endswith("stores; to go on without one, set spec.upgrade.backup to false")
    assert held(cloud(release, found | backup, schedules=[schedule()], upgrade={"backup": False})) == set()


@pytest.mark.security
@pytest.mark.parametrize("forged", [{"repository": {"volume": {"claimName": "of-others"}}}, {"verify": False}])
def test_a_backup_in_another_repository_is_not_enough(release: Release, forged: dict[str, Any]) -> None:
    found = before_last_steps(release)
    backup = saved(cloud(release, found, schedules=[schedule()]))
    backup[SAVED]["spec"] |= forged
    made = cloud(release, found | backup, schedules=[schedule()])
    assert held(made) == CHECKED
    verdict = of_backup(made)
    assert verdict
    assert verdict.message.endswith(
        "is not in the repository of OpenStackBackupSchedule/nightly, or not verified; delete it"
    )


@pytest.mark.proves("OpenStackControlPlane", "spec.upgrade.backup")
@pytest.mark.parametrize(
    ("schedules", "upgrade"),
    [([], {}), ([schedule(suspend=True)], {}), ([schedule()], {"backup": False})],
)
def test_no_backup_is_waited_for_without_a_schedule(
    schedules: list[Object], upgrade: dict[str, Any], release: Release
) -> None:
    made = cloud(release, before_last_steps(release), schedules=schedules, upgrade=upgrade)
    assert held(made) == set()
    assert of_backup(made) is None
    assert all("backup" not in (obj["spec"].get("upgrade") or {}) for obj in made.objects)


def test_no_backup_is_taken_before_all_programs_are_new(release: Release) -> None:
    begun = cloud(release, live(cloud(release)))
    found = rolled(begun, nova="rolling")
    assert of_backup(cloud(release, found, schedules=[schedule()])) is None
    # One that runs goes on.
    backup = saved(cloud(release, rolled(begun), schedules=[schedule()]), "False")
    again = cloud(release, found | backup, schedules=[schedule()])
    assert of_backup(again) is not None
    assert held(again) == CHECKED
    # A way back drops it, so that the next attempt takes one of its own.
    assert of_backup(cloud(release, found | backup, schedules=[schedule()], release=OLD)) is None


def test_the_backup_stays_and_is_named_where_a_way_back_is_refused(release: Release) -> None:
    found = before_last_steps(release)
    backup = saved(cloud(release, found, schedules=[schedule()]), completed="2026-11-30T08:15:00Z")
    done = cloud(release, found | backup, running=NEW)
    assert of_backup(done) == READY
    # It is not made again.
    assert of_backup(cloud(release, found, running=NEW)) is None
    with pytest.raises(SpecError, match=r"restore a backup of 2025\.1: OpenStackBackup/cloud-before-2026-1, see docs"):
        cloud(release, backup, running=NEW, release=OLD)


def test_after_the_last_steps_there_is_no_way_back(release: Release) -> None:
    with pytest.raises(SpecError, match=r"spec\.release: 2026\.1 runs completely, .* restore a backup of 2025\.1"):
        cloud(release, running=NEW, release=OLD)


def test_a_check_of_an_older_spec_does_not_count(release: Release) -> None:
    before = live(cloud(release))
    for obj in before.values():
        obj["metadata"]["generation"] = 2
    assert releases(cloud(release, before)) == {OLD}


def test_an_upgrade_that_has_begun_goes_on(release: Release) -> None:
    begun = live(cloud(release, running=NEW), keystone="whatever")
    assert releases(cloud(release, begun)) == {NEW}


def test_a_way_back_is_for_all_at_once(release: Release) -> None:
    begun = live(cloud(release, running=NEW))
    assert releases(cloud(release, begun, release=OLD)) == {OLD}


def test_a_new_cloud_checks_nothing(release: Release) -> None:
    made = cloud(release, running="")
    assert releases(made) == {NEW}
    assert check(made) is None


@pytest.mark.proves("OpenStackControlPlane", "spec.upgrade.checkRelease")
def test_a_check_without_an_upgrade(release: Release) -> None:
    made = cloud(release, release=OLD, upgrade={"checkRelease": NEW})
    assert releases(made) == {OLD}
    after = cloud(release, live(made), release=OLD, upgrade={"checkRelease": NEW})
    step = check(after)
    assert step is not None
    assert step.verdict is not None
    assert step.verdict.ready
    assert releases(after) == {OLD}


def test_a_service_with_its_own_release_does_not_hold_the_others(release: Release) -> None:
    made = cloud(release, glance={"release": OLD})
    after = cloud(release, live(made, glance="no"), glance={"release": OLD})
    assert {obj["metadata"]["name"] for obj in after.objects if obj["spec"]["release"] == OLD} == {"glance"}


def test_a_service_that_was_upgraded_alone_keeps_its_release(release: Release) -> None:
    """Its own template named the release, and names it no more; the others check it first."""
    before = live(cloud(release, release=OLD, glance={"release": NEW}))
    made = cloud(release, before)
    assert {obj["metadata"]["name"] for obj in made.objects if obj["spec"]["release"] == NEW} == {"glance"}
    checking = {obj["metadata"]["name"] for obj in made.objects if obj["spec"].get("upgrade") == {"checkRelease": NEW}}
    assert checking == CHECKED - {"glance"}
    # The same in the next pass, although glance has the release of the cloud now.
    again = cloud(release, live(made, nova="Older than N-1 computes"))
    assert {obj["metadata"]["name"] for obj in again.objects if obj["spec"]["release"] == NEW} == {"glance"}
    begun = cloud(release, live(made))
    assert releases(begun) == {NEW}
    assert held(begun) == CHECKED
    # Nothing is left to hold in what runs the release completely.
    upgraded = rolled(begun)
    upgraded["Glance", "glance"]["status"] |= {"release": NEW, "conditions": [{"type": "APIReady", "status": "True"}]}
    assert held(cloud(release, rolled(begun, nova="rolling") | {("Glance", "glance"): upgraded["Glance", "glance"]}))
    assert held(cloud(release, upgraded)) == set()


def test_a_service_that_runs_the_release_completely_is_not_taken_back(release: Release) -> None:
    before = live(cloud(release, release=OLD))
    before["Glance", "glance"]["status"]["release"] = NEW
    made = cloud(release, before)
    assert {obj["metadata"]["name"] for obj in made.objects if obj["spec"]["release"] == NEW} == {"glance"}


def test_a_cloud_of_which_all_services_are_upgraded_follows_them(release: Release) -> None:
    before = live(cloud(release, release=OLD))
    for obj in before.values():
        obj["status"]["release"] = NEW
    assert releases(cloud(release, before)) == {NEW}


def test_a_hop_that_openstack_does_not_support_names_the_field(release: Release) -> None:
    with pytest.raises(SpecError, match=r"spec\.release: 2025\.1 runs, .* upgrade to 2026\.1 first"):
        cloud(release, release="2026.2")


@pytest.mark.proves("ControlPlane", "spec.global.upgrade.backup")
@pytest.mark.parametrize("wanted", [True, False])
def test_a_cloud_of_c5c3_knows_schedules_if_it_wants_a_backup(release: Release, *, wanted: bool) -> None:
    spec = {"global": {"upgrade": {"backup": wanted}}}
    ctx = context(C5C3_CONTROL_PLANE, spec, release=replace(release, name=NEW), running_release=OLD)
    assert ctx.upgrades_from == OLD
    assert SCHEDULES.needed(ctx) is wanted


@pytest.mark.proves("ControlPlane", "spec.global.upgrade.checkRelease", "spec.global.upgrade.complete")
def test_a_cloud_of_c5c3_is_upgraded_in_the_same_way() -> None:
    spec = {"global": {"upgrade": {"checkRelease": NEW, "complete": False}}}
    translated = translate(C5C3_CONTROL_PLANE.spec.model_validate(spec))
    assert (translated.upgrade.check_release, translated.upgrade.complete) == (NEW, False)
