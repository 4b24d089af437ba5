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
CLAIM = {
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


def planned(release: Release, **changes: Any) -> Plan:
    fields: dict[str, Any] = {"owner": "fire", "secrets": SECRETS, "kinds": KINDS}
    return plan(context(RESTORE, SPEC, release=release, **(fields | changes)))


def owned(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [{"controller": True}]}}


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
    made = planned(release, facts=FACTS)
    assert needs(step_of(made, SECRET)) >= {"Database mariadb", "Volumes", "Contents", "Repository"}
    assert needs(step_of(made, CLOUD)) >= {"Secrets"}
    assert needs(step_of(made, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fire-end"}})) >= {
        "Resources"
    }


def test_restored_objects_belong_to_the_cloud(release: Release) -> None:
    made = objects(planned(release, facts=FACTS))
    for obj in (CLAIM, SECRET, CLOUD):
        assert HANDED_OVER in made[key(obj)]["metadata"]["annotations"]


def test_a_restored_schedule_starts_and_removes_no_backup(release: Release) -> None:
    """The old cloud may still run, and its backups may have the same names."""
    spec = {"schedule": "0 1 * * *", "suspend": False, "retention": {"keepLast": 1}}
    schedule = {"apiVersion": OURS, "kind": "OpenStackBackupSchedule", "metadata": {"name": "nightly"}, "spec": spec}
    content = {"format": 1, "objects": [CLOUD, schedule]}
    made = objects(planned(release, facts={"manifest": MANIFEST, "contents": content}))
    assert made[key(schedule)]["spec"] == {**spec, "suspend": True}
    assert made[key(CLOUD)]["spec"] == CLOUD["spec"]


def test_the_backup_is_read_once(release: Release) -> None:
    first = planned(release, facts=FACTS)
    children = {("Secret", "fire-contents"): owned(objects(first)["Secret", "fire-contents"])}
    later = planned(release, children=children)
    assert objects(later)[key(CLOUD)] == objects(first)[key(CLOUD)]
    ctx = context(RESTORE, SPEC, release=release, owner="fire", children=children, pods=[{"metadata": {"name": "p"}}])
    assert served(ctx) is None


def test_after_its_end_a_restore_makes_nothing_again(release: Release) -> None:
    first = objects(planned(release, facts=FACTS))
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
        "restored": [],
        "images": None,
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
    with pytest.raises(SpecError, match="the backup has format 2; this operator reads format 1"):
        planned(release, facts={**FACTS, "contents": {"format": 2, "objects": []}})


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
    made = objects(planned(release, facts={"manifest": manifest, "contents": content}))
    cloud = made[key(CLOUD)]
    assert cloud["metadata"].keys() == {"name", "labels", "annotations"}
    assert cloud.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert made[key(CLAIM)]["spec"] == SIZE


def test_a_filled_volume_is_never_filled_again(release: Release) -> None:
    first = planned(release, facts=FACTS)
    (job,) = [obj for (kind, _), obj in objects(first).items() if kind == "Job"]
    terminated = {"exitCode": 0, "message": json.dumps({"schemas": ["keystone"]})}
    pod = {
        "metadata": {"name": "pod", **job["spec"]["template"]["metadata"]},
        "status": {"containerStatuses": [{"name": "main", "state": {"terminated": terminated}}]},
    }
    second = planned(release, facts=FACTS, pods=[pod])
    children = {key(obj): owned(obj) for obj in second.objects if key(obj)[1] in {"fire-record", "fire-contents"}}
    later = planned(release, children=children)
    assert not [kind for kind, _ in objects(later) if kind == "Job"]
    assert key(CLOUD) in objects(later)


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
    fields: dict[str, Any] = {"owner": "fire", "secrets": SECRETS, "kinds": KINDS, "facts": FACTS}
    made = objects(plan(context(RESTORE, second, release=release, **fields)))
    run = json.loads(secret_data(made["Secret", "fire-runs"])["restore-mariadb.json"])
    assert run.items() >= {"cloud": "production", "pointInTime": "2025-12-31T23:59:59Z", "gtid": "0-7-12"}.items()


@pytest.mark.parametrize(
    ("second", "gtid", "error"),
    [
        ("2025-12-31T23:59:59Z", "", "has no position in a binary log; remove pointInTime"),
        ("2025-02-30T23:59:59Z", "0-7-12", "there is no time 2025-02-30"),
    ],
)
def test_a_second_that_cannot_be_reached_is_refused(release: Release, second: str, gtid: str, error: str) -> None:
    manifest = {**MANIFEST, "databases": [{**ENTRY, "gtid": gtid}]}
    fields: dict[str, Any] = {"owner": "fire", "secrets": SECRETS, "kinds": KINDS}
    with pytest.raises(SpecError, match=error):
        facts = FACTS | {"manifest": manifest}
        plan(context(RESTORE, SPEC | {"pointInTime": second}, release=release, facts=facts, **fields))
