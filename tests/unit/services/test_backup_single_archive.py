"""Schedules with an archive in one namespace: one archives, the others say which, and hand over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Plan, Release, State, Verdict
from openstack_operator.services.backup import schedule
from openstack_operator.services.backup.archives import SOON
from openstack_operator.services.backup.model import SCHEDULE
from openstack_operator.testing import context
from tests.planning import objects
from tests.unit.services import test_backup as backups

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SPEC: dict[str, Any] = backups.SPEC | {"schedule": "0 1 * * *", "archive": True}


def sibling(name: str, created: str, *programs: str, deleted: bool = False, **spec: Any) -> dict[str, Any]:
    """What a plan knows of a schedule of its namespace."""
    fields = {"spec": SPEC | spec, "deleted": deleted, "programs": list(programs)}
    return {"name": name, "created": f"2026-01-01T00:00:{created}Z", **fields}


def planned(release: Release, name: str, siblings: Sequence[Any], children: Any = None, **spec: Any) -> Plan:
    facts = {"databases": [backups.database()], "reports": {}, "siblings": siblings}
    fields: dict[str, Any] = {"owner": name, "secrets": backups.SECRETS, "facts": facts, "now": NOW}
    return schedule.plan(context(SCHEDULE, SPEC | spec, release=release, children=children or {}, **fields))


def programs(made: Plan) -> set[str]:
    """The Deployments of a plan."""
    return {name for kind, name in objects(made) if kind == "Deployment"}


def verdict(made: Plan) -> Verdict:
    """What a plan without programs says of the archive."""
    [answer] = [step.verdict for step in made if step.name == "Archive"]
    assert answer
    assert not programs(made)
    # A change of another resource wakes no pass of this one.
    assert made.outcome.wake == NOW + SOON
    return answer


def test_the_older_of_two_schedules_archives(release: Release) -> None:
    two = [sibling("hourly", "02"), sibling("nightly", "01", "archive-mariadb")]
    assert programs(planned(release, "nightly", two)) == {"nightly-archive-mariadb"}
    younger = verdict(planned(release, "hourly", two))
    assert (younger.state, younger.reason) == (State.FAILED, "ArchivedElsewhere")
    assert "OpenStackBackupSchedule/nightly archives this namespace" in younger.message
    assert "it is older. Set spec.archive to false in one of the two" in younger.message


def test_of_two_of_one_second_the_name_decides(release: Release) -> None:
    two = [sibling("nightly", "01"), sibling("hourly", "01")]
    assert programs(planned(release, "hourly", two)) == {"hourly-archive-mariadb"}
    assert "OpenStackBackupSchedule/hourly" in verdict(planned(release, "nightly", two)).message


def test_a_suspended_schedule_hands_over_and_archives_alone(release: Release) -> None:
    two = [sibling("hourly", "02"), sibling("nightly", "01", suspend=True)]
    assert programs(planned(release, "hourly", two)) == {"hourly-archive-mariadb"}
    older = verdict(planned(release, "nightly", two, suspend=True))
    assert "OpenStackBackupSchedule/hourly archives this namespace" in older.message
    assert "it is not suspended" in older.message
    assert programs(planned(release, "nightly", two[1:], suspend=True)) == {"nightly-archive-mariadb"}
    both = [sibling("hourly", "02", suspend=True), two[1]]
    assert programs(planned(release, "nightly", both, suspend=True)) == {"nightly-archive-mariadb"}


def test_a_schedule_without_an_archive_concerns_no_other(release: Release) -> None:
    two = [sibling("hourly", "02"), sibling("nightly", "01", archive=False), sibling("weekly", "00", archive=None)]
    assert programs(planned(release, "hourly", two)) == {"hourly-archive-mariadb"}


@pytest.mark.parametrize("deleted", [True, False])
def test_an_heir_waits_until_the_programs_before_it_have_ended(release: Release, *, deleted: bool) -> None:
    """Those of a schedule that is being deleted, or whose archive was turned off."""
    last = sibling("nightly", "01", "archive-mariadb", "retention", deleted=deleted, archive=False)
    heir = verdict(planned(release, "hourly", [sibling("hourly", "02"), last]))
    assert heir.state is State.WAITING
    assert "waits until the programs of OpenStackBackupSchedule/nightly that archive have ended" in heir.message
    ended = sibling("nightly", "01", "retention", deleted=deleted, archive=False)
    assert programs(planned(release, "hourly", [sibling("hourly", "02"), ended])) == {"hourly-archive-mariadb"}


def test_a_schedule_that_archives_goes_on_beside_programs_that_end(release: Release) -> None:
    """Two that archived before there was one for a namespace, and one that is being deleted."""
    alone = planned(release, "nightly", [sibling("nightly", "01")])
    children = {key: backups.owned(obj) for key, obj in objects(alone).items()}
    siblings = [
        sibling("nightly", "01", "archive-mariadb"),
        sibling("hourly", "02", "archive-mariadb"),
        sibling("weekly", "00", "archive-mariadb", deleted=True),
    ]
    assert programs(planned(release, "nightly", siblings, children)) == {"nightly-archive-mariadb"}


def test_a_long_name_is_no_other_schedule(release: Release) -> None:
    name = "a" * 70
    own = [sibling(name, "01"), sibling(kube.fitting(name), "", "archive-mariadb", deleted=True)]
    assert len(programs(planned(release, name, own))) == 1


def test_an_archive_of_before_does_not_reach_over_another_one(release: Release) -> None:
    """Changes of meanwhile are perhaps in another repository."""
    two = [sibling("hourly", "02"), sibling("nightly", "01")]
    made = planned(release, "hourly", two)
    assert made.outcome.details["firstRecoverableTime"] is None
    assert made.outcome.details["lastRecoverableTime"] is None
