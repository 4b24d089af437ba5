"""An upgrade past its last step is undone by the backup that this step waited for."""

from __future__ import annotations

from typing import Any

import pytest

from tools.cloud import deploy, proof
from tools.cloud.session import MINIMAL, Cloud, Session
from tools.localcluster.kubernetes import Kubernetes, module, ours

from ..conftest import Report
from ..on_upgrade.releases import NEW, OLD, only, versions
from ..on_upgrade.test_upgrade import condition, patched, plane, upgraded
from ..s3 import S3Server
from ..waiting import until
from .test_backup import completed, remove, repository, resource, secrets

NAME = "cloud-before-2026-1"
ABSENT = ("cinder", "openstack-heat")
"""Packages that the minimal cloud does not have."""


@pytest.fixture(scope="module")
def loaded(stood: tuple[Session, Cloud]) -> Session:
    """The cluster, with the images of both releases."""
    session, _ = stood
    images = deploy.images(MINIMAL, NEW)
    module("images", "build", *images)
    module("images", "load", *images)
    deploy.install(session.cluster, releases=[NEW])
    return session


@pytest.mark.usefixtures("loaded")
def test_the_last_step_waits_for_a_verified_backup(
    cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report
) -> None:
    spec = {"schedule": "0 1 * * *", "repository": repository(s3)}
    cluster.apply(*secrets(s3, cloud.namespace), resource("OpenStackBackupSchedule", "nightly", cloud.namespace, spec))
    api: Any = proof.connect(cluster, cloud.namespace)
    api.identity.create_project(name="before-the-upgrade")
    patched(cluster, cloud, release=NEW)
    seconds = upgraded(cluster, cloud, NEW)
    status = cluster.get(ours("openstackbackup"), NAME, "-n", cloud.namespace)["status"]
    report.add(upgrade_with_backup_seconds=seconds, backup_of_upgrade=status)
    assert status["verified"]
    assert condition(cluster, cloud, "BackupReady")["status"] == "True"
    assert versions(cluster, cloud) == only(NEW, *ABSENT)


def test_a_way_back_is_refused_and_names_the_backup(cluster: Kubernetes, cloud: Cloud) -> None:
    api: Any = proof.connect(cluster, cloud.namespace)
    api.identity.create_project(name="after-the-upgrade")
    patched(cluster, cloud, release=OLD)
    text = f"restore a backup of {OLD}: OpenStackBackup/{NAME}"
    until("a refusal", lambda: text in condition(cluster, cloud, "Ready")["message"], 60, 1, stages=())


def test_the_restored_cloud_has_the_old_release(
    cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report
) -> None:
    remove(cluster, cloud.namespace)
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cloud.namespace}})
    cluster.apply(*secrets(s3, cloud.namespace))
    spec = {"repository": repository(s3), "backup": NAME}
    cluster.apply(resource("OpenStackRestore", "undone", cloud.namespace, spec))
    status = completed(cluster, ours("openstackrestore"), "undone", cloud.namespace, 600)
    report.add(restore_of_upgrade=status)
    live = plane(cluster, cloud)
    assert (live["spec"]["release"], live["status"]["release"]) == (OLD, OLD)
    assert versions(cluster, cloud) == only(OLD, *ABSENT)
    api: Any = proof.connect(cluster, cloud.namespace)
    names = {project.name for project in api.identity.projects()}
    assert "before-the-upgrade" in names
    assert "after-the-upgrade" not in names


def test_a_server_boots_after_the_undone_upgrade(loaded: Session, stood: tuple[Session, Cloud], report: Report) -> None:
    facts = loaded.prove(stood[1])
    report.add(proof_after_undone_upgrade=facts)
    assert facts["reply"]
