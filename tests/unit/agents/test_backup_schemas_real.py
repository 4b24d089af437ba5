"""Schemas of a backup replace those of a real MariaDB that serves its clients."""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any

import pymysql
import pytest

from tests.unit.agents import test_backup_real as real
from tests.unit.agents.test_backup_real import PASSWORD, Pod
from tests.unit.polling import until

pytestmark = pytest.mark.seconds

REVISION = "REPLACE INTO keystone.alembic_version VALUES ('c88c')"
CONSTRAINT = """SELECT unique_constraint_schema FROM information_schema.referential_constraints
    WHERE constraint_schema = '{}'"""


@pytest.fixture(name="pod", scope="module")
def _pod() -> Generator[Pod]:
    yield from real.with_server()


@pytest.fixture(name="cloud")
def _cloud(pod: Pod) -> Generator[Pod]:
    """A server with the schemas of two services."""
    pod.execute(
        "CREATE DATABASE keystone CHARACTER SET utf8mb3",
        "CREATE TABLE keystone.alembic_version (version_num VARCHAR(32) PRIMARY KEY)",
        REVISION,
        "CREATE TABLE keystone.project (id VARCHAR(8) PRIMARY KEY, name TEXT, noise BLOB)",
        "CREATE TABLE keystone.user (id INT PRIMARY KEY, project VARCHAR(8), KEY (project),"
        " CONSTRAINT of_project FOREIGN KEY (project) REFERENCES project (id))",
        "INSERT INTO keystone.project VALUES ('one', 'Zürich \\'\\\\ \\n', X'00ff0d0a1a')",
        "INSERT INTO keystone.user VALUES (1, 'one'), (2, 'one')",
        "CREATE DATABASE glance",
        "CREATE TABLE glance.images (id INT PRIMARY KEY)",
        "INSERT INTO glance.images VALUES (7)",
    )
    yield pod
    schemas = [name for [name] in pod.execute("SHOW DATABASES") if name.startswith(("keystone", "glance"))]
    pod.execute("SET foreign_key_checks = 0", *(f"DROP DATABASE {name}" for name in schemas))


def order(pod: Pod, backup: dict[str, Any], *schemas: str, uid: str = "0a1b2c3d-4e") -> dict[str, Any]:
    """Return the settings of a restore of schemas, of which no other has used the folder."""
    folder = f"/var/lib/backup-{len(list((pod.root / 'var/lib').iterdir()))}"
    real.folder(pod, folder.lstrip("/"))
    pod.write("/etc/backup/admin/password", PASSWORD)
    login = {"host": real.HOST, "port": pod.port, "user": "root", "tls": True}
    scratch = {"folder": folder, "schemas": list(schemas)}
    return real.restoration(backup, f"{folder}/data", restore=uid, **login, **scratch)


def taken(pod: Pod, name: str) -> dict[str, Any]:
    """Take a backup; return its result."""
    result = pod.run("database", real.backup(pod, name))
    assert "error" not in result, result
    return result


def test_a_schema_returns_and_others_stay(cloud: Pod) -> None:
    before = cloud.execute("CHECKSUM TABLE keystone.project, keystone.user")
    backup = taken(cloud, "one-schema")
    cloud.execute("DELETE FROM keystone.user WHERE id = 2", "INSERT INTO glance.images VALUES (8)")
    stop, errors, answers = threading.Event(), list[Exception](), set[int]()

    def read() -> None:
        try:
            with cloud.connect() as connection, connection.cursor() as cursor:
                while not stop.is_set():
                    cursor.execute("SELECT COUNT(*) FROM keystone.user JOIN keystone.project ON project = project.id")
                    answers.add(cursor.fetchone()[0])
        except pymysql.err.Error as error:
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    run = order(cloud, backup, "keystone")
    result = cloud.run("schema_restore", run)
    stop.set()
    reader.join()
    assert (errors, answers) == ([], {1, 2})
    assert result.get("places") == [
        {"name": "keystone", "tables": 3, "rows": 4, "earlier": "keystone_before_0a1b2c3d"}
    ], result
    assert result["gtid"] == backup["gtid"]
    assert cloud.execute("CHECKSUM TABLE keystone.project, keystone.user") == before
    assert cloud.execute("SELECT id FROM keystone_before_0a1b2c3d.user") == ((1,),)
    assert cloud.execute("SELECT COUNT(*) FROM glance.images") == ((2,),)
    assert cloud.execute(CONSTRAINT.format("keystone")) == (("keystone",),)
    assert cloud.execute(CONSTRAINT.format("keystone_before_0a1b2c3d")) == (("keystone_before_0a1b2c3d",),)
    assert cloud.execute("SELECT @@character_set_database", "USE keystone", "SELECT @@character_set_database") == (
        ("utf8mb3",),
    )
    assert [name for [name] in cloud.execute("SHOW DATABASES") if "staged" in name] == []
    with pytest.raises(pymysql.err.IntegrityError):
        cloud.execute("INSERT INTO keystone.user VALUES (3, 'none')")
    # Its result was lost: what users did since stays.
    cloud.execute("INSERT INTO keystone.user VALUES (9, 'one')")
    assert cloud.run("schema_restore", order(cloud, backup, "keystone")) == result
    assert cloud.execute("SELECT COUNT(*) FROM keystone.user") == ((3,),)


def test_schemas_that_are_gone_are_made_again(cloud: Pod) -> None:
    backup = taken(cloud, "gone")
    cloud.execute("DROP DATABASE keystone", "DELETE FROM glance.images")
    result = cloud.run("schema_restore", order(cloud, backup, "keystone", "glance", uid="ffffffff"))
    assert [each["name"] for each in result.get("places", ())] == ["keystone", "glance"], result
    assert cloud.execute("SELECT id FROM keystone.user") == ((1,), (2,))
    assert cloud.execute("SELECT id FROM glance.images") == ((7,),)


def test_a_killed_restore_changes_nothing_and_begins_again(cloud: Pod) -> None:
    backup = taken(cloud, "killed")
    cloud.execute("DELETE FROM keystone.user WHERE id = 2")
    with cloud.connect() as connection, connection.cursor() as cursor:
        # A transaction that does not end keeps the table in its place.
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM keystone.user")
        cloud.configure(order(cloud, backup, "keystone"))
        with cloud.start("schema_restore") as process:
            waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table%'"
            until("the change of places to wait", lambda: cloud.execute(waits) != ((0,),))
            for child in real.children(process.pid):
                real.os.kill(child, real.signal.SIGKILL)
            process.kill()
        # The server goes on with what it was told, for some seconds.
        until("its statement to end", lambda: cloud.execute(waits) == ((0,),))
    assert cloud.execute("SELECT COUNT(*) FROM keystone.user") == ((1,),)
    assert "error" not in cloud.run("schema_restore", order(cloud, backup, "keystone"))
    assert cloud.execute("SELECT COUNT(*) FROM keystone.user") == ((2,),)


def test_a_transaction_that_does_nothing_gives_way(cloud: Pod) -> None:
    backup = taken(cloud, "idle")
    cloud.execute("DELETE FROM keystone.user WHERE id = 2")
    with cloud.connect() as connection, connection.cursor() as cursor:
        cursor.execute("USE keystone")
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM user")
        result = cloud.run("schema_restore", order(cloud, backup, "keystone"))
        assert "error" not in result, result
        with pytest.raises(pymysql.err.Error):
            cursor.execute("SELECT 1")
    assert cloud.execute("SELECT COUNT(*) FROM keystone.user") == ((2,),)


def test_another_revision_is_refused(cloud: Pod) -> None:
    backup = taken(cloud, "revision")
    cloud.execute("UPDATE keystone.alembic_version SET version_num = 'later'")
    error = cloud.run("schema_restore", order(cloud, backup, "glance", "keystone"))["error"]
    assert "revision later in the cloud and c88c in the backup" in error
    assert [name for [name] in cloud.execute("SHOW DATABASES") if "_" in name and "keystone" in name] == []


@pytest.mark.parametrize(
    ("schema", "statement", "reason"),
    [
        ("nova_api", "SELECT 1", "the backup has no schema nova_api"),
        ("keystone", "CREATE VIEW keystone.some AS SELECT id FROM keystone.user", "the cloud has views"),
        (
            "keystone",
            "CREATE TRIGGER keystone.t BEFORE INSERT ON keystone.user FOR EACH ROW SET @a = 1",
            "has triggers",
        ),
    ],
)
def test_a_schema_that_cannot_change_places_is_refused(cloud: Pod, schema: str, statement: str, reason: str) -> None:
    backup = taken(cloud, f"unfit-{schema}-{len(reason)}")
    cloud.execute(statement)
    assert reason in cloud.run("schema_restore", order(cloud, backup, schema))["error"]
