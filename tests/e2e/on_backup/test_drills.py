"""Backups of a schedule are restored one after the other: one that lacks a key or its data is named within a period."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

import pytest
from cryptography.fernet import Fernet

from tools.cloud import proof
from tools.cloud.session import Cloud, Session
from tools.cloud.view import conditions
from tools.localcluster.kubernetes import Kubernetes, ours

from ..conftest import Report
from ..facts import sql
from ..s3 import S3Server
from ..waiting import until
from .test_backup import repository, resource, secrets

DRILL, PERIOD = "drill", 120
_SLACK = 120
"""Seconds that a backup and its verification take besides the period, on a busy machine."""
_LOGIN = 'export MYSQL_PWD=$(cat /etc/mysql/credentials/root); exec "$0" -u root -S /run/mysqld/mysqld.sock "$@"'


@pytest.fixture(scope="module", autouse=True)
def _schedule(stood: tuple[Session, Cloud], s3: S3Server) -> None:
    session, cloud = stood
    cluster = session.cluster
    cluster.apply(*secrets(s3, cloud.namespace))
    folder = {"s3": repository(s3)["s3"] | {"folder": "clouds/drill"}}
    spec = {
        "schedule": "*/2 * * * *",
        "repository": repository(s3) | folder,
        "verify": True,
        "include": {"images": False},
    }
    cluster.apply(resource("OpenStackBackupSchedule", DRILL, cloud.namespace, spec))
    verdict(cluster, cloud, "True", time.time())


def verdict(cluster: Kubernetes, cloud: Cloud, status: str, since: float) -> tuple[str, float]:
    """Return the message of RestoreVerified once it has a status, and the seconds since a time."""

    def message() -> str:
        live = cluster.get(ours("openstackbackupschedule"), DRILL, "-n", cloud.namespace)
        verified = conditions(live).get("RestoreVerified", {})
        return str(verified.get("message") or "-") if verified.get("status") == status else ""

    said = until(f"RestoreVerified to be {status}", message, 2 * PERIOD + _SLACK, 1)
    return said, round(time.time() - since)


def in_database(cluster: Kubernetes, cloud: Cloud, *command: str, stdin: str = "") -> str:
    """Return what a client of MariaDB prints in the pod of the server, as root."""
    pod = ("exec", "-i", "-n", cloud.namespace, "mariadb-server-0", "--", "sh", "-ec")
    return cluster.kubectl(*pod, _LOGIN, *command, stdin=stdin, timeout=120)


def test_a_missing_key_is_named_within_a_period(cluster: Kubernetes, cloud: Cloud, report: Report) -> None:
    """A stored credential, encrypted by a key that no Secret of the backup has."""
    api: Any = proof.connect(cluster, cloud.namespace)
    blob = json.dumps({"access": uuid.uuid4().hex, "secret": uuid.uuid4().hex})
    user = api.current_user_id
    credential = api.identity.create_credential(type="ec2", blob=blob, user_id=user, project_id=api.current_project_id)
    where = f"WHERE id = '{credential.id}'"
    [row] = sql(cluster, cloud.namespace, f"SELECT encrypted_blob FROM keystone.credential {where}").splitlines()
    began = time.time()
    foreign = Fernet(Fernet.generate_key()).encrypt(blob.encode()).decode()
    update = "UPDATE keystone.credential SET encrypted_blob = '{}' {}"
    sql(cluster, cloud.namespace, update.format(foreign, where))
    try:
        said, seconds = verdict(cluster, cloud, "False", began)
    finally:
        sql(cluster, cloud.namespace, update.format(row, where))
    report.add(drill_without_a_key=said, drill_without_a_key_seconds=seconds)
    assert "stored credentials are encrypted with a key that the backup does not have" in said
    assert seconds <= PERIOD + _SLACK
    verdict(cluster, cloud, "True", time.time())


def test_an_empty_database_is_named_within_a_period(cluster: Kubernetes, cloud: Cloud, report: Report) -> None:
    """All tables of Keystone are gone while the backup is made."""
    dump = in_database(cluster, cloud, "mariadb-dump", "--single-transaction", "keystone")
    names = sql(cluster, cloud.namespace, "SHOW TABLES FROM keystone").split()
    tables = ", ".join(f"keystone.{name}" for name in names)
    began = time.time()
    sql(cluster, cloud.namespace, f"SET FOREIGN_KEY_CHECKS = 0; DROP TABLE {tables}")
    try:
        said, seconds = verdict(cluster, cloud, "False", began)
    finally:
        in_database(cluster, cloud, "mariadb", "keystone", stdin=dump)
    report.add(drill_of_an_empty_database=said, drill_of_an_empty_database_seconds=seconds)
    assert "the backup is of an empty database" in said
    assert seconds <= PERIOD + _SLACK
    verdict(cluster, cloud, "True", time.time())
    cluster.kubectl("delete", ours("openstackbackupschedule"), DRILL, "-n", cloud.namespace)
    assert proof.connect(cluster, cloud.namespace).authorize()
