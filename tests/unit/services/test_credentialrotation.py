"""When a credential is ordered to be replaced, and what is told of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.api import Resource, optional_ref
from openstack_operator.plan import Object, Plan, Release, ResolvedRef, SpecError, State, Verdict, conditions
from openstack_operator.services.credentialrotation.model import C5C3_CREDENTIAL_ROTATION, CREDENTIAL_ROTATION
from openstack_operator.services.credentialrotation.service import phase, plan
from openstack_operator.testing import NOW, context
from tests.fields import description

DATABASE = {"target": "database", "serviceRef": {"kind": "Glance", "name": "glance"}}
DAY = timedelta(days=1)


class Cloud:
    """A CredentialRotation, what its service publishes, and time."""

    def __init__(self, release: Release, resource: Resource[Any] = C5C3_CREDENTIAL_ROTATION, **spec: Any) -> None:
        self.resource = resource
        self.release, self.spec, self.now, self.generation = release, {**DATABASE, **spec}, NOW, 1
        self.told: dict[str, Any] | None = {"step": "Idle"}
        self.children: dict[tuple[str, str], Object] = {}

    def look(self, **there: str) -> Plan:
        """A pass; `there` are services by kind."""
        told = {"databaseRotation": json.dumps(self.told)} if self.told is not None else {}
        refs = {optional_ref(kind, name): ResolvedRef(told) for kind, name in (there or {"Glance": "glance"}).items()}
        made = plan(
            context(
                self.resource,
                self.spec,
                release=self.release,
                refs=refs,
                children=self.children,
                now=self.now,
                generation=self.generation,
            )
        )
        self.children |= {("Secret", obj["metadata"]["name"]): obj for obj in made.objects}
        return made

    @property
    def order(self) -> dict[str, str]:
        return kube.secret_data(self.children["Secret", "glance-database-rotation"])

    def done(self) -> None:
        """The service has done as it was told."""
        self.told = {"step": "Idle", "order": self.order["at"], "done": self.now.isoformat()}


def told(made: Plan) -> Mapping[str, Verdict]:
    return conditions(made, {step: step.verdict or Verdict(State.READY) for step in made})


def shown(made: Plan) -> str:
    return phase(told(made))


@pytest.mark.proves("CredentialRotation", "spec.intervalDays", "spec.preRotationDays", "spec.gracePeriodDays")
@pytest.mark.proves("CredentialRotation", "status.phase", "status.lastRotation", "status.nextRotation")
@pytest.mark.proves("CredentialRotation", "status.conditions[RotationReady]")
def test_rotation_is_ordered_once_an_interval(release: Release) -> None:
    cloud = Cloud(release, intervalDays=30, preRotationDays=2, gracePeriodDays=3)
    made = cloud.look()
    assert cloud.order == {"since": "2026-01-01T00:00:00Z", "graceDays": "3"}
    assert (made.outcome.wake, shown(made)) == (NOW + 28 * DAY, "Idle")
    assert made.outcome.details["nextRotation"] == "2026-01-29T00:00:00Z"
    cloud.now += 28 * DAY
    assert shown(cloud.look()) == "Pending"
    assert cloud.order["at"] == "2026-01-29T00:00:00Z"
    cloud.now += DAY
    cloud.told = {"step": "Moving", "order": cloud.order["at"], "waits": ["Pod/glance-api-1"]}
    made = cloud.look()
    assert (shown(made), cloud.order["at"]) == ("Moving", "2026-01-29T00:00:00Z")
    assert "waits for Pod/glance-api-1" in str([step.verdict for step in made])
    cloud.done()
    made = cloud.look()
    assert (made.outcome.wake, shown(made)) == (cloud.now + 28 * DAY, "Idle")
    assert made.outcome.details["lastRotation"] == cloud.now.isoformat()
    assert cloud.order["at"] == "2026-01-29T00:00:00Z"


def test_rotation_reports_until_when_the_old_account_stays(release: Release) -> None:
    cloud = Cloud(release, reMint=True, gracePeriodDays=3)
    cloud.look()
    cloud.told = {"step": "Moving", "order": cloud.order["at"], "since": "2026-01-01T00:10:00Z"}
    made = cloud.look()
    assert told(made)["RotationReady"].message.endswith("when no program uses it; not before 2026-01-04 00:10 UTC")
    assert made.outcome.wake == NOW + 3 * DAY + timedelta(minutes=10)
    cloud.told |= {"waits": ["Pod/glance-api-1"]}
    assert "waits for Pod/glance-api-1; not before" in told(cloud.look())["RotationReady"].message
    cloud.now += 4 * DAY
    made = cloud.look()
    assert told(made)["RotationReady"].message.endswith("; waits for Pod/glance-api-1")
    assert made.outcome.wake is None
    cloud.told |= {"order": "2025-12-01T00:00:00Z", "since": "9999-01-01T00:00:00Z"}
    assert "not before" not in told(cloud.look())["RotationReady"].message


def test_both_groups_order_the_same(release: Release) -> None:
    ours = Cloud(release, CREDENTIAL_ROTATION, replaceEvery="83d", keepOldFor="36h")
    theirs = Cloud(release, intervalDays=90, preRotationDays=7, gracePeriodDays=2)
    for now, is_due in ((NOW, False), (NOW + 82 * DAY, False), (NOW + 83 * DAY, True)):
        for cloud in (ours, theirs):
            cloud.now = now
            cloud.look()
        assert ours.order == theirs.order
        assert ("at" in ours.order) == is_due
    ordered = Cloud(release, CREDENTIAL_ROTATION, replaceNow=True)
    ordered.look()
    assert ordered.order["at"]


@pytest.mark.proves("CredentialRotation", "spec.reMint", "status.lastTriggeredGeneration")
def test_rotation_happens_once_for_each_change_that_asks(release: Release) -> None:
    cloud = Cloud(release, reMint=True)
    cloud.generation = 3
    made = cloud.look()
    first = cloud.order["at"]
    assert made.outcome.details["lastTriggeredGeneration"] == 3
    assert shown(made) == "Pending"
    cloud.done()
    cloud.now += DAY
    assert shown(cloud.look()) == "Idle"
    assert cloud.order["at"] == first
    cloud.spec["reMint"], cloud.generation = False, 4
    cloud.look()
    assert cloud.order["at"] == first
    cloud.spec["reMint"], cloud.generation = True, 5
    cloud.look()
    assert cloud.order["at"] > first


@pytest.mark.proves("CredentialRotation", "spec.serviceRef.kind", "spec.serviceRef.name", "status.conditions[Ready]")
def test_nothing_is_ordered_of_who_is_not_there(release: Release) -> None:
    cloud = Cloud(release, reMint=True, intervalDays=1)
    cloud.now += 5 * DAY
    made = cloud.look(Nova="nova")
    assert "at" not in cloud.order
    assert shown(made) == "Pending"
    cloud.told = None
    made = cloud.look()
    assert "at" not in cloud.order
    assert shown(made) == "Failed"
    assert not told(made)["Ready"].ready
    assert "Glance/glance has no generated credential for 'database'" in str([step.verdict for step in made])


@pytest.mark.proves("CredentialRotation", "spec.keystoneService")
def test_a_name_that_two_services_have_is_not_guessed(release: Release) -> None:
    cloud = Cloud(release)
    cloud.spec = {"target": "serviceAccountPassword", "keystoneService": "one"}
    with pytest.raises(SpecError, match="Glance/one and Nova/one share this name; set serviceRef"):
        cloud.look(Glance="one", Nova="one")
    cloud.told = None
    assert "Nova/one has no generated credential" in str([step.verdict for step in cloud.look(Nova="one")])


@pytest.mark.proves("CredentialRotation", "spec.bootstrap", says="does nothing")
def test_a_service_has_its_first_credential_without_being_told(release: Release) -> None:
    asked, other = Cloud(release, bootstrap=True), Cloud(release)
    assert [list(cloud.look().objects) for cloud in (asked, other)] == [list(other.look().objects)] * 2
    assert "at" not in asked.order
    assert "nothing is done" in description("CredentialRotation", "spec.bootstrap")


@pytest.mark.proves("CredentialRotation", "spec.target")
def test_an_application_credential_is_asked_of_a_keystone_that_has_one(release: Release) -> None:
    cloud = Cloud(release)
    cloud.spec = {"target": "adminApplicationCredential", "reMint": True}
    made = cloud.look(Keystone="keystone")
    assert list(cloud.children) == [("Secret", "keystone-application-rotation")]
    assert shown(made) == "Failed"
    assert ("Keystone/keystone has no application credential; set its bootstrap.applicationCredential") in str(
        [step.verdict for step in made]
    )


@pytest.mark.proves("CredentialRotation", "spec.target")
def test_rotation_belongs_to_its_target(release: Release) -> None:
    cloud = Cloud(release)
    cloud.spec = {"target": "fernet"}
    cloud.look(Keystone="keystone")
    assert list(cloud.children) == [("Secret", "keystone-fernet-rotation")]
