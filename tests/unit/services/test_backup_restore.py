"""OpenStackRestore: data first, then Secrets, then resources; and what is refused."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from openstack_operator.kube import HANDED_OVER, secret_data
from openstack_operator.plan import Object, Plan, Release, SpecError, Step, key
from openstack_operator.services.backup.model import RESTORE
from openstack_operator.services.backup.restore import plan, served
from openstack_operator.testing import NOW, context
from tests.planning import objects

SPEC: dict[str, Any] = {"repository": {"volume": {"claimName": "backups"}, "passwordRef": {"name": "repository"}}}
SECRETS = {"repository": {"password": "only-for-tests"}}
OURS = "openstack.k8s.io/v1alpha1"
CLOUD = {"apiVersion": OURS, "kind": "OpenStackControlPlane", "metadata": {"name": "cloud"}, "spec": {}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keystone-fernet"}, "data": {"0": "a2V5"}}
SIZE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "8Gi"}}}
CLAIM: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data-mariadb-server-0"},
    "spec": SIZE,
}
ENTRY = {
    "name": "mariadb",
    "snapshot": "4f2a",
    "server": "11.8.2-MariaDB",
    "gtid": "0-7-12",
    "claim": CLAIM,
    "image": {},
}
MANIFEST = {"format": 1, "backup": "monday", "taken": "2025-12-31T12:00:00Z", "databases": [ENTRY]}
FACTS = {"manifest": MANIFEST, "contents": {"format": 1, "objects": [CLOUD, SECRET]}}
_KINDS = ("OpenStackBackupSchedule", "OpenStackControlPlane", "OpenStackRestore")
KINDS = frozenset({*((OURS, kind) for kind in _KINDS), ("v1", "Secret"), ("v1", "ConfigMap")})


def planned(release: Release, spec: Object | None = None, **changes: Any) -> Plan:
    """Return a plan; with the facts of a backup the one after the operator has stored what it read."""
    fields: dict[str, Any] = {"owner": "fire", "secrets": SECRETS, "kinds": KINDS, **changes}
    made = plan(context(RESTORE, spec or SPEC, release=release, **fields))
    contents = objects(made).get(("Secret", "fire-contents"))
    if "facts" not in changes or contents is None:
        return made
    fields["children"] = {key(contents): owned(contents), **fields.get("children", {})}
    return plan(context(RESTORE, spec or SPEC, release=release, **fields))


def restored(release: Release, **changes: Any) -> Plan:
    """Return the plan once the pods of all jobs have said that they filled their volumes."""
    made = objects(planned(release, **changes))
    jobs = [obj for (kind, _), obj in made.items() if kind == "Job"]
    return planned(release, **changes, pods=[ended(job, {"schemas": ["keystone"]}) for job in jobs])


def ended(job: Object, result: Object) -> Object:
    """Return the pod of a job that has succeeded."""
    terminated = {"exitCode": 0, "message": json.dumps(result)}
    return {
        "metadata": {"name": "pod", **job["spec"]["template"]["metadata"]},
        "status": {"containerStatuses": [{"name": "main", "state": {"terminated": terminated}}]},
    }


def owned(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [{"controller": True, "uid": "uid-1"}]}}


def step_of(made: Plan, obj: Object) -> Step:
    return next(step for step in made if key(obj) in map(key, step.objects))


def needs(step: Step) -> set[str]:
    """Return the names of all steps before this one."""
    return {name for each in step.after for name in (each.name, *needs(each))}


def test_a_reader_serves_the_backup_to_the_operator_alone(release: Release) -> None:
    made = planned(release)
    channel = secret_data(objects(made)["Secret", "fire-channel"])
    assert channel.keys() == {"ca.crt", "tls.crt", "tls.key", "token"}
    children = {("Secret", "fire-channel"): objects(made)["Secret", "fire-channel"]}
    ctx = context(RESTORE, SPEC, release=release, owner="fire", children=children, pods=[{"metadata": {"name": "p"}}])
    source = served(ctx)
    assert source is not None
    assert source.url == "https://fire-contents.openstack.svc.cluster.local:8443/contents"
    assert (source.authority, source.token) == (channel["ca.crt"], channel["token"])
    again = planned(release, children=children)
    assert objects(again)["Secret", "fire-channel"] == objects(made)["Secret", "fire-channel"]


def test_data_come_before_secrets_and_these_before_resources(release: Release) -> None:
    filling = planned(release, facts=FACTS)
    (job,) = [obj for (kind, _), obj in objects(filling).items() if kind == "Job"]
    assert needs(step_of(filling, job)) >= {"Volumes", "Contents", "Repository"}
    assert not {key(SECRET), key(CLOUD)} & objects(filling).keys()
    made = restored(release, facts=FACTS)
    assert needs(step_of(made, SECRET)) >= {"Record"}
    assert needs(step_of(made, CLOUD)) >= {"Secrets"}
    assert needs(step_of(made, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fire-end"}})) >= {
        "Resources"
    }


def test_the_volume_of_one_member_is_filled_by_one_job(release: Release) -> None:
    """The other members get all data from it once, by Galera itself."""
    made = objects(planned(release, facts=FACTS))
    claims = [name for kind, name in made if kind == "PersistentVolumeClaim"]
    assert claims == [CLAIM["metadata"]["name"]]
    (job,) = [obj for (kind, _), obj in made.items() if kind == "Job"]
    volumes = job["spec"]["template"]["spec"]["volumes"]
    mounted = {each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each}
    assert mounted == {"backups", *claims}


def test_restored_objects_belong_to_the_cloud(release: Release) -> None:
    made = objects(restored(release, facts=FACTS))
    for obj in (CLAIM, SECRET, CLOUD):
        assert HANDED_OVER in made[key(obj)]["metadata"]["annotations"]


def test_a_restored_schedule_starts_and_removes_no_backup(release: Release) -> None:
    """The old cloud may still run, and its backups may have the same names."""
    spec = {"schedule": "0 1 * * *", "suspend": False, "retention": {"keepLast": 1}}
    schedule = {"apiVersion": OURS, "kind": "OpenStackBackupSchedule", "metadata": {"name": "nightly"}, "spec": spec}
    content = {"format": 1, "objects": [CLOUD, schedule]}
    made = objects(restored(release, facts={"manifest": MANIFEST, "contents": content}))
    assert made[key(schedule)]["spec"] == {**spec, "suspend": True}
    assert made[key(CLOUD)]["spec"] == CLOUD["spec"]


def test_the_backup_is_read_once(release: Release) -> None:
    first = planned(release, facts=FACTS)
    children = {("Secret", "fire-contents"): owned(objects(first)["Secret", "fire-contents"])}
    later = restored(release, children=children)
    assert objects(later)[key(CLOUD)]["spec"] == CLOUD["spec"]
    ctx = context(RESTORE, SPEC, release=release, owner="fire", children=children, pods=[{"metadata": {"name": "p"}}])
    assert served(ctx) is None


def test_after_its_end_a_restore_makes_nothing_again(release: Release) -> None:
    first = objects(restored(release, facts=FACTS))
    end = {**first["ConfigMap", "fire-end"], "data": {"at": "2026-01-01T00:01:05Z"}}
    children = {
        ("ConfigMap", "fire-end"): owned(end),
        ("ConfigMap", "fire-record"): owned(first["ConfigMap", "fire-record"]),
    }
    last = planned(release, children=children)
    assert objects(last).keys() == children.keys()
    assert last.outcome.details == {
        "backup": "monday",
        "backupCompleted": "2025-12-31T12:00:00Z",
        "completed": "2026-01-01T00:01:05Z",
        "restored": [{"name": "mariadb", "gtid": None, "changes": None}],
        "schemas": [],
        "allocations": None,
        "networks": None,
        "images": None,
        "pools": [],
        "duration": "1m5s",
    }


@pytest.mark.security
@pytest.mark.parametrize(
    "stranger",
    [
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "x"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}},
        {"apiVersion": OURS, "kind": "Unknown", "metadata": {"name": "x"}},
        {"apiVersion": OURS, "kind": "OpenStackRestore", "metadata": {"name": "x"}},
    ],
)
def test_a_backup_with_other_kinds_of_objects_is_refused(release: Release, stranger: Object) -> None:
    content = {"format": 1, "objects": [CLOUD, stranger]}
    with pytest.raises(SpecError, match=r"the backup holds \w+/x of .*, which this operator does not serve"):
        planned(release, facts={**FACTS, "contents": content})


def test_a_backup_of_another_format_is_refused(release: Release) -> None:
    with pytest.raises(SpecError, match="the backup has format 3; this operator reads formats 1 and 2"):
        planned(release, facts={**FACTS, "contents": {"format": 3, "objects": []}})


@pytest.mark.security
@pytest.mark.parametrize(
    "changes",
    [
        {"databases": [{**ENTRY, "claim": SECRET}]},
        {"databases": [{**ENTRY, "snapshot": 7}]},
        {"databases": [{}]},
        {"databases": None},
        {"taken": None},
    ],
)
def test_a_manifest_of_another_program_is_refused(release: Release, changes: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="the operator cannot read the backup"):
        planned(release, facts={**FACTS, "manifest": {**MANIFEST, **changes}})


@pytest.mark.parametrize("folder", ["", "storage"])
def test_a_volume_of_mariadb_operator_is_filled_as_its_user(release: Release, folder: str) -> None:
    claim = {**CLAIM, "metadata": {"name": "storage-mariadb-0"}}
    entry = {**ENTRY, "claim": claim, "gtid": "", "operator": "mariadb-operator", "folder": folder}
    made = objects(planned(release, facts={**FACTS, "manifest": {**MANIFEST, "databases": [entry]}}))
    (job,) = [obj for (kind, _), obj in made.items() if kind == "Job"]
    pod = job["spec"]["template"]["spec"]
    (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["mountPath"] == "/var/lib/mysql"]
    assert mount.get("subPath", "") == folder
    assert pod["containers"][0]["securityContext"]["runAsUser"] == 999
    volumes = [each["persistentVolumeClaim"] for each in pod["volumes"] if "persistentVolumeClaim" in each]
    assert {"claimName": "storage-mariadb-0"} in volumes
    assert ("PersistentVolumeClaim", "storage-mariadb-0") in made


def test_mariadb_operators_database_goes_to_no_second(release: Release) -> None:
    entry = {**ENTRY, "operator": "mariadb-operator", "folder": ""}
    facts = {**FACTS, "manifest": {**MANIFEST, "databases": [entry]}}
    with pytest.raises(SpecError, match=r"spec\.pointInTime: mariadb-operator runs MariaDB/mariadb"):
        planned(release, SPEC | {"pointInTime": "2026-01-01T00:00:00Z"}, facts=facts)


@pytest.mark.security
@pytest.mark.parametrize(
    "changes", [{"operator": "mariadb-operator", "folder": "../.."}, {"operator": "another", "folder": ""}]
)
def test_a_forged_folder_of_a_volume_is_refused(release: Release, changes: dict[str, str]) -> None:
    with pytest.raises(SpecError, match="the operator cannot read the backup"):
        planned(release, facts={**FACTS, "manifest": {**MANIFEST, "databases": [{**ENTRY, **changes}]}})


def test_a_server_of_the_version_of_the_backup_restores_it(release: Release) -> None:
    older = {**MANIFEST, "databases": [{**ENTRY, "server": "10.11.19-MariaDB-deb12"}]}
    made = objects(planned(release, facts={**FACTS, "manifest": older}))
    (job,) = [obj for (kind, _), obj in made.items() if kind == "Job"]
    assert job["spec"]["template"]["spec"]["containers"][0]["image"].endswith("mariadb-10.11:build")
    run = json.loads(secret_data(made["Secret", "fire-runs"])["restore-mariadb.json"])
    assert run["snapshot"] == "4f2a"
    unknown = {**MANIFEST, "databases": [{**ENTRY, "server": "5.5.1-MariaDB"}]}
    with pytest.raises(SpecError, match=r"spec\.release: .* has no server for MariaDB/mariadb"):
        planned(release, facts={**FACTS, "manifest": unknown})


@pytest.mark.security
@pytest.mark.parametrize(
    "changes", [{"type": "kubernetes.io/service-account-token"}, {"metadata": {"name": "fire-repository"}}]
)
def test_secrets_that_give_rights_are_not_restored(release: Release, changes: dict[str, Any]) -> None:
    content = {"format": 1, "objects": [{**SECRET, **changes}]}
    with pytest.raises(SpecError, match="which no restore creates"):
        planned(release, facts={**FACTS, "contents": content})


@pytest.mark.security
def test_a_restored_object_has_the_fields_of_a_backup_alone(release: Release) -> None:
    metadata = {"name": "cloud", "ownerReferences": [{"uid": "x"}], "finalizers": ["x"], "namespace": "other"}
    claim = {**CLAIM, "spec": {**SIZE, "volumeName": "of-others", "dataSource": {"name": "x"}}}
    manifest = {**MANIFEST, "databases": [{**ENTRY, "claim": claim}]}
    content = {"format": 1, "objects": [{**CLOUD, "metadata": metadata, "status": {"x": 1}}]}
    made = objects(restored(release, facts={"manifest": manifest, "contents": content}))
    cloud = made[key(CLOUD)]
    assert cloud["metadata"].keys() == {"name", "labels", "annotations"}
    assert cloud.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert made[key(CLAIM)]["spec"] == SIZE


def test_a_filled_volume_is_never_filled_again(release: Release) -> None:
    first = planned(release, facts=FACTS)
    (job,) = [obj for (kind, _), obj in objects(first).items() if kind == "Job"]
    second = planned(release, facts=FACTS, pods=[ended(job, {"schemas": ["keystone"]})])
    children = {key(obj): owned(obj) for obj in second.objects if key(obj)[1] in {"fire-record", "fire-contents"}}
    later = planned(release, children=children)
    assert not [kind for kind, _ in objects(later) if kind == "Job"]
    assert key(CLOUD) in objects(later)


def test_a_run_whose_result_was_lost_is_asked_again_before_servers_start(release: Release) -> None:
    first = planned(release, facts=FACTS)
    (job,) = [obj for (kind, _), obj in objects(first).items() if kind == "Job"]
    run = json.loads(secret_data(objects(first)["Secret", "fire-runs"])["restore-mariadb.json"])
    assert run["restore"] == "uid-1"
    complete = {**job, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    later = objects(planned(release, facts=FACTS, children={key(job): complete}))
    (again,) = [obj for (kind, _), obj in later.items() if kind == "Job"]
    assert key(again) != key(job)
    assert not {key(SECRET), key(CLOUD)} & later.keys()


def test_a_channel_that_is_over_is_replaced(release: Release) -> None:
    first = objects(planned(release))["Secret", "fire-channel"]
    children = {("Secret", "fire-channel"): owned(first)}
    later = objects(planned(release, children=children, now=NOW + timedelta(days=7)))["Secret", "fire-channel"]
    assert secret_data(later)["tls.crt"] != secret_data(first)["tls.crt"]


def test_a_server_runs_where_that_of_the_backup_could(release: Release) -> None:
    image = {"image": "x", "nodeSelector": {"tier": "control"}, "tolerations": [{"key": "control"}]}
    made = objects(
        planned(release, facts={**FACTS, "manifest": {**MANIFEST, "databases": [{**ENTRY, "image": image}]}})
    )
    (job,) = [obj for (kind, _), obj in made.items() if kind == "Job"]
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {"tier": "control"}
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] != "x"


def test_a_restore_to_a_second_takes_a_backup_of_before(release: Release) -> None:
    second = SPEC | {"pointInTime": "2025-12-31T23:59:59Z", "cloud": "production"}
    made = objects(plan(context(RESTORE, second, release=release, owner="fire", secrets=SECRETS)))
    run = json.loads(secret_data(made["Secret", "fire-runs"])["contents.json"])
    assert run == {"backup": "", "cloud": "production", "until": "2025-12-31T23:59:59Z"}
    made = objects(planned(release, second, facts=FACTS))
    run = json.loads(secret_data(made["Secret", "fire-runs"])["restore-mariadb.json"])
    assert run.items() >= {"cloud": "production", "pointInTime": "2025-12-31T23:59:59Z", "gtid": "0-7-12"}.items()


def test_a_restore_to_the_backup_reads_no_archive(release: Release) -> None:
    """Nor does it need a position: a gap in the archive, or no archive at all, does not stop it."""
    made = objects(planned(release, facts=FACTS | {"manifest": {**MANIFEST, "databases": [{**ENTRY, "gtid": ""}]}}))
    run = json.loads(secret_data(made["Secret", "fire-runs"])["restore-mariadb.json"])
    assert not {"cloud", "pointInTime"} & run.keys()
    (job,) = [obj for (kind, _), obj in made.items() if kind == "Job"]
    # A program without those of the archive.
    assert "class Archive" not in str(job["spec"]["template"]["spec"]["containers"][0]["command"])


@pytest.mark.parametrize(
    ("second", "gtid", "error"),
    [
        ("2025-12-31T23:59:59Z", "", "has no position in a binary log; remove pointInTime"),
        ("2025-02-30T23:59:59Z", "0-7-12", "there is no time 2025-02-30"),
    ],
)
def test_a_second_that_cannot_be_reached_is_refused(release: Release, second: str, gtid: str, error: str) -> None:
    manifest = {**MANIFEST, "databases": [{**ENTRY, "gtid": gtid}]}
    with pytest.raises(SpecError, match=error):
        planned(release, SPEC | {"pointInTime": second}, facts=FACTS | {"manifest": manifest})


def test_servers_whose_resources_do_not_fit_are_named(release: Release) -> None:
    (job,) = [obj for (kind, _), obj in objects(planned(release, facts=FACTS)).items() if kind == "Job"]
    report = {
        "servers": 2,
        "withoutServer": {"count": 7, "images": ["5a", "; rm -r /"]},
        "withoutAllocation": {"count": 0, "images": []},
    }
    made = planned(release, facts=FACTS, pods=[ended(job, {"schemas": [], "allocations": report})])
    command = "kubectl exec -n openstack sts/nova-conductor -- setsid --wait nova-manage placement audit --delete"
    assert made.outcome.details["allocations"] == {
        "servers": 2,
        "withoutServer": {"count": 7, "servers": ["5a"], "command": command},
        "withoutAllocation": None,
    }


def test_rows_that_neutron_and_ovn_do_not_both_have_are_named(release: Release) -> None:
    (job,) = [obj for (kind, _), obj in objects(planned(release, facts=FACTS)).items() if kind == "Job"]
    report = {
        "rows": 12,
        "withoutRow": {"count": 2, "images": ["router-5a", "a text of somebody else"]},
        "withoutOVN": {"count": 0, "images": []},
    }
    made = planned(release, facts=FACTS, pods=[ended(job, {"schemas": [], "networks": report})])
    assert made.outcome.details["networks"] == {
        "rows": 12,
        "withoutRow": {"count": 2, "names": ["router-5a"]},
        "withoutOVN": None,
    }


def test_a_restore_that_does_not_end_says_what_is_not_done(release: Release) -> None:
    first = objects(planned(release, facts=FACTS))
    children = {key(obj): owned(obj) for obj in first.values() if key(obj)[1] in {"fire-record", "fire-contents"}}
    spec = SPEC | {"deadline": "2h"}

    def verdicts(at: timedelta, **changes: Any) -> list[str]:
        made = planned(release, spec, children=children, now=NOW + at, **changes)
        return [step.verdict.message for step in made if step.name == "Deadline" and step.verdict]

    assert verdicts(timedelta(minutes=119)) == []
    (message,) = verdicts(timedelta(hours=2))
    assert "not done within 2h: Database mariadb" in message
    assert "delete the OpenStackRestore to end it" in message
    later = objects(planned(release, spec, children=children, now=NOW + timedelta(hours=2)))
    (job,) = [obj for (kind, _), obj in later.items() if kind == "Job"]
    (message,) = verdicts(timedelta(hours=2), pods=[ended(job, {"schemas": ["keystone"]})])
    assert "not done within 2h: resources of the cloud" in message


def test_a_backup_that_cannot_be_read_in_time_is_named(release: Release) -> None:
    first = objects(planned(release))
    children = {("ConfigMap", "fire-record"): owned(first["ConfigMap", "fire-record"])}
    made = planned(release, children=children, now=NOW + timedelta(days=1))
    messages = [step.verdict.message for step in made if step.name == "Deadline" and step.verdict]
    assert ["not done within 24h: Contents" in message for message in messages] == [True]
