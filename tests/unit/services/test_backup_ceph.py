"""Pools of Ceph in a backup and a restore."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.kube import secret_data
from openstack_operator.plan import Object, Plan, Release, SpecError, key
from openstack_operator.services.backup.model import BACKUP
from openstack_operator.services.backup.service import plan
from openstack_operator.testing import context
from tests.planning import objects
from tests.unit.services import test_backup as backups
from tests.unit.services import test_backup_restore as restores

PODS = {kube.KIND: "cephstorage", kube.INSTANCE: "ceph", kube.COMPONENT: "status"}
PUBLISHED = {
    f"{use}{field}": text
    for use in ("images", "volumes", "vms", "backups")
    for field, text in {"Pool": use, "User": f"client.{use}", "Secret": f"ceph-client-{use}"}.items()
}
RESULT = {"snapshot": "5e00", "images": 3, "bytes": 3 << 20, "stored": 1 << 20, "seconds": 9}
ROW = {"name": "ceph-volumes", "images": 2, "existed": 0, "size": "5Mi"}
ENTRY = {
    "storage": "ceph",
    "use": "volumes",
    "pool": "volumes",
    "user": "client.volumes",
    "client": "ceph-client-volumes",
    "snapshot": "5e00",
    "images": 3,
}


def ceph(*, ready: bool = True, published: Mapping[str, str] = PUBLISHED) -> dict[str, Any]:
    security = {"runAsUser": 64045, "runAsGroup": 64045}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "ceph-status", "generation": 1, "labels": PODS},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": PODS},
            "template": {"spec": {"containers": [{"image": "ceph:18", "securityContext": security}]}},
        },
        "status": {"observedGeneration": 1, **(dict.fromkeys(REPLICAS, 1) if ready else {})},
    }
    return {"name": "ceph", "deployments": [deployment], "workloads": [], "claims": [], "published": dict(published)}


REPLICAS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")


def backed_up(release: Release, *storages: Any, include: Mapping[str, bool] | None = None, **changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "owner": "monday",
        "secrets": backups.SECRETS,
        "facts": backups.facts() | {"storages": list(storages)},
    }
    spec = backups.SPEC | {"include": dict(include or {})}
    return plan(context(BACKUP, spec, release=release, **(fields | changes)))


def missing(made: Plan) -> list[str]:
    return secret_data(objects(made)["Secret", "monday-contents"])["missing"].splitlines()


def test_images_are_in_a_backup_and_other_pools_are_named(release: Release) -> None:
    made = backed_up(release, ceph())
    names = backups.jobs(made)
    assert {"monday-pool-before-ceph-images", "monday-pool-ceph-images"} <= names.keys()
    assert not [name for name in names if "volumes" in name or "vms" in name]
    assert missing(made)[:2] == [
        "CephStorage/ceph: volumes in its pool volumes, since spec.include.volumes is false",
        "CephStorage/ceph: disks of servers in its pool vms, since spec.include.disks is false",
    ]


def test_each_pool_is_stored_before_and_after_the_databases(release: Release) -> None:
    made = backed_up(release, ceph(), include={"volumes": True, "disks": True})
    for use in ("images", "volumes", "vms"):
        before = restores.step_of(made, backups.jobs(made)[f"monday-pool-before-ceph-{use}"])
        assert before.name in restores.needs(restores.step_of(made, backups.jobs(made)["monday-database-mariadb"]))
        after = restores.step_of(made, backups.jobs(made)[f"monday-pool-ceph-{use}"])
        assert "Database mariadb" in restores.needs(after)
    assert not [line for line in missing(made) if "include" in line]


@pytest.mark.parametrize("incremental", [True, False])
def test_disks_of_servers_are_never_incremental(release: Release, *, incremental: bool) -> None:
    include = {"volumes": True, "disks": True, "incremental": incremental}
    runs = secret_data(objects(backed_up(release, ceph(), include=include))["Secret", "monday-runs"])
    answers = {use: json.loads(runs[f"pool-ceph-{use}.json"])["incremental"] for use in ("images", "volumes", "vms")}
    assert answers == {"images": incremental, "volumes": incremental, "vms": False}


def test_neither_program_of_the_pod_has_the_other_ones_login(release: Release) -> None:
    made = backed_up(release, ceph(), include={"volumes": True})
    spec = backups.jobs(made)["monday-pool-ceph-volumes"]["spec"]["template"]["spec"]
    main, other = spec["containers"]
    assert (main["image"], other["image"]) == ("mariadb:11.8", "ceph:18")
    assert main["securityContext"]["runAsUser"] == other["securityContext"]["runAsUser"]
    mounts = [{each["name"] for each in container["volumeMounts"]} for container in (main, other)]
    assert "ceph" in mounts[1] - mounts[0]
    assert "repository" in mounts[0] - mounts[1]
    run = json.loads(secret_data(objects(made)["Secret", "monday-runs"])["pool-ceph-volumes.json"])
    assert (run["pool"], run["user"], run["use"]) == ("volumes", "client.volumes", "volumes")


def test_daemons_of_ceph_accept_the_pods(release: Release) -> None:
    made = backed_up(release, ceph())
    policy = objects(made)["NetworkPolicy", "monday-uses-ceph"]
    assert policy["spec"]["podSelector"]["matchLabels"] == kube.pods_of("CephStorage", "ceph")


@pytest.mark.parametrize("storage", [ceph(ready=False), ceph(published={})])
def test_a_backup_waits_for_the_ceph_that_it_reads(release: Release, storage: dict[str, Any]) -> None:
    [verdict] = [step.verdict for step in backed_up(release, storage) if step.name == "Contents"]
    assert verdict
    assert "CephStorage/ceph" in verdict.message
    assert backups.jobs(backed_up(release, storage, include={"images": False}))


def complete(release: Release, result: Mapping[str, Any] = RESULT) -> tuple[Plan, Mapping[str, Any]]:
    """Return the plan with all results, and the manifest."""
    include = {"images": False, "volumes": True}
    first = backed_up(release, ceph(), include=include)
    children, jobs = backups.kept(first, "monday-contents"), backups.jobs(first)
    results = {"database-mariadb": backups.RESULT, "pool-before-ceph-volumes": RESULT, "pool-ceph-volumes": result}
    pods = [backups.ended(jobs[f"monday-{name}"], result) for name, result in results.items()]
    full = backed_up(release, include=include, children=children, pods=pods, facts={})
    run = json.loads(secret_data(objects(full)["Secret", "monday-runs"])["manifest.json"])
    pods.append(backups.ended(backups.jobs(full)["monday-manifest"], backups.END))
    return backed_up(release, include=include, children=children, pods=pods, facts={}), run["manifest"]


def test_the_manifest_names_the_index_of_each_pool(release: Release) -> None:
    done, manifest = complete(release)
    [entry] = manifest["pools"]
    assert {name: entry[name] for name in ENTRY} == ENTRY
    assert done.outcome.details["pools"] == [{"name": "ceph-volumes", "images": 3, "size": "3Mi", "stored": "2Mi"}]


def test_volumes_without_their_snapshots_are_named(release: Release) -> None:
    result = RESULT | {"withoutSnapshots": {"count": 7, "images": ["volume-1", "$(x)"]}}
    done, manifest = complete(release, result)
    text = (
        "CephStorage/ceph: snapshots of 7 RBD images in its pool volumes; users removed snapshots during each reading:"
        " volume-1"
    )
    assert text in manifest["missing"]
    assert text in done.outcome.details["notIncluded"]
    assert not [each for each in complete(release)[1]["missing"] if "snapshots of" in each]


def restored(release: Release, entry: Mapping[str, Any] = ENTRY, **changes: Any) -> Plan:
    manifest = {**restores.MANIFEST, "pools": [entry]}
    return restores.restored(release, facts=restores.FACTS | {"manifest": manifest}, **changes)


def job_of(made: Plan) -> Object:
    [job] = [obj for (kind, name), obj in objects(made).items() if kind == "Job" and "restore-pool" in name]
    return job


def test_a_pool_is_filled_beside_the_resources(release: Release) -> None:
    manifest = {**restores.MANIFEST, "pools": [ENTRY]}
    early = restores.planned(release, facts=restores.FACTS | {"manifest": manifest})
    assert not [name for (kind, name) in objects(early) if kind == "Job" and "restore-pool" in name]
    made = restored(release)
    spec = job_of(made)["spec"]["template"]["spec"]
    main, other = spec["containers"]
    assert (main["image"], other["image"]) == (release["mariadb"].image, release["ceph-status"].image)
    needs = restores.needs(restores.step_of(made, job_of(made)))
    assert "Secrets" in needs
    assert "Resources" not in needs
    assert ("ConfigMap", "fire-end") in objects(made)
    [end] = [step for step in made if step.name == "End"]
    assert {"Pool ceph-volumes", "Resources"} <= restores.needs(end)
    run = json.loads(secret_data(objects(made)["Secret", "fire-runs"])["restore-pool-ceph-volumes.json"])
    assert run["index"] == "5e00"
    assert key(restores.SECRET) in objects(made)


def test_a_ceph_waits_until_its_pools_are_full(release: Release) -> None:
    made = objects(restored(release))
    labels = made["Secret", "ceph-restoring"]["metadata"]["labels"]
    assert labels.items() >= kube.pods_of("CephStorage", "ceph").items()
    assert ("Secret", "ceph-restored") not in made
    facts = restores.FACTS | {"manifest": {**restores.MANIFEST, "pools": [ENTRY]}}
    first = objects(restores.planned(release, facts=facts))
    pods = [restores.ended(obj, {"schemas": []}) for (kind, _), obj in first.items() if kind == "Job"]
    pods.append(restores.ended(job_of(restored(release)), {"images": 2, "existed": 0, "bytes": 1, "seconds": 3}))
    full = objects(restores.planned(release, facts=facts, pods=pods))
    assert full["Secret", "ceph-restored"]["data"] == full["Secret", "ceph-restoring"]["data"]


def test_monitors_come_back_under_their_names(release: Release) -> None:
    published = {**PUBLISHED, "monitors": "ceph-mon-a.old.svc.cluster.local,ceph-mon-b.old.svc.cluster.local"}
    made = backed_up(release, ceph(published=published), include={"volumes": True})
    pools = json.loads(secret_data(objects(made)["Secret", "monday-contents"])["pools.json"])["pools"]
    assert {tuple(pool["monitors"]) for pool in pools} == {("ceph-mon-a", "ceph-mon-b")}
    runs = secret_data(objects(early_restore(release, {**ENTRY, "monitors": ["ceph-mon-a"]}))["Secret", "fire-runs"])
    [pool] = json.loads(runs["restore-mariadb.json"])["pools"]
    assert pool["monitors"] == ["ceph-mon-a.openstack.svc.cluster.local"]


def early_restore(release: Release, entry: Mapping[str, Any]) -> Plan:
    manifest = {**restores.MANIFEST, "pools": [entry]}
    return restores.planned(release, facts=restores.FACTS | {"manifest": manifest})


def test_the_status_tells_what_existed(release: Release) -> None:
    facts = restores.FACTS | {"manifest": {**restores.MANIFEST, "pools": [ENTRY]}}
    first = objects(restores.planned(release, facts=facts))
    pods = [restores.ended(obj, {"schemas": []}) for (kind, _), obj in first.items() if kind == "Job"]
    result = {"images": 2, "existed": 1, "bytes": 5 << 20, "seconds": 3}
    pods.append(restores.ended(job_of(restored(release)), result))
    done = restores.planned(release, facts=facts, pods=pods)
    [row] = done.outcome.details["pools"]
    assert row == {**ROW, "existed": 1, "withoutData": None, "withoutRow": None, "snapshotsWithoutData": None}
    assert not [name for (kind, name) in objects(done) if kind == "Job" and "restore-pool" in name]


def test_rows_and_rbd_images_that_do_not_fit_are_reported(release: Release) -> None:
    facts = restores.FACTS | {"manifest": {**restores.MANIFEST, "pools": [ENTRY]}}
    first = objects(restores.planned(release, facts=facts))
    lists = {
        "withoutData": {"count": 7, "images": ["volume-1a", "volume-2b", "$(reboot)"]},
        "withoutRow": {"count": 1, "images": ["volume-3c"]},
        "snapshotsWithoutData": {"count": 2, "images": ["snapshot-4d", "snapshot-5e"]},
    }
    pods = [
        restores.ended(obj, {"schemas": [], "pools": {"ceph-volumes": lists}})
        for (kind, _), obj in first.items()
        if kind == "Job"
    ]
    pods.append(restores.ended(job_of(restored(release)), {"images": 2, "existed": 0, "bytes": 5 << 20, "seconds": 3}))
    [row] = restores.planned(release, facts=facts, pods=pods).outcome.details["pools"]
    assert row["withoutData"] == {
        "count": 7,
        "images": ["volume-1a", "volume-2b"],
        "command": "openstack volume delete 1a 2b",
    }
    assert row["snapshotsWithoutData"]["command"] == "openstack volume snapshot delete 4d 5e"
    login = "-c /etc/ceph-storage/ceph.conf -n client.volumes -k /etc/ceph-storage/client.volumes.keyring"
    script = f"rbd {login} snap purge volumes/$i; rbd {login} rm volumes/$i"
    assert row["withoutRow"]["command"].endswith(f"deploy/ceph-status -- sh -c 'for i in volume-3c; do {script}; done'")


@pytest.mark.security
@pytest.mark.parametrize(
    "changes",
    [{"use": "x"}, {"pool": "--id=admin"}, {"user": "client.a --conf=/x"}, {"client": 1}, {"storage": "a'; reboot; '"}],
)
def test_words_of_a_manifest_are_no_options(release: Release, changes: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="cannot read the backup"):
        restored(release, {**ENTRY, **changes})
