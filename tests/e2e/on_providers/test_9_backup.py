"""A cloud whose database mariadb-operator runs is backed up, verified, and made again from a bucket."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tools.cloud import proof, view
from tools.cloud.deploy import documents
from tools.cloud.session import MINIMAL
from tools.localcluster.kubernetes import Kubernetes, ours
from tools.localcluster.layout import Cluster

from ..conftest import Report
from ..on_backup.conftest import BUCKET
from ..on_backup.objects import described, differing
from ..on_backup.test_backup import completed, remove, repository, resource, secrets
from ..s3 import S3Server, host_of
from ..waiting import until
from .asked import raised, ready

NAMESPACE = "openstack"
BACKUP, RESTORE = "monday", "after-the-fire"
DATABASE = "mariadbs.k8s.mariadb.com"
COPIES = ("physicalbackups.k8s.mariadb.com", "persistentvolumeclaims")
_before: dict[str, Any] = {}


@pytest.fixture(scope="module")
def cloud(cluster: Kubernetes) -> Iterator[Kubernetes]:
    """The minimal cloud, whose database mariadb-operator runs."""
    (plane,) = [each for each in documents(MINIMAL) if each["kind"] == "OpenStackControlPlane"]
    plane["spec"]["mariadb"]["provider"] = "mariadb-operator"
    plane["spec"]["expose"] = {"type": "NodePort", "host": cluster.address()}
    with raised(cluster, NAMESPACE):
        cluster.apply(plane)
        wait_until_ready(cluster)
        yield cluster


@pytest.fixture(scope="module")
def s3(cloud: Kubernetes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server with an empty bucket."""
    del cloud
    with S3Server(tmp_path_factory.mktemp("s3") / "server", address=host_of(Cluster())) as server:
        server.create_bucket(BUCKET)
        yield server


def wait_until_ready(cluster: Kubernetes) -> None:
    plane = ours("openstackcontrolplane")
    until("the cloud to be Ready", lambda: view.ready(cluster.get(plane, "cloud", "-n", NAMESPACE)), 900, 2)


def test_mariadb_operator_copies_the_data_for_a_backup(cloud: Kubernetes, s3: S3Server, report: Report) -> None:
    conn = proof.connect(cloud, NAMESPACE)
    api: Any = conn
    project = api.identity.create_project(name="before")
    api.identity.create_user(name="before", password="as before", default_project_id=project.id)
    proof.networks(conn)
    _before["objects"] = described(conn)
    cloud.apply(*secrets(s3, NAMESPACE))
    cloud.apply(resource("OpenStackBackup", BACKUP, NAMESPACE, {"repository": repository(s3), "verify": True}))
    backup = ours("openstackbackup")
    until("a copy", lambda: cloud.items(COPIES[0], "-n", NAMESPACE), 120, 0.5)
    status = completed(cloud, backup, BACKUP, NAMESPACE, 600)
    report.add(providers_backup=status)
    database = status["databases"][0]
    assert (database["kind"], database["name"], bool(database["server"])) == ("MariaDB", "mariadb", True)
    status = completed(cloud, backup, BACKUP, NAMESPACE, 300, "verified")
    report.add(providers_verified=status["restoreDuration"])
    until("no copy beside the repository", lambda: not copies(cloud), 120, 1)


def copies(cluster: Kubernetes) -> list[str]:
    names = [each["metadata"]["name"] for kind in COPIES for each in cluster.items(kind, "-n", NAMESPACE)]
    return [name for name in names if name.startswith(BACKUP)]


def test_the_database_of_mariadb_operator_is_made_again(cloud: Kubernetes, s3: S3Server, report: Report) -> None:
    remove(cloud, NAMESPACE)
    cloud.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    cloud.apply(*secrets(s3, NAMESPACE))
    began = time.monotonic()
    cloud.apply(resource("OpenStackRestore", RESTORE, NAMESPACE, {"repository": repository(s3)}))
    status = completed(cloud, ours("openstackrestore"), RESTORE, NAMESPACE, 900)
    report.add(providers_restore=status, providers_restore_seconds=round(time.monotonic() - began, 1))
    wait_until_ready(cloud)
    assert ready(cloud.get(DATABASE, "mariadb", "-n", NAMESPACE))
    conn = proof.connect(cloud, NAMESPACE)
    api: Any = conn
    assert api.identity.find_user("before")
    assert not differing(described(conn), _before["objects"])
