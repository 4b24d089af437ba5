"""A backup on a volume of the cluster, and the single schemas that come back from it."""

from __future__ import annotations

from typing import Any

from tools.cloud import proof
from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes, ours

from ..conftest import Report
from ..s3 import S3Server
from .test_backup import completed, resource, secrets

CLAIM, BACKUP, RESTORE = "backups", "on-a-volume", "identity-from-a-volume"


def test_a_backup_on_a_volume_is_verified_and_restored_from(
    cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report
) -> None:
    api: Any = proof.connect(cluster, cloud.namespace)
    api.identity.create_project(name="before-the-volume")
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    metadata = {"name": CLAIM, "namespace": cloud.namespace}
    cluster.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim})
    # The Secret with the password is among them.
    cluster.apply(*secrets(s3, cloud.namespace))
    place = {"volume": {"claimName": CLAIM}, "passwordRef": {"name": "backup-repository"}}
    spec = {"repository": place, "verify": True, "include": {"images": False}}
    cluster.apply(resource("OpenStackBackup", BACKUP, cloud.namespace, spec))
    status = completed(cluster, ours("openstackbackup"), BACKUP, cloud.namespace, 300, "verified")
    report.add(backup_on_a_volume=status)
    api.identity.create_project(name="after-the-volume")
    spec = {"repository": place, "backup": BACKUP, "only": ["keystone"], "confirm": cloud.namespace}
    cluster.apply(resource("OpenStackRestore", RESTORE, cloud.namespace, spec))
    report.add(restore_from_a_volume=completed(cluster, ours("openstackrestore"), RESTORE, cloud.namespace, 300))
    names = {project.name for project in api.identity.projects()}
    assert "before-the-volume" in names
    assert "after-the-volume" not in names
