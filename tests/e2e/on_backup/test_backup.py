"""A whole cloud is made again from a bucket, in an empty namespace, by one resource."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import pytest
from openstack.connection import Connection

from tools.cloud import proof
from tools.cloud.session import Cloud, Session
from tools.cloud.view import conditions, ready
from tools.localcluster.kubernetes import KubeError, Kubernetes, ours

from ..conftest import Report
from ..facts import passwords, sql
from ..s3 import S3Server
from ..waiting import until
from .conftest import BUCKET
from .objects import described, differing, digest

BACKUP, LATER_BACKUP, RESTORE = "monday", "tuesday", "after-the-fire"
PASSWORD = "only for this test"
_MEBIBYTES = 24
"""Size of an image that nothing can make smaller."""
_ORPHAN = "a-file-of-no-image"
_GONE = "5a0f7c52-8e0b-4c53-9a25-6d1f0c8a7e11"
_ORPHANED_ALLOCATION = (
    "INSERT INTO placement.projects (external_id) SELECT 'gone' FROM DUAL",
    "INSERT INTO placement.users (external_id) SELECT 'gone' FROM DUAL",
    (
        "INSERT INTO placement.consumers (uuid, project_id, user_id, generation)"
        f" SELECT '{_GONE}', p.id, u.id, 0 FROM placement.projects p, placement.users u"
        " WHERE p.external_id = 'gone' AND u.external_id = 'gone'"
    ),
    (
        "INSERT INTO placement.allocations (resource_provider_id, consumer_id, resource_class_id, used)"
        f" SELECT MIN(i.resource_provider_id), '{_GONE}', MIN(i.resource_class_id), 1 FROM placement.inventories i"
        " JOIN placement.resource_classes c ON c.id = i.resource_class_id WHERE c.name = 'VCPU'"
    ),
)
_NBCTL = ("ovn-nbctl", "--db=unix:/run/ovn/ovnnb_db.sock")
_ORPHANED_SWITCH = (
    *("--", "ls-add", f"neutron-{_GONE}"),
    *("--", "set", "Logical_Switch", f"neutron-{_GONE}", "external_ids:neutron\\:network_name=gone"),
)
_before: dict[str, Any] = {}


def repository(server: S3Server) -> dict[str, Any]:
    return {
        "s3": {
            "endpoint": server.url,
            "bucket": BUCKET,
            "folder": "clouds/openstack",
            "accessKeyRef": {"name": "backup-bucket", "key": "access"},
            "secretKeyRef": {"name": "backup-bucket", "key": "secret"},
            "caRef": {"name": "backup-bucket"},
        },
        "passwordRef": {"name": "backup-repository"},
    }


def secrets(server: S3Server, namespace: str) -> list[dict[str, Any]]:
    """Return the Secrets by which the repository is reached and opened."""
    bucket = {
        "access": server.access_key,
        "secret": server.secret_key,
        "ca.crt": server.authority.read_text(encoding="utf-8"),
    }
    allowed = {"openstack.k8s.io/allowed-hosts": server.address}
    contents = {"backup-bucket": (bucket, allowed), "backup-repository": ({"password": PASSWORD}, {})}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace, "annotations": notes},
            "stringData": data,
        }
        for name, (data, notes) in contents.items()
    ]


def resource(kind: str, name: str, namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def completed(
    cluster: Kubernetes, plural: str, name: str, namespace: str, timeout: float, field: str = "completed"
) -> dict[str, Any]:
    """Return the status of a backup or restore once it is complete, or has another field."""

    def status() -> dict[str, Any] | None:
        live = cluster.get(plural, name, "-n", namespace)
        return live["status"] if (live.get("status") or {}).get(field) else None

    def said() -> str:
        live = cluster.get(plural, name, "-n", namespace)
        return f"; {conditions(live).get('Ready', {}).get('message', '')}"

    try:
        return until(f"{field} of {plural}/{name}", status, timeout, 1)
    except Exception as error:
        raise AssertionError(f"{error}{said()}") from error


def upload(conn: Connection, name: str, folder: Path) -> Any:
    """Return an image of random bytes."""
    path = folder / name
    path.write_bytes(os.urandom(_MEBIBYTES << 20))
    api: Any = conn
    return api.image.create_image(
        name, filename=str(path), disk_format="raw", container_format="bare", visibility="private", wait=True
    )


def in_glance(cluster: Kubernetes, cloud: Cloud, *command: str) -> str:
    """Return what a command in the pod of the API prints."""
    return cluster.kubectl("exec", "-n", cloud.namespace, "deploy/glance-api", "--", *command)


def mebibytes(size: str) -> int:
    return int(size.removesuffix("Mi"))


def test_a_cloud_is_backed_up_while_it_serves(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, s3: S3Server, report: Report, tmp_path: Path
) -> None:
    api: Any = conn
    project = api.identity.create_project(name="before")
    api.identity.create_user(name="before", password="as before", default_project_id=project.id)
    proof.image(conn)
    _before["image"] = upload(conn, "random", tmp_path).id
    _before["data"] = hashlib.sha256((tmp_path / "random").read_bytes()).hexdigest()
    proof.flavor(conn)
    proof.networks(conn)
    _before["northbound"] = northbound(cluster, cloud)
    _before["passwords"] = passwords(cluster, cloud.namespace)
    cluster.apply(*secrets(s3, cloud.namespace))
    # TOTP keeps its secret encrypted in the database.
    api.identity.create_credential(type="totp", blob="GEZDGNBVGY3TQOJQ", user_id=conn.current_user_id)
    spec = {"repository": repository(s3), "verify": True}
    cluster.apply(resource("OpenStackBackup", BACKUP, cloud.namespace, spec))
    status = completed(cluster, ours("openstackbackup"), BACKUP, cloud.namespace, 300)
    report.add(backup=status)
    assert [(each["kind"], each["name"]) for each in status["databases"]] == [
        ("MariaDB", "mariadb"),
        ("OVNNetwork", "ovn"),
    ]
    [images] = status["images"]
    assert (images["name"], images["images"]) == ("glance", 2)
    assert mebibytes(images["stored"]) >= _MEBIBYTES
    assert "volumes of other backends, and disks of servers on nodes" in status["notIncluded"]
    status = completed(cluster, ours("openstackbackup"), BACKUP, cloud.namespace, 300, "verified")
    report.add(verified=status["restoreDuration"])
    assert ready(cluster.get(ours("openstackbackup"), BACKUP, "-n", cloud.namespace))


def test_a_second_backup_stores_no_image_twice(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, s3: S3Server, report: Report, tmp_path: Path
) -> None:
    """This one has an image without data, and without a row a file, an allocation and a switch of OVN."""
    for statement in _ORPHANED_ALLOCATION:
        sql(cluster, cloud.namespace, statement)
    lost = upload(conn, "lost", tmp_path).id
    in_glance(cluster, cloud, "rm", f"/var/lib/glance/images/{lost}")
    in_glance(cluster, cloud, "sh", "-c", f"echo 1 > /var/lib/glance/images/{_ORPHAN}")
    cluster.kubectl("exec", "-n", cloud.namespace, "ovn-nb-0", "--", *_NBCTL, *_ORPHANED_SWITCH)
    _before["lost"], _before["objects"] = lost, described(conn)
    spec = {"repository": repository(s3)}
    cluster.apply(resource("OpenStackBackup", LATER_BACKUP, cloud.namespace, spec))
    status = completed(cluster, ours("openstackbackup"), LATER_BACKUP, cloud.namespace, 300)
    report.add(second_backup=status)
    [images] = status["images"]
    assert images["images"] == 3
    assert mebibytes(images["size"]) > _MEBIBYTES
    assert mebibytes(images["stored"]) <= 1


@pytest.mark.security
def test_nothing_in_the_bucket_can_be_read(s3: S3Server) -> None:
    files = [path for path in s3.buckets.rglob("*") if path.is_file()]
    assert files
    # restic's keys name the user and the host that made them: mysql, and a pod.
    words = [b"keystone", b"MariaDB", b"mysql/", b"as before"]
    assert not [(path.name, word) for path in files for word in words if word in path.read_bytes()]


def test_the_cloud_is_made_again_by_one_resource(
    stood: tuple[Session, Cloud], cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report
) -> None:
    remove(cluster, cloud.namespace)
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cloud.namespace}})
    cluster.apply(*secrets(s3, cloud.namespace))
    began = time.monotonic()
    spec = {"repository": repository(s3), "backup": LATER_BACKUP}
    cluster.apply(resource("OpenStackRestore", RESTORE, cloud.namespace, spec))
    status = completed(cluster, ours("openstackrestore"), RESTORE, cloud.namespace, 600)
    seconds = time.monotonic() - began
    report.add(restore=status, restore_seconds=seconds, new_cloud_seconds=stood[1].seconds)
    assert status["backup"] == LATER_BACKUP
    images = status["images"]
    assert images["restored"] == 3
    lost, orphan = images["withoutData"], images["withoutRow"]
    assert (lost["count"], lost["command"]) == (1, f"openstack image delete {_before['lost']}")
    assert (orphan["count"], orphan["images"]) == (1, [_ORPHAN])
    _before["removal"] = orphan["command"]
    allocations = status["allocations"]
    assert allocations["withoutServer"]["servers"] == [_GONE]
    _before["audit"] = allocations["withoutServer"]["command"]
    # Neutron has removed it: see the test of OVN's rows.
    assert status["networks"]["withoutRow"] == {"count": 1, "names": [f"network-{_GONE}"]}
    assert "withoutOVN" not in status["networks"]


def remove(cluster: Kubernetes, namespace: str) -> None:
    """Delete the cloud, its volumes and its Secrets."""
    cluster.kubectl("delete", ours("openstackcontrolplane"), "--all", "-n", namespace, "--timeout=300s", timeout=310)
    cluster.kubectl("delete", "namespace", namespace, "--timeout=300s", timeout=310)


def test_users_log_in_with_their_old_passwords(cluster: Kubernetes, cloud: Cloud) -> None:
    now = passwords(cluster, cloud.namespace)
    assert now["keystone-admin"] == _before["passwords"]["keystone-admin"]
    # Logs in with the password of before.
    assert proof.connect(cluster, cloud.namespace).current_user_id
    api: Any = proof.connect(cluster, cloud.namespace)
    assert api.identity.find_user("before")


def test_the_apis_tell_what_they_told_before(cluster: Kubernetes, cloud: Cloud) -> None:
    now = described(proof.connect(cluster, cloud.namespace))
    before = _before["objects"]
    assert {kind: len(rows) for kind, rows in now.items()} == {kind: len(rows) for kind, rows in before.items()}
    assert not differing(now, before)
    assert digest(now) == digest(before)


def northbound(cluster: Kubernetes, cloud: Cloud) -> dict[str, list[str]]:
    """Return the rows of the northbound database by which OVN knows networks, with their identities."""
    tables = {
        "Logical_Switch": "_uuid,name",
        "Logical_Switch_Port": "_uuid,name,addresses",
        "Logical_Router": "_uuid,name",
        "Logical_Router_Port": "_uuid,name,networks",
        "NAT": "_uuid,type,external_ip,logical_ip",
        "Port_Group": "_uuid,name",
    }
    program = ("exec", "-n", cloud.namespace, "ovn-nb-0", "--", "ovsdb-client", "dump", "--no-headings")
    server = "unix:/run/ovn/ovnnb_db.sock"
    return {
        table: sorted(cluster.kubectl(*program, server, "OVN_Northbound", table, *columns.split(",")).splitlines())
        for table, columns in tables.items()
    }


def test_ovn_has_the_rows_that_it_had(cluster: Kubernetes, cloud: Cloud) -> None:
    assert _before["northbound"]["Logical_Switch"]
    assert northbound(cluster, cloud) == _before["northbound"]


def test_images_have_their_data(cluster: Kubernetes, cloud: Cloud, tmp_path: Path) -> None:
    api: Any = proof.connect(cluster, cloud.namespace)
    path = tmp_path / "image"
    api.image.download_image(_before["image"], output=str(path))
    assert hashlib.sha256(path.read_bytes()).hexdigest() == _before["data"]


def test_commands_of_the_report_remove_what_does_not_fit(cluster: Kubernetes, cloud: Cloud) -> None:
    program, *words = _before["removal"].split()
    assert program == "kubectl"
    cluster.kubectl(*words)
    assert _ORPHAN not in in_glance(cluster, cloud, "ls", "/var/lib/glance/images")
    program, *words = _before["audit"].split()
    assert program == "kubectl"
    # Its status says that it deleted something (nova-manage(1)).
    with pytest.raises(KubeError, match="exit code 4"):
        cluster.kubectl(*words)
    assert sql(cluster, cloud.namespace, f"SELECT 1 FROM placement.allocations WHERE consumer_id = '{_GONE}'") == ""
    api: Any = proof.connect(cluster, cloud.namespace)
    api.image.delete_image(_before["lost"])
    assert _before["lost"] not in {image.id for image in api.image.images()}


def test_a_server_boots_in_the_restored_cloud(stood: tuple[Session, Cloud], report: Report) -> None:
    """It boots from the image of before."""
    session, cloud = stood
    facts = session.prove(cloud)
    report.add(proof_after_restore=facts)
    assert facts["reply"]
