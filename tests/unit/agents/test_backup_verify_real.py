"""A backup is restored and used: a real MariaDB, and a test in the place of Keystone's program."""

from __future__ import annotations

import base64
import gzip
import json
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from tests.unit.agents import test_backup_real as real
from tests.unit.agents.test_backup_real import Pod
from tests.unit.polling import until

pytestmark = pytest.mark.seconds

FOUND = {"users": 3, "projects": 2, "credentials": 1}
KEK = Fernet.generate_key().decode()
KEYS = {"keystone-credential-keys": {"0": "a", "1": "b"}, "barbican-kek": {"kek.1": KEK}}
OVSDB = b"OVSDB JSON 2 bf21a9e8fbc5a3846fb05b4fa0859e0917b2202f\n{}"


@pytest.fixture(name="pod", scope="module")
def _pod() -> Generator[Pod]:
    yield from real.with_server()


@pytest.fixture(name="database", scope="module")
def _database(pod: Pod) -> dict[str, Any]:
    """The entry of a database in a manifest, with a table of Keystone's and one of Barbican's."""
    sealed = Fernet(KEK).encrypt(b"key of a project").decode()
    pod.execute(
        "CREATE DATABASE barbican",
        "CREATE TABLE barbican.kek_data (plugin_name TEXT, plugin_meta TEXT, deleted INT)",
        "CREATE TABLE barbican.secret_store_metadata (id INT)",
        f"INSERT INTO barbican.kek_data VALUES ('a.SimpleCryptoPlugin', '{sealed}', 0), ('vault', 'no token', 0)",
        "CREATE DATABASE keystone",
        "CREATE TABLE keystone.local_user (id INT)",
        "CREATE TABLE keystone.alembic_version (version_num VARCHAR(32))",
        "INSERT INTO keystone.alembic_version VALUES ('99de'), ('c88c')",
    )
    return stored(pod, "all")


def stored(pod: Pod, name: str) -> dict[str, Any]:
    result = pod.run("database", real.backup(pod, name))
    assert "error" not in result, result
    return {"name": "mariadb", **{field: result[field] for field in ("snapshot", "server", "gtid")}}


def backed_up(
    pod: Pod,
    name: str,
    database: Mapping[str, Any],
    keys: Mapping[str, Any] = KEYS,
    northbound: bytes = OVSDB,
    images: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Make a backup whole; return the settings of its verification."""
    objects = [
        {"kind": "Secret", "metadata": {"name": secret}, "data": {k: encoded(v) for k, v in files.items()}}
        for secret, files in keys.items()
    ]
    (pod.root / "etc/backup/contents").mkdir(exist_ok=True)
    packed = gzip.compress(json.dumps({"format": 1, "objects": objects}).encode())
    (pod.root / "etc/backup/contents/contents.json.gz").write_bytes(packed)
    shared = empty(pod)
    (shared / "ovn.ovsdb").write_bytes(northbound)
    (shared / "facts.json").write_text("{}")
    run = {"backup": name, "cloud": "openstack", "folder": "/var/lib/backup"}
    network = pod.run("store", {**run, "kind": "northbound", "name": "ovn", "file": "ovn.ovsdb"})
    networks = [{"name": "ovn", "snapshot": network["snapshot"]}]
    manifest = {"began": "2026-06-01T00:00:00Z", "databases": [database], "networks": networks, "images": list(images)}
    assert "error" not in pod.run("manifest", {**run, "manifest": manifest})
    empty(pod)
    return {**run, "identity": True}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def empty(pod: Pod) -> Path:
    path = pod.root / "var/lib/backup"
    if path.exists():
        path.rename(pod.root / f"var/lib/backup-{len(list(path.parent.iterdir()))}")
    return real.folder(pod, "var/lib/backup")


@contextmanager
def keystone(pod: Pod, answer: Mapping[str, Any]) -> Generator[dict[str, Any]]:
    """Answer in the place of the program in Keystone's image; yield what it was asked, and the keys that it got."""
    folder, asked = pod.root / "var/lib/backup", dict[str, Any]()

    def reply() -> None:
        until("a question", lambda: (folder / "identity.json").exists() or (folder / "ended").exists())
        if (folder / "ended").exists():
            return
        asked.update(json.loads((folder / "identity.json").read_text()))
        keys = folder / "keys"
        asked["files"] = {str(path.relative_to(keys)): path.read_text() for path in keys.rglob("*") if path.is_file()}
        (folder / "answer").write_text(json.dumps(answer))
        (folder / "answer").rename(folder / "identity.answer")

    thread = threading.Thread(target=reply)
    thread.start()
    yield asked
    thread.join()


def test_a_backup_is_restored_and_used(pod: Pod, database: Mapping[str, Any]) -> None:
    run = backed_up(pod, "good", database)
    with keystone(pod, FOUND) as asked:
        result = pod.run("verify", run)
    assert {name: result.get(name) for name in FOUND} == FOUND, result
    assert result["objects"] == len(KEYS)
    assert result["revisions"] == {"keystone": "99de,c88c"}
    assert result["decrypted"] == 1
    assert asked["schema"] == "keystone"
    files = asked["files"]
    assert (files["credential/0"], files["credential/1"]) == ("a", "b")
    # Those of tokens are new.
    assert {name: len(base64.urlsafe_b64decode(files[f"fernet/{name}"])) for name in "01"} == {"0": 32, "1": 32}
    # No server runs on, and nothing that was restored stays.
    assert not list((pod.root / "tmp").rglob("ibdata1"))


def test_keystone_cannot_use_what_was_restored(pod: Pod, database: Mapping[str, Any]) -> None:
    run = backed_up(pod, "undecryptable", database)
    with keystone(pod, {"error": "CredentialEncryptionError: no key"}):
        result = pod.run("verify", run)
    assert "Keystone cannot use the restored database and keys: CredentialEncryptionError" in result["error"]


@pytest.mark.parametrize(
    "keys", [{}, {"keystone-credential-keys": {"note": "x"}}, {name: KEYS[name] for name in KEYS if "kek" not in name}]
)
def test_a_backup_without_keys_is_refused(pod: Pod, database: Mapping[str, Any], keys: Mapping[str, Any]) -> None:
    run = backed_up(pod, f"without-{len(str(keys))}", database, keys)
    with keystone(pod, FOUND):
        assert "key" in pod.run("verify", run)["error"]


def test_an_empty_database_is_refused(pod: Pod, database: Mapping[str, Any]) -> None:
    del database
    pod.execute("DELETE FROM keystone.alembic_version")
    run = backed_up(pod, "no-revision", stored(pod, "no-revision"))
    with keystone(pod, FOUND):
        assert "the restored schema keystone has no revision" in pod.run("verify", run)["error"]
    pod.execute("DROP DATABASE keystone")
    run = backed_up(pod, "no-schema", stored(pod, "no-schema"))
    with keystone(pod, FOUND):
        assert "no restored database has the tables of Keystone" in pod.run("verify", run)["error"]


@pytest.mark.parametrize("northbound", [b"", OVSDB[:-1], OVSDB.replace(b"{}", b"[]"), OVSDB + b"more"])
def test_a_damaged_northbound_database_is_refused(pod: Pod, database: Mapping[str, Any], northbound: bytes) -> None:
    run = backed_up(pod, f"northbound-{len(northbound)}-{northbound[-2:].hex()}", database, northbound=northbound)
    with keystone(pod, FOUND):
        assert "northbound database of ovn" in pod.run("verify", run)["error"]
