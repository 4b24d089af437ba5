"""`backup` lists, takes, verifies and restores backups, and says what keeps it from that."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx2 as httpx
import pytest
import yaml

from openstack_operator.cli.backups import following
from openstack_operator.cli.main import main
from openstack_operator.plan import Object
from openstack_operator.plan.times import time_stamp
from openstack_operator.runtime.kubernetes.client import Client
from tests.unit.cli.backup_api import OTHER_REPOSITORY, REPOSITORY, BackupApi, ago, condition, status

RUNNING = status("Progressing", "DatabasesReady: job runs", condition("ContentsReady"))
DATABASES = [{"kind": "MariaDB", "name": "mariadb", "size": "412Mi"}]
COMPLETE: dict[str, Any] = {
    "completed": ago(hours=8, minutes=30),
    "duration": "45s",
    "size": "412Mi",
    "databases": DATABASES,
    "objects": 143,
    "notIncluded": ["images, volumes and disks of servers"],
}
VERIFIED: dict[str, Any] = {**COMPLETE, "verified": ago(hours=7, minutes=30), "restoreDuration": "1m12s"}


class Answer(NamedTuple):
    """What a command returned and printed."""

    status: int
    out: str
    err: str


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> BackupApi:
    server = BackupApi()

    def connect(context: str | None = None) -> Client:
        del context
        return server.client()

    monkeypatch.setattr(Client, "connect", connect)
    monkeypatch.setattr(following, "_PAUSE", 0)
    return server


@pytest.fixture
def backup(api: BackupApi, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `backup` with these words."""
    del api

    def run(*words: str) -> Answer:
        code = main(["backup", *words, "-n", "openstack"])
        printed = capsys.readouterr()
        # Without the time of each line.
        return Answer(code, re.sub(r"^\d\d:\d\d:\d\d ", "", printed.out, flags=re.MULTILINE), printed.err)

    return run


def test_the_list_has_schedules_and_states_of_backups(api: BackupApi, backup: Any) -> None:
    report = api.schedule(timeZone="Europe/Berlin")["status"]
    owner = [{"kind": "OpenStackBackupSchedule", "name": "nightly", "controller": True}]
    times = {"ownerReferences": owner, "creationTimestamp": ago(hours=9)}
    api.backup("nightly-202601010000", status(**VERIFIED), metadata=times, spec={"verify": True})
    api.backup("by-hand", RUNNING, metadata={"creationTimestamp": ago(hours=3, minutes=30)})
    api.backup("broken", status("JobFailed", "DatabasesReady: no space", stalled=True), metadata={})
    code, out, _ = backup("list")
    assert code == 1
    head, newest, seconds, behind, empty, columns, *rows = out.splitlines()
    assert head == "OpenStackBackupSchedule/nightly: 0 1 * * * (Europe/Berlin), next 2030-01-01T00:00:00Z; Ready"
    assert newest == "  newest backup: nightly-202601010000, 8h old"
    reach = f"from {report['firstRecoverableTime']} to {report['lastRecoverableTime']}"
    assert seconds == f"  a restore goes to any second {reach}"
    assert re.fullmatch(r"  the archive is at most \d+ s behind", behind)
    assert (empty, columns.split()) == ("", ["BACKUP", "SCHEDULE", "AGE", "SIZE", "VERIFIED", "STATE"])
    cells = [re.split(" {2,}", row) for row in rows]
    assert ["by-hand", "no", "running for 3h: Progressing: DatabasesReady: job runs"] in cells
    assert ["nightly-202601010000", "nightly", "8h", "412Mi", "7h ago", "complete"] in cells
    assert ["broken", "no", "failed: JobFailed: DatabasesReady: no space"] in cells


def test_the_list_succeeds_if_all_is_as_it_should_be(api: BackupApi, backup: Any) -> None:
    api.backup("monday", status(**COMPLETE))
    assert backup("list").status == 0
    api.backup("tuesday", status("Waiting", "RestoreVerified: job runs", **COMPLETE), spec={"verify": True})
    code, out, _ = backup("list")
    assert (code, "complete, is being verified" in out) == (1, True)


def test_an_empty_namespace_and_a_missing_right_are_faults(api: BackupApi, backup: Any) -> None:
    assert backup("list").status == 2
    api.forbidden.add("openstackbackups")
    code, _, err = backup("list")
    assert (code, "you may not list" in err) == (2, True)


def test_a_schedule_without_a_usable_archive_says_so(api: BackupApi, backup: Any) -> None:
    live = api.schedule(suspend=True)
    del live["status"]["firstRecoverableTime"]
    out = backup("list").out
    assert "suspended" in out
    assert "a restore cannot use it yet" in out


def test_a_backup_has_the_repository_of_the_schedule(api: BackupApi, backup: Any) -> None:
    api.schedule()
    api.schedule("weekly", repository=OTHER_REPOSITORY)
    code, out, _ = backup("run", "--schedule", "nightly", "--verify")
    assert code == 0
    assert "bucket backups at https://s3.example.org, as OpenStackBackupSchedule/nightly has it" in out
    [body] = api.writes
    assert body["spec"] == {"repository": REPOSITORY, "verify": True}
    # Its name is none of the schedule, which removes those.
    assert re.fullmatch(r"backup-\d{8}-\d{6}", body["metadata"]["name"])
    assert api.managers == {"openstack-operator-cli"}


def test_a_backup_holds_what_those_of_the_schedule_hold(api: BackupApi, backup: Any) -> None:
    include = {"volumes": True, "disks": True}
    api.schedule(include={**include, "incremental": True})
    api.schedule("hourly")
    assert backup("run", "monday", "--schedule", "nightly").status == 0
    assert api.writes[0]["spec"] == {"repository": REPOSITORY, "include": include}
    code, _, err = backup("run", "tuesday")
    assert code == 2
    assert "differ in `include`; name the one" in err
    # A restore takes what a backup holds.
    assert "include" not in backup("restore", "again", "--dry-run", "-n", "new", "--cloud", "openstack").out


def test_the_one_repository_of_all_schedules_needs_no_option(api: BackupApi, backup: Any) -> None:
    assert backup("run", "monday").status == 2
    api.schedule()
    api.schedule("hourly")
    assert backup("run", "monday").status == 0
    api.schedule("weekly", repository=OTHER_REPOSITORY)
    code, _, err = backup("run", "tuesday")
    assert code == 2
    assert "name one of hourly, nightly, weekly with --repository-of" in err
    assert [each["metadata"]["name"] for each in api.writes] == ["monday"]


def test_a_name_of_two_kinds_is_refused_if_repositories_differ(api: BackupApi, backup: Any) -> None:
    api.schedule()
    api.backup("nightly", status(**COMPLETE))
    assert backup("run", "monday", "--repository-of", "nightly").status == 0
    api.schedule(repository=OTHER_REPOSITORY)
    code, _, err = backup("run", "tuesday", "--repository-of", "nightly")
    assert (code, "write osbackupschedule/nightly or osbackup/nightly" in err) == (2, True)
    assert backup("run", "tuesday", "--repository-of", "osbackup/nightly").status == 0
    assert api.writes[-1]["spec"]["repository"] == REPOSITORY
    assert "there is no such schedule or backup" in backup("run", "--repository-of", "daily").err
    assert "name a schedule or a backup" in backup("run", "--repository-of", "nova/nightly").err


def test_a_file_gives_the_repository(api: BackupApi, backup: Any, tmp_path: Path) -> None:
    file = tmp_path / "schedule.yaml"
    resource: Object = {"kind": "OpenStackBackupSchedule", "spec": {"repository": OTHER_REPOSITORY}}
    file.write_text(yaml.safe_dump(resource))
    code, out, _ = backup("run", "monday", "-f", str(file), "--dry-run")
    assert (code, api.writes) == (0, [])
    assert yaml.safe_load(out)["spec"]["repository"] == OTHER_REPOSITORY
    file.write_text(yaml.safe_dump_all([resource, {**resource, "spec": {"repository": REPOSITORY}}]))
    assert "several repositories" in backup("run", "monday", "-f", str(file)).err
    for text in ("kind: Nova", "kind: OpenStackBackup\nspec: 1", "kind: OpenStackBackup\nspec: {repository: 1}", "["):
        file.write_text(text)
        code, _, err = backup("run", "monday", "-f", str(file))
        assert (code, str(file) in err) == (2, True)


def test_names_of_schedules_and_existing_names_are_refused(api: BackupApi, backup: Any) -> None:
    api.schedule()
    code, _, err = backup("run", "nightly-202601020000")
    assert (code, "choose another name" in err, api.writes) == (2, True, [])
    api.backup("monday", status(**COMPLETE))
    code, _, err = backup("run", "monday")
    assert (code, "OpenStackBackup/monday exists already" in err) == (2, True)


def test_waiting_prints_each_part_and_the_result(api: BackupApi, backup: Any) -> None:
    api.schedule()
    runs = condition("DatabasesReady", "Progressing", "job runs")
    waits = condition("ManifestReady", "Waiting", "waits for the databases")
    api.reports = [
        {},
        status("Progressing", "job runs", condition("ContentsReady"), runs, waits),
        httpx.ConnectError("gone"),
        status("Progressing", "job runs", condition("ContentsReady"), runs, waits),
        status("", "", condition("ContentsReady"), condition("DatabasesReady"), **COMPLETE),
    ]
    code, out, err = backup("run", "monday", "--wait")
    assert code == 0
    assert "ConnectError" in err
    _, *lines, result = out.splitlines()
    assert lines == ["ContentsReady: done", "DatabasesReady: Progressing: job runs", "DatabasesReady: done"]
    assert result.endswith(
        "after 45s: MariaDB/mariadb (412Mi), 143 resources and Secrets; not in it: images, volumes and disks of servers"
    )


def test_a_failed_backup_ends_with_its_cause(api: BackupApi, backup: Any) -> None:
    api.schedule()
    api.reports = [RUNNING, status("JobFailed", "DatabasesReady: its log ends: no space", stalled=True)]
    code, _, err = backup("run", "monday", "--wait")
    assert code == 1
    assert "OpenStackBackup/monday failed: JobFailed: DatabasesReady: its log ends: no space" in err


def test_an_interruption_leaves_the_backup_and_says_how_to_follow(api: BackupApi, backup: Any) -> None:
    api.schedule()
    api.reports = [RUNNING, KeyboardInterrupt()]
    code, _, err = backup("run", "monday", "--wait")
    assert code == 2
    assert "OpenStackBackup/monday goes on without this command" in err
    assert "openstack-operator wait osbackup/monday -n openstack --timeout 1d" in err
    api.reports = [RUNNING]
    code, _, err = backup("run", "tuesday", "--wait", "--timeout", "0s")
    assert (code, "not at its end after 0 s" in err) == (1, True)


def test_verification_sets_the_field_and_says_how_long_it_took(api: BackupApi, backup: Any) -> None:
    api.backup("monday", status(**COMPLETE))
    api.reports = [status("Progressing", "RestoreVerified: job runs", **COMPLETE), status(**VERIFIED)]
    code, out, _ = backup("verify", "monday", "--wait")
    assert code == 0
    assert api.objects["openstack", "openstackbackups", "monday"]["spec"]["verify"] is True
    assert "MariaDB/mariadb (412Mi) and the keys of Keystone; the restore took 1m12s" in out
    assert api.managers == {"openstack-operator-cli"}
    # It is not verified twice.
    assert "the restore took 1m12s" in backup("verify", "monday").out
    assert len(api.writes) == 1


def test_a_failed_backup_is_not_verified(api: BackupApi, backup: Any) -> None:
    api.backup("broken", status("TooLate", "not within a day", stalled=True))
    code, _, err = backup("verify", "broken")
    assert (code, "nothing to verify: TooLate: not within a day" in err) == (1, True)
    assert backup("verify", "missing").status == 2
    assert api.writes == []


def test_a_backup_that_cannot_be_used_fails_its_verification(api: BackupApi, backup: Any) -> None:
    api.backup("monday", status(**COMPLETE))
    api.reports = [status("JobFailed", "RestoreVerified: schema nova has no revision", stalled=True, **COMPLETE)]
    code, _, err = backup("verify", "monday", "--wait")
    assert (code, "schema nova has no revision" in err) == (1, True)
    assert "complete, cannot be used: JobFailed" in backup("list").out


def old_cloud(api: BackupApi) -> None:
    """Has a schedule and a backup in the namespace of another cloud."""
    api.schedule(namespace="old")
    api.backup("monday", status(**COMPLETE), namespace="old")


def test_a_restore_takes_the_repository_of_its_backup(api: BackupApi, backup: Any) -> None:
    old_cloud(api)
    api.schedule("weekly", namespace="old", repository=OTHER_REPOSITORY)
    code, out, _ = backup("restore", "again", "--backup", "monday", "--cloud", "old")
    assert code == 0
    assert api.writes[0]["spec"] == {"backup": "monday", "cloud": "old", "repository": REPOSITORY}
    assert "osrestore/again" in out


def test_a_restore_follows_its_conditions_to_the_ready_cloud(api: BackupApi, backup: Any) -> None:
    old_cloud(api)
    parts = [condition(f"{each}Ready") for each in ("Reader", "Contents", "Volumes", "Databases", "Secrets")]
    restored = [{"name": "mariadb", "gtid": "0-1-9", "changes": 17}]
    api.reports = [
        status("Progressing", "", parts[0], condition("ContentsReady", "Waiting", "for the reader")),
        # Parts of a cloud that starts may fail, and are tried again.
        status("JobFailed", "", *parts, condition("ResourcesReady", "JobFailed", "Keystone/keystone"), stalled=True),
        status("", "", *parts, condition("ResourcesReady"), completed=ago(), backup="monday", duration="9m1s")
        | {"restored": restored},
    ]
    moment = ago(hours=1)
    code, out, _ = backup("restore", "again", "--time", moment, "--cloud", "old", "--wait")
    assert code == 0
    assert api.writes[0]["spec"]["pointInTime"] == moment
    lines = out.splitlines()
    assert "ResourcesReady: JobFailed: Keystone/keystone" in lines
    end = "the cloud of monday is Ready after 9m1s, MariaDB/mariadb with 17 changes from the archive"
    assert lines[-1] == f"OpenStackRestore/again: {end}"


def test_a_refused_restore_ends_with_the_operators_words(api: BackupApi, backup: Any) -> None:
    old_cloud(api)
    text = "PersistentVolumeClaim/data-mariadb-server-0 exists already, and is not what the backup holds"
    refusal = condition("VolumesReady", "InvalidSpec", text)
    api.reports = [status("InvalidSpec", f"VolumesReady: {text}", refusal, stalled=True)]
    code, _, err = backup("restore", "--cloud", "old", "--wait")
    assert (code, text in err) == (1, True)


@pytest.mark.parametrize("kind", ["OpenStackControlPlane", "MariaDB", "OpenStackBackupSchedule"])
def test_a_namespace_with_a_cloud_is_refused_before_anything_changes(kind: str, api: BackupApi, backup: Any) -> None:
    old_cloud(api)
    api.put(kind, "cloud", spec={"repository": REPOSITORY})
    code, _, err = backup("restore", "--backup", "monday", "--cloud", "old")
    assert code == 2
    assert f"namespace 'openstack' has {kind}/cloud; restore into a namespace without a cloud" in err
    assert ("for -f, and delete it" in err) is (kind == "OpenStackBackupSchedule")
    assert api.writes == []
    # The manifest may be looked at all the same.
    code, out, err = backup("restore", "--backup", "monday", "--cloud", "old", "--dry-run")
    assert (code, yaml.safe_load(out)["kind"], "without a cloud" in err) == (0, "OpenStackRestore", True)


def test_the_volume_of_a_database_is_a_cloud(api: BackupApi, backup: Any) -> None:
    old_cloud(api)
    # Images may be what is to stay.
    api.put("PersistentVolumeClaim", "glance-images")
    assert backup("restore", "--backup", "monday", "--cloud", "old").status == 0
    api.put("PersistentVolumeClaim", "data-mariadb-server-0", metadata={"labels": {"openstack.k8s.io/kind": "mariadb"}})
    code, _, err = backup("restore", "--backup", "monday", "--cloud", "old")
    assert (code, "PersistentVolumeClaim/data-mariadb-server-0" in err) == (2, True)


def test_a_missing_right_leaves_the_check_to_the_operator(api: BackupApi, backup: Any) -> None:
    api.backup("monday", status(**COMPLETE))
    api.forbidden.update({"novas", "persistentvolumeclaims"})
    code, _, err = backup("restore", "--backup", "monday")
    assert (code, len(api.writes)) == (0, 1)
    assert "by the operator, since you may not list all" in err


@pytest.mark.parametrize("text", ["2026-11-30 08:15", "2026-11-30T08:15:00+01:00", "yesterday", "2026-13-30T08:15:00Z"])
def test_a_time_in_another_form_is_refused(text: str, api: BackupApi, backup: Any) -> None:
    old_cloud(api)
    code, _, err = backup("restore", "--cloud", "old", "--time", text)
    assert (code, f"--time {text}: write a second in UTC, such as 20" in err, api.writes) == (2, True, [])


def test_a_time_that_no_archive_reaches_is_refused(api: BackupApi, backup: Any) -> None:
    old_cloud(api)
    early = ago(days=4)
    code, _, err = backup("restore", "--cloud", "old", "--time", early)
    assert code == 2
    assert f"--time {early}: by OpenStackBackupSchedule/nightly, a restore can go to a second from" in err
    late = time_stamp(datetime.now(UTC) + timedelta(hours=1))
    assert "this is still to come" in backup("restore", "--cloud", "old", "--time", late).err
    live = api.schedule(namespace="old")
    # An archive that stands still; while it works, its status is up to a minute late.
    end = datetime.now(UTC) - timedelta(hours=2)
    live["status"]["lastRecoverableTime"] = time_stamp(end)
    moments = [time_stamp(end + timedelta(seconds=seconds)) for seconds in (60, 59)]
    assert [backup("restore", "--cloud", "old", "--time", moment).status for moment in moments] == [2, 0]
    api.schedule(namespace="old", archive=False)
    err = backup("restore", "--cloud", "old", "--time", ago(hours=2)).err
    assert "has no archive that a restore can use" in err
    assert len(api.writes) == 1


def test_a_wrong_option_of_a_nested_command_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["backup", "restore", "--tme"])
    assert "did you mean --time?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["backup", "lst"])
    assert "did you mean list?" in capsys.readouterr().err


def test_single_schemas_return_to_the_cloud_whose_name_is_confirmed(api: BackupApi, backup: Any) -> None:
    api.schedule()
    api.backup("monday", status(**COMPLETE))
    words = ("restore", "again", "--backup", "monday", "--only", "keystone", "--only", "nova_api")
    code, _, err = backup(*words)
    assert (code, api.writes) == (2, [])
    assert "replaces the schemas keystone, nova_api of the cloud that runs in 'openstack'" in err
    assert "add --confirm openstack" in err
    earlier = [{"name": "keystone", "tables": 50, "rows": 812, "earlier": "keystone_before_0a1b2c3d"}]
    api.reports = [{}, status("", "", completed=ago(), backup="monday", schemas=earlier)]
    code, out, _ = backup(*words, "--database", "mariadb", "--confirm", "openstack", "--wait")
    assert code == 0
    fields = {"backup": "monday", "only": ["keystone", "nova_api"], "database": "mariadb", "confirm": "openstack"}
    assert api.writes[0]["spec"] == {**fields, "repository": REPOSITORY}
    assert "keystone (keystone_before_0a1b2c3d has the data of before)" in out
