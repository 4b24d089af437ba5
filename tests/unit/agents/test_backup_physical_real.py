"""A copy as mariadb-operator makes it of a real MariaDB is stored, and restored as any other database."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.unit.agents.test_backup_real import IMAGES, PASSWORD, USER, Pod, folder, restoration, with_server
from tests.unit.image_root import inside
from tests.unit.polling import TIMEOUT

pytestmark = pytest.mark.seconds
NAME = "physicalbackup-20261201120000.xb"
# The words of mariadb-operator (pkg/command/backup.go), but for the login.
COPY = """
printf "/backup/$NAME" > /copies/0-backup-target.txt
exec mariadb-backup --defaults-file=/copies/login.cnf --backup --stream=xbstream --databases-exclude='lost+found' \
    --datadir=/var/lib/mysql --target-dir=/copies/target > "/copies/$NAME"
"""
RUN = {"cloud": "openstack", "database": "mariadb", "backup": "monday", "folder": "/copies"}


@pytest.fixture(name="pod", scope="module", params=IMAGES)
def _pod(request: pytest.FixtureRequest) -> Generator[Pod]:
    yield from with_server(request.param)


@pytest.fixture(name="copies", scope="module")
def _copies(pod: Pod) -> Path:
    """The volume with the copy."""
    path = folder(pod, "copies")
    password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    login = ["[mariadb-backup]", "host=127.0.0.1", f"port={pod.port}", "user=root", f'password="{password}"', "ssl=0"]
    pod.write("/copies/login.cnf", "\n".join(login))
    with inside(pod.root, USER, "sh", "-euc", COPY, env={"NAME": NAME}) as process:
        assert process.wait(TIMEOUT) == 0
    return path


def test_a_copy_of_mariadb_operator_is_restored(pod: Pod, copies: Path) -> None:
    [[position]] = pod.execute("SELECT @@gtid_binlog_pos")
    checksum = pod.execute("CHECKSUM TABLE cloud.steady")
    result = pod.run("physical_backup", RUN)
    assert "error" not in result, result
    assert result["gtid"] == position
    assert result["server"].endswith("-MariaDB")
    assert result["bytes"] == (copies / NAME).stat().st_size
    folder(pod, "restored")
    restored = pod.run("restore", restoration(result, "/restored"))
    assert restored["schemas"] == ["cloud", "mysql", "sys"]
    second = Pod(pod.root)
    with second.server("/restored"):
        assert second.execute("CHECKSUM TABLE cloud.steady") == checksum


@pytest.mark.parametrize("size", [1, 9, 4096, 1 << 20])
def test_a_copy_that_ends_in_the_middle_is_no_backup(pod: Pod, copies: Path, size: int) -> None:
    before = pod.restic("snapshots") if (pod.root / "backup/cloud").exists() else []
    whole = (copies / NAME).read_bytes()
    (copies / NAME).write_bytes(whole[:-size])
    try:
        result = pod.run("physical_backup", RUN)
    finally:
        (copies / NAME).write_bytes(whole)
    assert "ends in the middle" in result["error"]
    assert (pod.restic("snapshots") if before else []) == before
