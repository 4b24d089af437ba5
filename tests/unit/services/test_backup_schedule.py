"""OpenStackBackupSchedule: which backups begin, which resources stay, and when one is late."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.kube import secret_data
from openstack_operator.plan import Key, Object, Plan, Release, SpecError, State, Verdict
from openstack_operator.services.backup.model import OF_SCHEDULE, SCHEDULE
from openstack_operator.services.backup.schedule import PASSWORD, needs_databases, plan
from openstack_operator.services.backup.schedule_record import history
from openstack_operator.services.backup.schedule_retention import removal
from openstack_operator.testing import context
from tests.planning import objects
from tests.unit.services.test_backup import database, ended, owned

SPEC: dict[str, Any] = {
    "schedule": "0 1 * * *",
    "repository": {"volume": {"claimName": "backups"}, "passwordRef": {"name": "repository"}},
}
SECRETS = {"repository": {"password": "only-for-tests"}}
BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)
FIRST = "nightly-202601020100"


def at(text: str) -> datetime:
    """A time in January 2026: `02 01:00`."""
    return datetime.fromisoformat(f"2026-01-{text}").replace(tzinfo=UTC)


@dataclass
class Cluster:
    """A schedule and what it made, as the cluster has it from one pass to the next."""

    release: Release
    spec: dict[str, Any] = field(default_factory=dict[str, Any])
    children: dict[Key, Object] = field(default_factory=dict[Key, Object])
    pods: list[Object] = field(default_factory=list[Object])
    owner: str = "nightly"

    def context(self, now: datetime) -> Any:
        fields: dict[str, Any] = {"owner": self.owner, "secrets": SECRETS, "now": now, "children": self.children}
        fields |= {"facts": {"databases": [database()]}, "pods": self.pods}
        return context(SCHEDULE, {**SPEC, **self.spec}, release=self.release, **fields)

    def at(self, now: datetime) -> Plan:
        """The plan of a pass, whose objects are there afterwards."""
        made = plan(self.context(now))
        created = {"creationTimestamp": f"{now:%Y-%m-%dT%H:%M:%SZ}", "generation": 1}
        self.children = {
            name: self.children[name] | {"data": obj.get("data")}
            if name in self.children
            else owned({**obj, "metadata": {**created, **obj["metadata"]}})
            for name, obj in objects(made).items()
        }
        return made

    def report(self, name: str, *, completed: str = "", reason: str = "", message: str = "") -> None:
        """Let a backup say how it is."""
        status = "True" if completed else "False"
        condition = {"type": "Ready", "status": status, "reason": reason, "message": message, "observedGeneration": 1}
        stalled = {"type": "Stalled", "status": "True" if reason in {"JobFailed", "TooLate"} else "False"}
        live = self.children["OpenStackBackup", name]
        live["status"] = {"completed": completed or None, "conditions": [condition, stalled]}

    @property
    def backups(self) -> list[str]:
        return sorted(name for kind, name in self.children if kind == "OpenStackBackup")


@pytest.fixture(name="cluster")
def _cluster(release: Release) -> Cluster:
    cluster = Cluster(release)
    cluster.at(BEGIN)
    return cluster


def verdict(made: Plan, name: str = "Backups") -> Verdict:
    (answer,) = [step.verdict for step in made if step.name == name]
    assert answer is not None
    return answer


def jobs(made: Plan) -> list[Object]:
    return [obj for (kind, _), obj in objects(made).items() if kind == "Job"]


def test_a_new_schedule_waits_for_its_next_time(cluster: Cluster) -> None:
    made = cluster.at(at("02 00:59"))
    assert cluster.backups == []
    assert made.outcome.wake == at("02 01:00")
    assert made.outcome.details["nextScheduleTime"] == "2026-01-02T01:00:00Z"
    assert made.outcome.details["lastScheduleTime"] is None
    assert verdict(made).ready


def test_a_backup_begins_at_its_time_once(cluster: Cluster) -> None:
    made = cluster.at(at("02 01:00"))
    assert cluster.backups == [FIRST]
    backup = cluster.children["OpenStackBackup", FIRST]
    assert backup["spec"] == {"repository": SPEC["repository"]}
    assert backup["metadata"]["annotations"] == {OF_SCHEDULE: "nightly"}
    assert made.outcome.details["active"] == FIRST
    assert made.outcome.details["lastScheduleTime"] == "2026-01-02T01:00:00Z"
    for hour in range(2, 24):
        cluster.at(at(f"02 {hour:02}:00"))
    assert cluster.backups == [FIRST]


@pytest.mark.security
@pytest.mark.parametrize("annotations", [{}, {OF_SCHEDULE: "weekly"}])
def test_a_backup_that_the_schedule_did_not_make_is_none(cluster: Cluster, annotations: dict[str, str]) -> None:
    created = "2026-01-02T01:01:00Z"
    cluster.at(at("02 01:00"))
    later = "nightly-202601020101"
    metadata = {"name": later, "creationTimestamp": created, "labels": {}, "annotations": annotations}
    forged = {"kind": "OpenStackBackup", "metadata": metadata, "spec": {"repository": SPEC["repository"]}}
    forged["status"] = {"completed": created}
    cluster.children["OpenStackBackup", later] = forged
    made = cluster.at(at("02 01:02"))
    assert made.outcome.details["lastSuccessfulTime"] is None
    assert made.outcome.details["active"] == FIRST


@pytest.mark.security
def test_the_schedule_does_not_take_over_a_backup_of_its_next_name(cluster: Cluster) -> None:
    """A user made it, with the labels of the schedule's children, a moment before."""
    cluster.at(at("02 00:50"))
    metadata = {"name": FIRST, "creationTimestamp": "2026-01-02T00:56:00Z", "labels": {}}
    forged: Object = {"kind": "OpenStackBackup", "metadata": metadata, "spec": {"repository": SPEC["repository"]}}
    cluster.children["OpenStackBackup", FIRST] = forged
    for minute in ("00", "01"):
        made = cluster.at(at(f"02 01:{minute}"))
        cluster.children["OpenStackBackup", FIRST] = forged
        assert ("OpenStackBackup", FIRST) not in objects(made)
        assert made.outcome.details["active"] is None
        assert verdict(made).message.endswith(f"since {FIRST} exists, which a user made; delete it")


def test_the_last_backup_stays_one_of_the_schedule_without_its_annotation(cluster: Cluster) -> None:
    """An earlier version of the operator removes it."""
    cluster.at(at("02 01:00"))
    cluster.report(FIRST, completed="2026-01-02T01:10:00Z")
    cluster.at(at("02 01:11"))
    del cluster.children["OpenStackBackup", FIRST]["metadata"]["annotations"]
    made = cluster.at(at("02 01:12"))
    assert ("OpenStackBackup", FIRST) in objects(made)


@pytest.mark.security
def test_a_later_backup_with_the_name_of_the_last_one_is_foreign(cluster: Cluster) -> None:
    """A user deletes the resource, and makes another one."""
    cluster.at(at("02 01:00"))
    cluster.report(FIRST, completed="2026-01-02T01:10:00Z")
    cluster.at(at("02 01:11"))
    metadata = {"name": FIRST, "creationTimestamp": "2026-01-02T01:20:00Z", "labels": {}}
    cluster.children["OpenStackBackup", FIRST] |= {"metadata": metadata}
    assert ("OpenStackBackup", FIRST) not in objects(cluster.at(at("02 01:21")))


def test_a_backup_of_an_earlier_operator_belongs_to_the_schedule(release: Release) -> None:
    cluster = Cluster(release)
    metadata = {"name": FIRST, "creationTimestamp": "2026-01-02T01:00:00Z", "labels": {}}
    earlier: Object = {"kind": "OpenStackBackup", "metadata": metadata, "spec": {"repository": SPEC["repository"]}}
    earlier["status"] = {"completed": "2026-01-02T01:10:00Z"}
    cluster.children["OpenStackBackup", FIRST] = earlier
    for hour in ("05", "06"):
        made = cluster.at(at(f"02 {hour}:00"))
        assert made.outcome.details["lastBackup"] == FIRST
        assert cluster.backups == [FIRST]


def test_a_backup_includes_what_its_schedule_says(cluster: Cluster) -> None:
    cluster.spec = {"include": {"images": False, "volumes": True, "incremental": True, "disks": True}}
    cluster.at(at("02 01:00"))
    assert cluster.children["OpenStackBackup", FIRST]["spec"]["include"] == cluster.spec["include"]


@pytest.mark.security
@pytest.mark.parametrize(
    ("name", "created", "claim"),
    [
        ("nightly-203001010000", "2026-01-01T12:00:00Z", "backups"),
        (FIRST, "2026-01-02T00:30:00Z", "backups"),
        (FIRST, "2026-01-02T01:00:00Z", "of-somebody-else"),
    ],
)
def test_a_backup_with_the_name_of_one_of_the_schedule_is_none(
    cluster: Cluster, name: str, created: str, claim: str
) -> None:
    repository = {**SPEC["repository"], "volume": {"claimName": claim}}
    metadata = {"name": name, "creationTimestamp": created, "labels": {}}
    forged = {"kind": "OpenStackBackup", "metadata": metadata, "spec": {"repository": repository}}
    forged["status"] = {"completed": created}
    cluster.children["OpenStackBackup", name] = forged
    made = cluster.at(at("02 01:00"))
    assert made.outcome.details["active"] == (None if name == FIRST else FIRST)
    assert made.outcome.details["lastSuccessfulTime"] is None


def test_a_backup_whose_record_was_not_written_is_not_made_again(cluster: Cluster) -> None:
    before = dict(cluster.children)
    cluster.at(at("02 01:00"))
    cluster.children["ConfigMap", "nightly-record"] = before["ConfigMap", "nightly-record"]
    cluster.at(at("02 01:01"))
    assert cluster.backups == [FIRST]


def test_the_record_is_written_after_the_backup(cluster: Cluster) -> None:
    (step,) = [step for step in cluster.at(at("02 01:00")) if step.name == "Record"]
    assert [each.name for each in step.after] == ["Backups"]


def test_no_backup_begins_beside_another_one(cluster: Cluster) -> None:
    cluster.spec = {"schedule": "0 * * * *"}
    cluster.at(at("02 00:30"))
    cluster.at(at("02 01:00"))
    made = cluster.at(at("02 02:00"))
    assert cluster.backups == [FIRST]
    assert verdict(made).ready
    assert verdict(made).message == f"the backup of 2026-01-02 02:00 UTC was left out, since {FIRST} still ran"
    cluster.report(FIRST, completed="2026-01-02T02:30:00Z")
    cluster.at(at("02 02:31"))
    assert cluster.backups == [FIRST]
    made = cluster.at(at("02 03:00"))
    assert cluster.backups == [FIRST, "nightly-202601020300"]
    assert verdict(made).message == ""


def test_of_missed_times_the_newest_is_made_up_for(cluster: Cluster) -> None:
    cluster.at(at("06 09:30"))
    assert cluster.backups == ["nightly-202601060100"]


def test_a_time_that_was_missed_for_too_long_is_left_out(cluster: Cluster) -> None:
    cluster.spec = {"startingDeadlineSeconds": 600}
    cluster.at(at("02 00:00"))
    made = cluster.at(at("02 01:11"))
    assert cluster.backups == []
    assert verdict(made).message == (
        "the backup of 2026-01-02 01:00 UTC was left out, since the operator could not start it within 600 s"
    )
    cluster.at(at("03 01:10"))
    assert cluster.backups == ["nightly-202601030100"]


def test_a_suspended_schedule_starts_nothing_and_makes_up_for_nothing(cluster: Cluster) -> None:
    cluster.spec = {"suspend": True}
    made = cluster.at(at("02 00:00"))
    assert made.outcome.details["nextScheduleTime"] is None
    assert made.outcome.wake is None
    assert verdict(cluster.at(at("05 12:00"))).message.startswith("spec.suspend is true")
    cluster.spec = {}
    made = cluster.at(at("05 12:01"))
    assert cluster.backups == []
    assert made.outcome.details["nextScheduleTime"] == "2026-01-06T01:00:00Z"
    assert verdict(made).ready


def test_a_new_schedule_has_missed_none_of_its_times(cluster: Cluster) -> None:
    cluster.spec = {"schedule": "0 11 * * *"}
    cluster.at(at("02 00:00"))
    assert cluster.backups == []


def test_times_are_those_of_the_time_zone(cluster: Cluster) -> None:
    cluster.spec = {"timeZone": "Asia/Tokyo"}
    made = cluster.at(BEGIN)
    assert made.outcome.wake == at("01 16:00")
    cluster.at(at("01 16:00"))
    assert cluster.backups == ["nightly-202601011600"]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"timeZone": "Europe/Atlantis"}, "spec.timeZone"),
        ({"schedule": "0 0 30 2 *"}, "spec.schedule"),
    ],
)
def test_a_schedule_without_times_is_refused(cluster: Cluster, spec: dict[str, Any], path: str) -> None:
    cluster.spec = spec
    with pytest.raises(SpecError) as error:
        cluster.at(BEGIN)
    assert error.value.path == path


def test_few_resources_stay_and_their_backups_with_them(cluster: Cluster) -> None:
    cluster.spec = {"successfulBackupsHistoryLimit": 2, "failedBackupsHistoryLimit": 1}
    for day in range(2, 9):
        cluster.at(at(f"{day:02} 01:00"))
        name = f"nightly-2026010{day}0100"
        if day % 2:
            cluster.report(name, reason="TooLate")
        else:
            cluster.report(name, completed=f"2026-01-0{day}T01:10:00Z")
    made = cluster.at(at("08 01:20"))
    assert cluster.backups == [f"nightly-2026010{day}0100" for day in (6, 7, 8)]
    assert made.outcome.details["lastBackup"] == "nightly-202601080100"
    cluster.spec = {"successfulBackupsHistoryLimit": 0, "failedBackupsHistoryLimit": 0}
    made = cluster.at(at("08 01:30"))
    assert cluster.backups == []
    assert made.outcome.details["lastBackup"] == "nightly-202601080100"
    assert made.outcome.details["lastSuccessfulTime"] == "2026-01-08T01:10:00Z"


def test_a_backup_that_never_began_makes_room_after_two_days(cluster: Cluster) -> None:
    cluster.at(at("02 01:00"))
    cluster.report(FIRST, reason="Waiting", message="waiting for a ready member of MariaDB/mariadb")
    cluster.at(at("03 01:00"))
    assert cluster.backups == [FIRST]
    cluster.at(at("04 01:00"))
    assert cluster.backups == ["nightly-202601040100"]


def test_a_backup_that_fails_is_named_with_its_reason(cluster: Cluster) -> None:
    cluster.at(at("02 01:00"))
    cluster.report(FIRST, reason="JobFailed", message="job x failed; its log ends: the bucket refuses the account")
    answer = verdict(cluster.at(at("02 01:20")))
    assert (answer.state, answer.reason, answer.serves) == (State.FAILED, "BackupFailed", False)
    assert answer.message == (
        f"OpenStackBackup/{FIRST}: job x failed; its log ends: the bucket refuses the account; there is none yet"
    )
    cluster.report(FIRST, completed="2026-01-02T02:00:00Z")
    assert verdict(cluster.at(at("02 02:01"))).ready


def test_a_late_backup_is_named_with_what_it_waits_for(cluster: Cluster) -> None:
    cluster.at(at("02 01:00"))
    cluster.report(FIRST, completed="2026-01-02T01:10:00Z")
    second = "nightly-202601030100"
    cluster.at(at("03 01:00"))
    cluster.report(second, reason="Waiting", message="waiting for a ready member of MariaDB/mariadb")
    made = cluster.at(at("03 06:59"))
    assert verdict(made).ready
    assert made.outcome.wake == at("03 07:00")
    answer = verdict(cluster.at(at("03 07:00")))
    # Ready follows from it, though the pods of an archive run.
    assert (answer.state, answer.reason, answer.serves) == (State.FAILED, "BackupLate", False)
    assert answer.message == (
        "no backup of 2026-01-03 01:00 UTC or later is complete, 6h after that time;"
        f" the newest one, {FIRST}, is of 2026-01-02 01:00 UTC;"
        f" OpenStackBackup/{second}: waiting for a ready member of MariaDB/mariadb"
    )


def test_the_password_is_to_be_stored_elsewhere_until_the_user_says_so(cluster: Cluster) -> None:
    answer = cluster.at(BEGIN).outcome.extra_conditions[PASSWORD]
    assert not answer.ready
    assert "'password' of Secret 'repository'" in answer.message
    cluster.spec = {"passwordKeptOutside": True}
    assert cluster.at(BEGIN).outcome.extra_conditions[PASSWORD].ready


def retained(cluster: Cluster, **counts: Any) -> Plan:
    """The plan after the first backup of a schedule with retention."""
    cluster.spec = {"retention": counts or {"daily": 7}}
    cluster.at(at("02 01:00"))
    cluster.report(FIRST, completed="2026-01-02T01:10:00Z")
    return cluster.at(at("02 01:11"))


def test_no_backup_is_removed_unless_the_user_says_which(cluster: Cluster) -> None:
    cluster.at(at("02 01:00"))
    cluster.report(FIRST, completed="2026-01-02T01:10:00Z")
    assert not jobs(cluster.at(at("02 01:11")))
    assert not needs_databases(cluster.context(at("02 01:12")))


def test_old_backups_are_removed_after_a_complete_one(cluster: Cluster) -> None:
    made = retained(cluster, daily=7, keepLast=2)
    [job] = jobs(made)
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "mariadb:11.8"
    run = json.loads(secret_data(objects(made)["Secret", "nightly-runs"])["retention.json"])
    names = {"cloud": "openstack", "schedule": "nightly", "prefix": "nightly", "newest": FIRST}
    assert run == {**names, "counts": {"daily": 7, "last": 2}}
    assert kube.is_dispensable(job)
    cluster.pods = [ended(job, {"backups": 5, "removed": 1, "refused": ""})]
    made = cluster.at(at("02 01:12"))
    assert not jobs(made)
    assert verdict(made, "Retention").message == "old backups removed: 1"
    assert made.outcome.details["backups"] == 5
    cluster.pods = []
    made = cluster.at(at("02 01:13"))
    assert not jobs(made)
    assert made.outcome.details["backups"] == 5


def test_each_count_of_the_spec_is_one_of_the_removal(cluster: Cluster) -> None:
    made = retained(cluster, keepLast=1, hourly=2, daily=3, weekly=4, monthly=5)
    run = json.loads(secret_data(objects(made)["Secret", "nightly-runs"])["retention.json"])
    assert run["counts"] == {"last": 1, "hourly": 2, "daily": 3, "weekly": 4, "monthly": 5}


def test_the_storage_of_backups_is_that_of_their_removal(cluster: Cluster) -> None:
    password = {"passwordRef": {"name": "repository"}}
    sources: list[Object] = []
    for kind, storage in (
        ("persistentVolumeClaim", {"volume": {"claimName": "backups"}}),
        ("nfs", {"nfs": "files.example.org:/srv/backups"}),
    ):
        cluster.children, cluster.spec = {}, {"repository": {**storage, **password}}
        cluster.at(BEGIN)
        cluster.spec = {**cluster.spec, "retention": {"daily": 7}}
        cluster.at(at("02 01:00"))
        assert cluster.children["OpenStackBackup", FIRST]["spec"]["repository"] == {**storage, **password}
        cluster.report(FIRST, completed="2026-01-02T01:10:00Z")
        [job] = jobs(cluster.at(at("02 01:11")))
        volumes = job["spec"]["template"]["spec"]["volumes"]
        sources += [volume[kind] for volume in volumes if volume["name"] == "storage"]
    assert sources == [{"claimName": "backups"}, {"server": "files.example.org", "path": "/srv/backups"}]


def test_a_removal_goes_on_while_another_backup_ends(cluster: Cluster) -> None:
    first = jobs(retained(cluster))
    cluster.at(at("03 01:00"))
    cluster.report("nightly-202601030100", completed="2026-01-03T01:10:00Z")
    assert jobs(cluster.at(at("03 01:11"))) == first
    cluster.pods = [ended(first[0], {"backups": 5, "removed": 0})]
    cluster.at(at("03 01:12"))
    assert needs_databases(cluster.context(at("03 01:13")))
    [second] = jobs(cluster.at(at("03 01:13")))
    assert second["metadata"]["name"] != first[0]["metadata"]["name"]


def test_a_login_that_may_not_delete_is_named_with_what_to_do(cluster: Cluster) -> None:
    [job] = jobs(retained(cluster))
    cluster.pods = [ended(job, {"backups": 5, "removed": 0, "refused": "Access Denied"})]
    made = cluster.at(at("02 01:12"))
    answer = verdict(made, "Retention")
    assert answer.reason == "DeletionRefused"
    assert "old backups stay: Access Denied; allow the login to delete objects" in answer.message
    assert verdict(made).ready


def test_a_suspended_schedule_removes_nothing(cluster: Cluster) -> None:
    cluster.spec = {"retention": {"daily": 7}}
    cluster.at(at("02 01:00"))
    cluster.report(FIRST, completed="2026-01-02T01:10:00Z")
    cluster.spec["suspend"] = True
    assert not jobs(cluster.at(at("02 01:11")))


@pytest.mark.security
def test_another_login_deletes_and_none_is_on_a_command_line(release: Release) -> None:
    bucket = {
        "endpoint": "https://s3.example.org",
        "bucket": "backups",
        "accessKeyRef": {"name": "writer", "key": "access"},
        "secretKeyRef": {"name": "writer", "key": "secret"},
    }
    repository = {"s3": bucket, "passwordRef": {"name": "repository"}}
    retention = {
        "daily": 7,
        "accessKeyRef": {"name": "remover", "key": "access"},
        "secretKeyRef": {"name": "remover", "key": "secret"},
    }
    secrets = {
        **SECRETS,
        "writer": {"access": "writer", "secret": "only-for-writing"},
        "remover": {"access": "remover", "secret": "only-for-removing"},
    }
    spec: Mapping[str, Any] = {"schedule": "0 1 * * *", "repository": repository, "retention": retention}
    made = plan(context(SCHEDULE, spec, release=release, owner="nightly", secrets=secrets))
    # Pods that archive run always, and need no right to delete.
    for name, login in (("removal", ("remover", "only-for-removing")), ("repository", ("writer", "only-for-writing"))):
        data = secret_data(objects(made)["Secret", f"nightly-{name}"])
        assert (data["accessKey"], data["secretKey"]) == login
    texts = [json.dumps(obj) for (kind, _), obj in objects(made).items() if kind != "Secret"]
    assert texts
    assert not any("only-for" in text for text in texts)


def test_a_long_name_leaves_room_for_a_time(release: Release) -> None:
    cluster = Cluster(release, owner="a" * 70)
    cluster.at(BEGIN)
    cluster.at(at("02 01:00"))
    [name] = cluster.backups
    assert len(name) == 63
    cluster.report(name, completed="2026-01-02T01:10:00Z")
    assert cluster.at(at("02 01:11")).outcome.details["lastBackup"] == name


def test_a_clock_that_was_put_back_stops_no_schedule(cluster: Cluster) -> None:
    cluster.at(BEGIN + timedelta(days=3650))
    cluster.children = {name: live for name, live in cluster.children.items() if name[0] != "OpenStackBackup"}
    cluster.at(at("02 01:30"))
    cluster.at(at("03 01:00"))
    assert cluster.backups == ["nightly-202601030100"]


def test_a_schedule_says_whether_its_backups_can_be_restored(release: Release) -> None:
    cluster = Cluster(release, spec={"verify": True})
    # Before there is a backup, the schedule is Ready.
    answer = verdict(cluster.at(BEGIN), "RestoreVerified")
    assert (answer.ready, answer.message) == (True, "there is no backup yet that could be verified")
    cluster.at(at("02 01:00"))
    cluster.report(FIRST, completed="2026-01-02T01:04:00Z")
    assert not verdict(cluster.at(at("02 01:05")), "RestoreVerified").ready
    cluster.children["OpenStackBackup", FIRST]["status"]["verified"] = "2026-01-02T01:06:00Z"
    answer = verdict(cluster.at(at("02 01:07")), "RestoreVerified")
    assert (answer.ready, answer.message) == (True, f"{FIRST} was restored and used at 2026-01-02 01:06 UTC")
    cluster.at(at("03 01:00"))
    second = "nightly-202601030100"
    cluster.report(second, completed="2026-01-03T01:04:00Z")
    cluster.children["OpenStackBackup", second]["status"]["conditions"] = [
        {"type": "Ready", "status": "False", "reason": "JobFailed", "message": "no keys", "observedGeneration": 1},
        {"type": "Stalled", "status": "True"},
    ]
    answer = verdict(cluster.at(at("03 01:07")), "RestoreVerified")
    assert answer.state is State.FAILED
    assert answer.message == f"the newest backup cannot be restored: OpenStackBackup/{second}: no keys"


def test_old_backups_stay_until_the_newest_is_verified(cluster: Cluster) -> None:
    cluster.spec = {"retention": {"daily": 7}, "verify": True}
    cluster.at(at("02 01:00"))
    cluster.report(FIRST, completed="2026-01-02T01:04:00Z")
    made = cluster.at(at("02 01:05"))
    assert not jobs(made)
    assert "until the newest one is verified" in verdict(made, "Retention").message
    # Its resource stays, so that it can be verified.
    assert cluster.backups == [FIRST]
    cluster.children["OpenStackBackup", FIRST]["status"]["verified"] = "2026-01-02T01:06:00Z"
    [job] = jobs(cluster.at(at("02 01:07")))
    volumes = {volume["name"]: volume for volume in job["spec"]["template"]["spec"]["volumes"]}
    assert volumes["repository"]["secret"]["secretName"] == "nightly-removal"


def test_a_backup_is_verified_although_no_resource_is_to_stay(cluster: Cluster) -> None:
    cluster.spec = {"verify": True, "successfulBackupsHistoryLimit": 0}
    cluster.at(at("02 01:00"))
    cluster.report(FIRST, completed="2026-01-02T01:04:00Z")
    cluster.at(at("02 01:05"))
    assert cluster.backups == [FIRST]
    cluster.children["OpenStackBackup", FIRST]["status"]["verified"] = "2026-01-02T01:06:00Z"
    cluster.at(at("02 01:07"))
    assert cluster.backups == []
    # The record knows it.
    answer = verdict(cluster.at(at("02 01:08")), "RestoreVerified")
    assert (answer.ready, answer.message) == (True, f"{FIRST} was restored and used at 2026-01-02 01:06 UTC")


def test_a_removed_resource_leaves_the_record_of_its_verification(cluster: Cluster) -> None:
    cluster.spec = {"verify": True}
    for day in ("02", "03"):
        name = f"nightly-202601{day}0100"
        cluster.at(at(f"{day} 01:00"))
        cluster.report(name, completed=f"2026-01-{day}T01:04:00Z")
        cluster.children["OpenStackBackup", name]["status"]["verified"] = f"2026-01-{day}T01:06:00Z"
        cluster.at(at(f"{day} 01:07"))
    del cluster.children["OpenStackBackup", "nightly-202601030100"]
    answer = verdict(cluster.at(at("03 01:08")), "RestoreVerified")
    assert answer.message == "nightly-202601030100 was restored and used at 2026-01-03 01:06 UTC"


def test_a_backup_without_a_verification_goes_all_the_same(cluster: Cluster) -> None:
    """It began before the schedule asked for it."""
    cluster.spec = {"successfulBackupsHistoryLimit": 0}
    cluster.at(at("02 01:00"))
    cluster.spec = {"successfulBackupsHistoryLimit": 0, "verify": True}
    cluster.report(FIRST, completed="2026-01-02T01:04:00Z")
    cluster.at(at("02 01:05"))
    assert cluster.backups == []


def test_a_removal_that_failed_gives_way_to_that_of_a_newer_backup(cluster: Cluster) -> None:
    """Its backup was perhaps removed by hand, so that no try of it can succeed."""
    [job] = jobs(retained(cluster))
    cluster.at(at("03 01:00"))
    second = "nightly-202601030100"
    cluster.report(second, completed="2026-01-03T01:10:00Z")
    name = ("Job", job["metadata"]["name"])
    [same] = jobs(cluster.at(at("03 01:11")))
    assert same["metadata"]["name"] == name[1]
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    cluster.children[name] |= {"status": {"conditions": [failed]}}
    made = cluster.at(at("03 01:12"))
    run = json.loads(secret_data(objects(made)["Secret", "nightly-runs"])["retention.json"])
    assert run["newest"] == second


def test_a_clock_that_was_ahead_does_not_stop_a_schedule(cluster: Cluster) -> None:
    cluster.at(at("02 01:00"))
    cluster.report(FIRST, completed="2026-01-02T01:04:00Z")
    made = cluster.at(at("02 01:05"))
    record = json.loads(cluster.children["ConfigMap", "nightly-record"]["data"]["record.json"])
    record["success"] |= {"name": "nightly-203101020100", "at": "2031-01-02T01:00:00Z"}
    cluster.children["ConfigMap", "nightly-record"]["data"] = {"record.json": json.dumps(record)}
    assert made.outcome.details["lastBackup"] == FIRST
    assert cluster.at(at("02 01:06")).outcome.details["lastBackup"] == FIRST


def test_a_removal_says_from_where_a_restore_can_go_on(cluster: Cluster) -> None:
    retained(cluster, daily=1)
    archive = {"merged": 7, "removed": 3, "foreign": 2, "first": "2026-01-05T01:02:00Z"}
    result = {"backups": 2, "removed": 1, "oldest": "2025-12-01T01:02:00Z", "archive": archive}
    past = replace(history(cluster.context(at("06 01:00"))), stored={"retention": {FIRST: result}})
    made = removal(cluster.context(at("06 01:00")), past, is_usable=True)
    assert made.first_recoverable == at("05 01:02")
    assert made.verdict.message.startswith(
        "old backups removed: 1; objects of the archive merged: 7; objects of the archive removed: 3; 2 objects in the"
    )


def test_an_archive_without_retention_says_that_it_grows(cluster: Cluster) -> None:
    cluster.spec = {"archive": True}
    assert verdict(cluster.at(at("02 00:10")), "Retention").message == (
        "spec.retention is unset: nothing of the archive is merged or removed"
    )
