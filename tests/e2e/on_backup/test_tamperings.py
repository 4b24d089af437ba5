"""Tampering with a repository, and restores that would harm a cloud: each is refused by name, and nothing is made."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tools.cloud.session import Cloud, Session
from tools.cloud.view import conditions
from tools.localcluster.kubernetes import Kubernetes, ours

from ..conftest import Report
from ..facts import sql
from ..s3 import S3Server
from ..waiting import until
from .conftest import BUCKET
from .test_backup import completed, repository, resource, secrets
from .test_point_in_time import moments, stamp

pytestmark = pytest.mark.security

BACKUP, FOLDER, SCRATCH = "tampered-with", "clouds/tampered-with", "scratch"
_OF_A_CLOUD = ("openstackcontrolplane", "keystone", "mariadb")


def own_repository(server: S3Server) -> dict[str, Any]:
    """Return a repository that has nothing but the backup of this file."""
    whole = repository(server)
    return {**whole, "s3": {**whole["s3"], "folder": FOLDER}}


@pytest.fixture(scope="module", autouse=True)
def _backup(stood: tuple[Session, Cloud], s3: S3Server) -> None:
    session, cloud = stood
    cluster = session.cluster
    spec = {"repository": own_repository(s3), "include": {"images": False}}
    cluster.apply(resource("OpenStackBackup", BACKUP, cloud.namespace, spec))
    completed(cluster, ours("openstackbackup"), BACKUP, cloud.namespace, 300)


@contextmanager
def refused(
    cluster: Kubernetes, s3: S3Server, namespace: str, text: str, report: Report, **spec: Any
) -> Generator[str]:
    """Yield the message in which a restore names this text as its cause; remove it at the end."""
    name = "refused"
    if namespace == SCRATCH:
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SCRATCH}})
        cluster.apply(*secrets(s3, SCRATCH))
    cluster.apply(resource("OpenStackRestore", name, namespace, {"repository": own_repository(s3), **spec}))

    def message() -> str:
        live = cluster.get(ours("openstackrestore"), name, "-n", namespace)
        texts = [str(each.get("message", "")) for each in conditions(live).values() if each["status"] != "True"]
        return next((each for each in texts if re.search(text, each)), "")

    try:
        said = until(f"a refusal with {text!r}", message, 240, 1)
        report.add(refusal=said)
        yield said
        if namespace == SCRATCH:
            for kind in _OF_A_CLOUD:
                assert cluster.items(ours(kind), "-n", SCRATCH) == []
            names = {each["metadata"]["name"] for each in cluster.items("secrets", "-n", SCRATCH)}
            assert not {each for each in names if each.startswith(("keystone", "mariadb"))}
    finally:
        cluster.kubectl("delete", ours("openstackrestore"), name, "-n", namespace, "--timeout=120s", timeout=130)
        if namespace == SCRATCH:
            cluster.kubectl("delete", "namespace", SCRATCH, "--timeout=120s", timeout=130)


@contextmanager
def flipped(path: Path) -> Generator[None]:
    """Have one byte of an object changed meanwhile."""
    body = path.read_bytes()
    middle = len(body) // 2
    with path.open("r+b") as file:
        file.seek(middle)
        file.write(bytes([body[middle] ^ 1]))
    try:
        yield
    finally:
        path.write_bytes(body)


def test_a_flipped_byte_is_refused(cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report) -> None:
    packs = [path for path in (s3.buckets / BUCKET / FOLDER / "data").rglob("*") if path.is_file()]
    pack = max(packs, key=lambda path: path.stat().st_size)
    with flipped(pack), refused(cluster, s3, SCRATCH, "is damaged", report, cloud=cloud.namespace) as message:
        assert pack.name[:8] in message


def test_a_missing_object_is_refused(cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report) -> None:
    packs = [path for path in (s3.buckets / BUCKET / FOLDER / "data").rglob("*") if path.is_file()]
    pack = max(packs, key=lambda path: path.stat().st_size)
    place = f"/{BUCKET}/{FOLDER}/data/{pack.parent.name}/{pack.name}"
    body = pack.read_bytes()
    assert s3.request("DELETE", place)[0] in (200, 204)
    try:
        with refused(cluster, s3, SCRATCH, pack.name[:8], report, cloud=cloud.namespace):
            pass
    finally:
        assert s3.request("PUT", place, body=body)[0] == 200


def test_a_missing_part_of_the_archive_is_refused(
    cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report
) -> None:
    """The changes of the projects lie between two backups, and one object with some of them is gone."""
    between, after = moments()
    folder = s3.buckets / BUCKET / "clouds/openstack/archive" / cloud.namespace / "mariadb"
    objects = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_mtime)
    lost = max((path for path in objects if path.stat().st_mtime < between), key=lambda path: path.stat().st_mtime)
    place = f"/{BUCKET}/{lost.relative_to(s3.buckets / BUCKET)}"
    body = lost.read_bytes()
    assert s3.request("DELETE", place)[0] in (200, 204)
    spec = {"repository": repository(s3), "pointInTime": stamp(after)}
    try:
        with refused(cluster, s3, SCRATCH, "lacks the changes from", report, cloud=cloud.namespace, **spec):
            pass
    finally:
        assert s3.request("PUT", place, body=body)[0] == 200


def test_another_password_is_refused(cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SCRATCH}})
    other = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other", "namespace": SCRATCH}}
    cluster.apply({**other, "stringData": {"password": "another one"}})
    spec = {"repository": {**own_repository(s3), "passwordRef": {"name": "other"}}, "cloud": cloud.namespace}
    with refused(cluster, s3, SCRATCH, "the password does not open the repository", report, **spec):
        pass


def test_a_backup_of_another_cloud_is_refused(cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report) -> None:
    with refused(cluster, s3, SCRATCH, f"there is no backup of cloud '{SCRATCH}'", report) as message:
        assert f"'{BACKUP}' of '{cloud.namespace}'" in message


def test_a_cloud_that_runs_is_not_overwritten(cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report) -> None:
    with refused(cluster, s3, cloud.namespace, "is not empty", report):
        pass
    live = cluster.get("persistentvolumeclaim", "data-mariadb-server-0", "-n", cloud.namespace)
    assert "deletionTimestamp" not in live["metadata"]


def test_a_schema_of_another_revision_is_refused(
    cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report
) -> None:
    # Keystone has one for each of its two branches.
    revision, *_ = sql(cluster, cloud.namespace, "SELECT version_num FROM keystone.alembic_version").split()
    change = "UPDATE keystone.alembic_version SET version_num = '{}' WHERE version_num = '{}'"
    sql(cluster, cloud.namespace, change.format("a-later-one", revision))
    spec = {"only": ["keystone"], "confirm": cloud.namespace}
    try:
        with refused(cluster, s3, cloud.namespace, r"revision \S*a-later-one\S* in the cloud", report, **spec):
            pass
    finally:
        sql(cluster, cloud.namespace, change.format(revision, "a-later-one"))
    assert not [
        name for name in sql(cluster, cloud.namespace, "SHOW DATABASES").split() if name.startswith("keystone_staged")
    ]
