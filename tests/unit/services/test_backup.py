"""OpenStackBackup: what is read, in which order, and what the record keeps."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.kube import secret_data
from openstack_operator.plan import Object, Plan, Release, SpecError
from openstack_operator.services.backup import contents, databases, record
from openstack_operator.services.backup.model import BACKUP, OF_SCHEDULE
from openstack_operator.services.backup.service import needs_contents, plan
from openstack_operator.testing import NOW, context
from tests.planning import objects

SPEC: dict[str, Any] = {"repository": {"volume": {"claimName": "backups"}, "passwordRef": {"name": "repository"}}}
SECRETS = {"repository": {"password": "only-for-tests"}}
KEYSTONE = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "Keystone", "metadata": {"name": "keystone"}, "spec": {}}
RESULT = {
    "snapshot": "4f2a",
    "bytes": 2 << 20,
    "stored": 400,
    "gtid": "0-7-12",
    "server": "11.8.2-MariaDB",
    "seconds": 3,
}
END = {"snapshot": "99aa", "taken": "2026-01-01T00:00:30Z"}


def member(name: str, *, role: str = "", ready: bool = True) -> Object:
    """A pod of a MariaDB, with the fields that the operator keeps of it."""
    status = {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    labels = {"openstack.k8s.io/role": role} if role else {}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def database(name: str = "mariadb", *pods: Object, updated: int = 3, **changes: Any) -> dict[str, Any]:
    container = {"image": "mariadb:11.8", "securityContext": {"runAsUser": 999, "runAsGroup": 999}}
    volume = {"name": "backup-account", "secret": {"secretName": f"{name}-backup"}}
    template = {"spec": {"containers": [container], "nodeSelector": {"tier": "control"}, "volumes": [volume]}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": f"data-{name}-server-0"}}
    return {
        "name": name,
        "workloads": [
            {
                "metadata": {"name": f"{name}-server"},
                "spec": {"replicas": max(len(pods), 1), "serviceName": f"{name}-members", "template": template},
                "status": {"replicas": 3, "updatedReplicas": updated},
            }
        ],
        "pods": list(pods) or [member(f"{name}-server-0")],
        "claims": [claim],
        "delegated": [],
        "published": {"backupSecret": f"{name}-backup", "host": f"{name}.openstack.svc.cluster.local"},
    } | changes


def facts(*databases: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "objects": [KEYSTONE],
        "databases": list(databases) or [database()],
        "networks": [],
        "images": [],
        "storages": [],
        "identities": [],
    }


def planned(release: Release, **changes: Any) -> Plan:
    fields: dict[str, Any] = {"owner": "monday", "secrets": SECRETS, "facts": facts()}
    return plan(context(BACKUP, SPEC, release=release, **(fields | changes)))


def jobs(made: Plan) -> dict[str, Object]:
    return {name.rpartition("-")[0]: obj for (kind, name), obj in objects(made).items() if kind == "Job"}


def ended(job: Object, result: Mapping[str, Any]) -> Object:
    """The pod of a job that succeeded."""
    template = job["spec"]["template"]
    terminated = {"exitCode": 0, "message": json.dumps(result)}
    metadata = {"name": "pod", **template["metadata"]}
    # Another program of the pod may end before.
    other = {"name": "companion", "state": {"terminated": {"exitCode": 0, "message": "{}"}}}
    statuses = [other, {"name": "main", "state": {"terminated": terminated}}]
    return {"metadata": metadata, "status": {"containerStatuses": statuses}}


def kept(made: Plan, *names: str) -> dict[Any, Object]:
    """Objects of a plan as they are in the cluster."""
    return {key: owned(obj) for key, obj in objects(made).items() if key[1] in names}


def owned(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [{"controller": True}]}}


def test_a_database_is_read_from_a_member_that_no_client_uses(release: Release) -> None:
    names = [f"mariadb-server-{number}" for number in range(3)]
    pods = [member(names[0], role="primary"), member(names[1], role="backup"), member(names[2], ready=False)]
    job = jobs(planned(release, facts=facts(database("mariadb", *pods))))["monday-database-mariadb"]
    spec = job["spec"]["template"]["spec"]
    (term,) = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"] == {"matchLabels": {"statefulset.kubernetes.io/pod-name": names[1]}}
    claims = [each["persistentVolumeClaim"] for each in spec["volumes"] if "persistentVolumeClaim" in each]
    assert {"claimName": f"data-{names[1]}", "readOnly": True} in claims
    assert spec["containers"][0]["image"] == "mariadb:11.8"
    assert spec["nodeSelector"] == {"tier": "control"}


@pytest.mark.security
def test_a_certificate_is_no_password_of_a_repository(release: Release) -> None:
    reference = {"name": "keystone-tls", "key": "ca.crt"}
    spec = {"repository": {**SPEC["repository"], "passwordRef": reference}}
    with pytest.raises(SpecError, match="no secret; name a key with a password"):
        plan(context(BACKUP, spec, release=release, secrets={"keystone-tls": {"ca.crt": "public"}}, facts=facts()))


@pytest.mark.security
def test_pods_and_volumes_that_bear_the_labels_of_a_member_are_none(release: Release) -> None:
    fact = database("mariadb", member("aaa"), member("mariadb-server-0"))
    stateful_set = fact["workloads"][0]
    stateful_set["spec"] |= {"replicas": 1, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    forged = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "aaa-mariadb-server-0"}}
    read = databases.own_database(context(BACKUP, SPEC, release=release), fact | {"claims": [forged, *fact["claims"]]})
    assert (read.pod, read.claim["metadata"]["name"]) == ("mariadb-server-0", "data-mariadb-server-0")
    # The name in the certificate of a single server.
    assert read.host == fact["published"]["host"]


@pytest.mark.security
@pytest.mark.parametrize("content", [b"[" * 500_000, b'{"objects": "' + b" " * (9 << 20) + b'"}'])
def test_contents_that_take_much_memory_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="too many parts"):
        contents.unpack(gzip.compress(content))


@pytest.mark.security
def test_no_secret_is_on_a_command_line_or_in_the_environment(release: Release) -> None:
    made = planned(release)
    for obj in jobs(made).values():
        assert "only-for-tests" not in json.dumps(obj)
    assert secret_data(objects(made)["Secret", "monday-repository"])["password"] == "only-for-tests"


def test_the_cloud_is_read_once_and_not_again(release: Release) -> None:
    first = planned(release)
    children = kept(first, "monday-contents")
    later = planned(release, facts={}, children=children)
    assert jobs(later).keys() == {"monday-database-mariadb"}
    assert not needs_contents(context(BACKUP, SPEC, release=release, owner="monday", children=children))
    assert stored_contents(children) == {"format": 1, "objects": [KEYSTONE]}


def stored_contents(children: Mapping[Any, Object]) -> Any:
    content = contents.bytes_of(secret_data(children["Secret", "monday-contents"])["contents.json.gz"])
    return json.loads(gzip.decompress(content))


def test_earlier_operators_refuse_a_database_of_mariadb_operator(release: Release) -> None:
    """They read format 1, and would fill another folder of the volume."""
    first = planned(release, facts=facts(delegated()))
    assert stored_contents(kept(first, "monday-contents"))["format"] == 2


def test_a_backup_is_whole_after_all_its_databases(release: Release) -> None:
    two = facts(database("mariadb"), database("cells"))
    first = planned(release, facts=two)
    children = kept(first, "monday-contents")
    pods = [ended(jobs(first)["monday-database-mariadb"], RESULT)]
    half = planned(release, children=children, pods=pods)
    assert "monday-manifest" not in jobs(half)
    pods.append(ended(jobs(first)["monday-database-cells"], RESULT | {"gtid": ""}))
    full = planned(release, children=children, pods=pods)
    run = json.loads(secret_data(objects(full)["Secret", "monday-runs"])["manifest.json"])
    assert [each["snapshot"] for each in run["manifest"]["databases"]] == ["4f2a", "4f2a"]
    assert run["schedule"] == ""
    assert full.outcome.details["completed"] is None
    done = planned(release, children=children, pods=[*pods, ended(jobs(full)["monday-manifest"], END)])
    assert done.outcome.details["completed"] == END["taken"]
    assert done.outcome.details["size"] == "4Mi"


def test_a_manifest_names_the_schedule_that_made_the_backup(release: Release) -> None:
    annotations = {OF_SCHEDULE: "nightly"}
    first = planned(release, annotations=annotations)
    pods = [ended(jobs(first)["monday-database-mariadb"], RESULT)]
    later = planned(release, children=kept(first, "monday-contents"), pods=pods, annotations=annotations)
    run = json.loads(secret_data(objects(later)["Secret", "monday-runs"])["manifest.json"])
    assert run["schedule"] == "nightly"


def test_a_backup_names_the_volume_of_the_first_member_alone(release: Release) -> None:
    """A restore fills this one; the others get all data from it once, by Galera itself."""
    claims = [{"metadata": {"name": f"data-mariadb-server-{number}"}} for number in (2, 0, 1)]
    first = planned(release, facts=facts(database(claims=claims)))
    pods = [ended(jobs(first)["monday-database-mariadb"], RESULT)]
    later = planned(release, children=kept(first, "monday-contents"), pods=pods)
    run = json.loads(secret_data(objects(later)["Secret", "monday-runs"])["manifest.json"])
    (entry,) = run["manifest"]["databases"]
    assert entry["claim"]["metadata"]["name"] == "data-mariadb-server-0"


def test_a_complete_backup_keeps_nothing_but_its_record(release: Release) -> None:
    first = planned(release)
    pods = [ended(jobs(first)["monday-database-mariadb"], RESULT)]
    children = kept(first, "monday-contents")
    second = planned(release, children=children, pods=pods)
    pods.append(ended(jobs(second)["monday-manifest"], END))
    third = planned(release, children=children, pods=pods)
    last = planned(release, facts={}, children=kept(third, "monday-record"))
    assert objects(last).keys() == {("ConfigMap", "monday-record")}
    assert last.outcome.details == {
        "completed": "2026-01-01T00:00:30Z",
        "duration": "30s",
        "size": "2Mi",
        "verified": None,
        "restoreDuration": None,
        "snapshot": "99aa",
        "databases": [
            {
                "kind": "MariaDB",
                "name": "mariadb",
                "size": "2Mi",
                "stored": "1Mi",
                "gtid": "0-7-12",
                "server": "11.8.2-MariaDB",
            }
        ],
        "images": [],
        "objects": 1,
        "pools": [],
        "notIncluded": [
            "images in Swift and S3",
            "images, volumes and disks in a Ceph that no CephStorage describes",
            "volumes of other backends, and disks of servers on nodes",
            "backups that Cinder made",
            "databases of Ceph and etcd",
        ],
    }


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        ({}, "there is no cloud in this namespace"),
        (facts(database(workloads=[])), "there is no MariaDB in this namespace that this operator or"),
        (facts(database("mariadb", member("m-0", ready=False))), "waiting for a ready member of MariaDB/mariadb"),
        # A pod of an earlier version, which makes no account.
        (facts(database(updated=2)), "waiting for a ready member of"),
    ],
)
def test_a_cloud_that_cannot_be_backed_up_is_named(release: Release, seen: dict[str, Any], text: str) -> None:
    made = planned(release, facts=seen)
    (verdict,) = [step.verdict for step in made if step.name == "Contents"]
    assert verdict is not None
    assert text in verdict.message
    assert not jobs(made)


def test_a_database_that_others_run_is_named_as_not_included(release: Release) -> None:
    made = planned(release, facts=facts(database(), database("other", workloads=[])))
    content = secret_data(objects(made)["Secret", "monday-contents"])
    assert content["missing"].splitlines()[0] == "MariaDB/other: this operator does not run its server"


def delegated(**changes: Any) -> dict[str, Any]:
    """A MariaDB that mariadb-operator runs."""
    spec = {
        "image": "mariadb:11.8",
        "replicas": 1,
        "storage": {"size": "2Gi", "storageClassName": "fast"},
        "nodeSelector": {"tier": "control"},
        "tolerations": [{"key": "control"}],
    }
    live = {
        "apiVersion": "k8s.mariadb.com/v1alpha1",
        "kind": "MariaDB",
        "metadata": {"name": "mariadb"},
        "spec": spec | changes,
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    return database(workloads=[], pods=[], claims=[], delegated=[live])


def test_mariadb_operator_copies_its_database_before_it_is_stored(release: Release) -> None:
    made = planned(release, facts=facts(delegated()))
    claim = objects(made)["PersistentVolumeClaim", "monday-copy-mariadb"]
    assert claim["spec"]["resources"] == {"requests": {"storage": "2Gi"}}
    assert claim["spec"]["storageClassName"] == "fast"
    copy = objects(made)["PhysicalBackup.k8s.mariadb.com", "monday-copy-mariadb"]
    assert copy["spec"]["mariaDbRef"] == {"name": "mariadb"}
    assert copy["spec"]["storage"] == {"volume": {"persistentVolumeClaim": {"claimName": "monday-copy-mariadb"}}}
    assert copy["spec"]["tolerations"] == [{"key": "control"}]
    job = jobs(made)["monday-database-mariadb"]
    (step,) = [step for step in made if job in step.objects]
    assert "Copy mariadb" in {each.name for each in step.after}
    pod = job["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "mariadb:11.8"
    # Files of mariadb-operator are those of this user.
    assert pod["containers"][0]["securityContext"]["runAsUser"] == 999


def test_a_stored_copy_is_removed(release: Release) -> None:
    first = planned(release, facts=facts(delegated()))
    children = kept(first, "monday-contents")
    pods = [ended(jobs(first)["monday-database-mariadb"], RESULT | {"gtid": ""})]
    later = planned(release, children=children, pods=pods)
    assert not {"PhysicalBackup.k8s.mariadb.com", "PersistentVolumeClaim"} & {kind for kind, _ in objects(later)}
    run = json.loads(secret_data(objects(later)["Secret", "monday-runs"])["manifest.json"])
    (entry,) = run["manifest"]["databases"]
    assert (entry["operator"], entry["folder"]) == ("mariadb-operator", "")
    # With its labels, mariadb-operator enlarges the volume of a single server.
    assert entry["claim"]["metadata"]["labels"]["pvc.k8s.mariadb.com/role"] == "storage"


def test_members_of_mariadb_operator_have_a_folder_in_their_volume(release: Release) -> None:
    galera = {"enabled": True, "config": {"reuseStorageVolume": True}}
    first = planned(release, facts=facts(delegated(galera=galera)))
    pods = [ended(jobs(first)["monday-database-mariadb"], RESULT)]
    later = planned(release, children=kept(first, "monday-contents"), pods=pods)
    run = json.loads(secret_data(objects(later)["Secret", "monday-runs"])["manifest.json"])
    (entry,) = run["manifest"]["databases"]
    assert entry["folder"] == "storage"
    # With its labels, mariadb-operator would take the volume for that of a broken cluster.
    assert entry["claim"]["metadata"] == {"name": "storage-mariadb-0"}


def test_a_copy_that_failed_is_made_again_on_another_volume(release: Release) -> None:
    first = planned(release, facts=facts(delegated()))
    children = kept(first, "monday-contents", "monday-copy-mariadb")
    failed = {"status": {"conditions": [{"type": "Complete", "status": "True", "reason": "JobFailed"}]}}
    children["PhysicalBackup.k8s.mariadb.com", "monday-copy-mariadb"] |= failed
    second = planned(release, children=children)
    names = {
        name for kind, name in objects(second) if kind in ("PhysicalBackup.k8s.mariadb.com", "PersistentVolumeClaim")
    }
    assert names == {"monday-copy-mariadb-1"}
    job = jobs(second)["monday-database-mariadb"]["spec"]["template"]["spec"]
    claims = [each["persistentVolumeClaim"]["claimName"] for each in job["volumes"] if "persistentVolumeClaim" in each]
    assert "monday-copy-mariadb-1" in claims
    # The number is on record, and the failed copy is gone.
    later = planned(release, children=kept(first, "monday-contents") | kept(second, "monday-record"))
    assert ("PhysicalBackup.k8s.mariadb.com", "monday-copy-mariadb-1") in objects(later)


def test_databases_of_both_operators_are_in_one_backup(release: Release) -> None:
    both = facts(database(), {**delegated(), "name": "cells"})
    first = planned(release, facts=both)
    assert jobs(first).keys() == {"monday-database-mariadb", "monday-database-cells"}
    later = planned(release, children=kept(first, "monday-contents"))
    assert jobs(later) == jobs(first)


def test_a_deleted_resource_of_mariadb_operator_is_waited_for(release: Release) -> None:
    gone = database("cells", workloads=[], pods=[], claims=[], published={"mariadbResource": "cells"})
    made = planned(release, facts=facts(database(), gone))
    (verdict,) = [step.verdict for step in made if step.name == "Contents"]
    assert verdict is not None
    assert "waiting for a ready member of MariaDB/cells" in verdict.message


def test_names_of_copies_have_room_for_a_time(release: Release) -> None:
    made = planned(release, facts=facts(delegated()), owner="nightly-of-the-whole-cloud-202612010300")
    (name,) = [name for kind, name in objects(made) if kind == "PhysicalBackup.k8s.mariadb.com"]
    assert len(name) <= 40


def test_a_database_that_mariadb_operator_has_not_started_is_waited_for(release: Release) -> None:
    fact = delegated()
    fact["delegated"][0]["status"] = {}
    made = planned(release, facts=facts(fact))
    (verdict,) = [step.verdict for step in made if step.name == "Contents"]
    assert verdict is not None
    assert "waiting for a ready member of MariaDB/mariadb" in verdict.message


def test_a_record_that_somebody_wrote_is_no_record(release: Release) -> None:
    broken = kube.obj(context(BACKUP, SPEC, release=release, owner="monday"), "ConfigMap", "monday-record")
    for text in (
        "[]",
        "no JSON",
        '{"completed": "x", "began": "y"}',
        '{"databases": []}',
        '{"completed": 1}',
        '{"manifest": {"manifest": 1}}',
    ):
        children = {("ConfigMap", "monday-record"): owned({**broken, "data": {"record.json": text}})}
        ctx = context(BACKUP, SPEC, release=release, owner="monday", children=children)
        assert record.stored(ctx) == {}
    assert record.stamp(NOW) == "2026-01-01T00:00:00Z"


@pytest.mark.security
def test_a_record_without_an_owner_is_not_believed(release: Release) -> None:
    record_text = json.dumps({"began": "2026-01-01T00:00:00Z", "completed": "2026-01-01T00:00:30Z"})
    forged = {"metadata": {"name": "monday-record"}, "data": {"record.json": record_text}}
    assert planned(release, children={("ConfigMap", "monday-record"): forged}).outcome.details["completed"] is None


def test_a_lost_result_makes_its_job_run_again(release: Release) -> None:
    first = planned(release)
    job = jobs(first)["monday-database-mariadb"]
    done = {**job, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    children = kept(first, "monday-contents") | {("Job", job["metadata"]["name"]): done}
    again = planned(release, children=children)
    assert jobs(again)["monday-database-mariadb"]["metadata"]["name"] != job["metadata"]["name"]
    children |= kept(again, "monday-record")
    assert jobs(planned(release, children=children)) == jobs(again)


def test_a_stored_database_is_not_stored_again(release: Release) -> None:
    two = facts(database("mariadb"), database("cells"))
    first = planned(release, facts=two)
    children = kept(first, "monday-contents")
    half = planned(release, children=children, pods=[ended(jobs(first)["monday-database-mariadb"], RESULT)])
    later = planned(release, children=children | kept(half, "monday-record"))
    assert jobs(later).keys() == {"monday-database-cells"}


def test_a_backup_that_takes_a_day_ends(release: Release) -> None:
    first = planned(release)
    late = planned(release, children=kept(first, "monday-contents", "monday-record"), now=NOW + timedelta(days=1))
    verdicts = [step.verdict for step in late if step.name == "Databases" and step.verdict]
    assert "create another OpenStackBackup" in verdicts[0].message
    assert objects(late).keys() == {("ConfigMap", "monday-record")}


def test_closed_databases_accept_the_pods_of_a_backup(release: Release) -> None:
    policy = objects(planned(release))["NetworkPolicy", "monday-uses-mariadb"]["spec"]
    assert policy["podSelector"]["matchLabels"] == {"openstack.k8s.io/kind": "mariadb", kube.INSTANCE: "mariadb"}
    (rule,) = policy["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": kube.pods_of("OpenStackBackup", "monday")}}]


def test_the_storage_of_a_repository_is_mounted(release: Release) -> None:
    password = {"passwordRef": {"name": "repository"}}
    storage: dict[str, dict[str, Any]] = {
        "persistentVolumeClaim": {"volume": {"claimName": "backups"}},
        "nfs": {"nfs": "files.example.org:/srv/backups"},
    }
    sources: list[Object] = []
    for kind, repository in storage.items():
        fields: dict[str, Any] = {"owner": "monday", "secrets": SECRETS, "facts": facts()}
        made = plan(context(BACKUP, {"repository": {**repository, **password}}, release=release, **fields))
        volumes = jobs(made)["monday-database-mariadb"]["spec"]["template"]["spec"]["volumes"]
        sources += [volume[kind] for volume in volumes if volume["name"] == "storage"]
    assert sources == [{"claimName": "backups"}, {"server": "files.example.org", "path": "/srv/backups"}]
