"""A real MariaDB is archived while clients write, and restored to a second: it has what was acknowledged until then."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pymysql
import pytest

from openstack_operator import pki
from tests.e2e.s3 import REGION, S3Server
from tests.unit.agents.archive_programs import (
    TABLE,
    URL,
    Archiver,
    Ledger,
    archiver,
    numbers,
    replay,
    replaying,
    replica,
    writer,
)
from tests.unit.agents.test_backup_real import (
    AUTHORITY,
    BACKUP_PASSWORD,
    HOST,
    IMAGES,
    NOW,
    PASSWORD,
    Pod,
    backup,
    children,
    flip,
    folder,
    restoration,
)
from tests.unit.image_root import image_root
from tests.unit.polling import TIMEOUT, until
from tools.localcluster import build

pytestmark = pytest.mark.seconds

_SECONDS = 4
"""Seconds of the writer before and after a fault."""
_STATEMENTS = (
    "CREATE USER 'neutron'@'%' IDENTIFIED BY 'p\\'w'",
    "GRANT ALL ON cloud.* TO 'neutron'@'%'",
    "CREATE TABLE cloud.wide (id INT AUTO_INCREMENT PRIMARY KEY, noise LONGBLOB, at DATETIME(6))",
    "INSERT INTO cloud.wide (noise, at) VALUES (RANDOM_BYTES(1024), NOW(6)), (REPEAT('x', 6000000), NULL)",
    "BEGIN",
    "INSERT INTO cloud.wide (noise) SELECT noise FROM cloud.wide WHERE LENGTH(noise) < 2000",
    "SAVEPOINT one",
    "DELETE FROM cloud.wide",
    "ROLLBACK TO one",
    "COMMIT",
    "ALTER TABLE cloud.wide ADD COLUMN name VARCHAR(64) DEFAULT 'ü'",
    "CREATE TABLE cloud.copy AS SELECT id, name FROM cloud.wide",
    "CREATE TABLE cloud.aria (id INT) ENGINE=Aria",
    "INSERT INTO cloud.aria VALUES (1)",
    "CREATE VIEW cloud.names AS SELECT name FROM cloud.wide",
    "CREATE TRIGGER cloud.copies AFTER INSERT ON cloud.wide FOR EACH ROW INSERT INTO cloud.copy VALUES (NEW.id, 'b')",
    "INSERT INTO cloud.wide (name) VALUES ('a')",
    "TRUNCATE cloud.aria",
)
_CHAIN = ("chain", "begins", "lostAfter")
_CHECKSUMS = "CHECKSUM TABLE cloud.wide, cloud.copy, cloud.aria"


@dataclass
class Recorded:
    """A cloud with a backup, and an archive of what was written after it."""

    pod: Pod
    ledger: Ledger
    base: Mapping[str, Any]
    began: int
    """First second after the backup."""
    killed: int
    """Second in which the archiver was killed."""
    ended: int
    """Last second to which a restore can go."""
    chain: str
    checksums: Any

    def restore(self, data: str, second: int) -> dict[str, Any]:
        """Restore to a second; return the result once the ledger was compared."""
        folder(self.pod, data.strip("/"))
        result = replay(self.pod, self.base, data, second)
        assert "error" not in result, result
        pod = Pod(self.pod.root)
        with pod.server(data):
            self.ledger.check(numbers(pod), second)
            assert pod.execute("SELECT @@gtid_binlog_pos") == ((result["gtid"],),)
            assert pod.execute("SELECT * FROM openstack_operator.archive") == ()
            assert pod.execute(_CHECKSUMS) == self.checksums
            assert pod.execute("SHOW GRANTS FOR 'neutron'@'%'")
            assert pod.execute("SELECT COUNT(*) FROM mysql.global_priv WHERE User LIKE 'replay%'") == ((0,),)
        return result

    def refusal(self, second: int, base: Mapping[str, Any] | None = None) -> str:
        """Return why a restore is refused, which has changed nothing."""
        path = folder(self.pod, "refused")
        error = str(replay(self.pod, base or self.base, "/refused", second)["error"])
        assert list(path.iterdir()) == []
        path.rmdir()
        return error


@pytest.fixture(name="pod", scope="module", params=IMAGES)
def _pod(request: pytest.FixtureRequest) -> Generator[Pod]:
    with image_root(request.param) as root:
        if not (root / "usr/bin/restic").exists():
            pytest.skip("the image has no restic yet; python -m images build mariadb")
        pod = Pod(root)
        certificate = pki.issue(AUTHORITY, pki.Request(common="mariadb", names=frozenset({HOST})), "drawn", NOW)
        for name, text in {"tls.crt": certificate.cert, "tls.key": certificate.key}.items():
            pod.write(f"/etc/mysql/tls/{name}", text)
        pod.write("/etc/hosts", f"127.0.0.1 localhost {HOST}\n")
        pod.write("/etc/mysql/credentials/root", PASSWORD)
        pod.write("/etc/backup/credentials/password", BACKUP_PASSWORD)
        pod.write("/etc/backup/repository/password", "password of the repository")
        pod.write("/etc/backup/trust/ca.crt", AUTHORITY.cert)
        folder(pod, "backup")
        with pod.server():
            pod.execute("CREATE DATABASE cloud", TABLE)
            yield pod


@pytest.fixture(name="recorded", scope="module")
def _recorded(pod: Pod) -> Recorded:
    """A writer, under which a backup is made, and the archiver is killed."""
    ledger = Ledger()
    with writer(pod.connect, ledger):
        with archiver(pod) as first:
            base = pod.run("database", backup(pod, "base"))
            assert "error" not in base, base
            pod.execute(*_STATEMENTS)
            checksums = pod.execute(_CHECKSUMS)
            began = int(time.time()) + 1
            first.await_second(began + _SECONDS)
            chain = first.facts()["chain"]
            killed = int(time.time())
            first.kill()
        with archiver(pod) as second:
            second.await_second(killed + _SECONDS)
            assert second.facts()["chain"] == chain
            assert not {"error", "lostAfter"} & second.facts().keys()
            ended = second.recoverable()
            second.end()
    return Recorded(pod, ledger, base, began, killed, ended, chain, checksums)


def chain_folder(pod: Pod, chain: str) -> Path:
    return pod.root / f"{URL.lstrip('/')}/archive/openstack/mariadb/{chain}"


def test_a_restore_has_what_was_acknowledged_until_the_second_ended(recorded: Recorded) -> None:
    seconds = {recorded.began, recorded.killed, recorded.ended, random.randint(recorded.began, recorded.ended)}
    chains: list[str] = []
    for second in sorted(seconds):
        chains.append(recorded.restore(f"/to-{second}", second)["chain"])
        shutil.rmtree(recorded.pod.root / f"to-{second}")
    assert chains == [recorded.chain] * len(seconds)


def test_a_replay_that_is_killed_begins_again(recorded: Recorded) -> None:
    data = folder(recorded.pod, "killed")
    with replaying(recorded.pod, recorded.base, "/killed", recorded.ended) as process:
        # The log of the replay begins with it.
        until("a part of it", lambda: process.poll() is not None or (data / "binlog.000001").exists())
        assert process.poll() is None
        for child in children(process.pid):
            os.kill(child, signal.SIGKILL)
        process.wait(TIMEOUT)
    assert (data / ".restoring").exists()
    assert "error" not in replay(recorded.pod, recorded.base, "/killed", recorded.ended)
    pod = Pod(recorded.pod.root)
    with pod.server("/killed"):
        recorded.ledger.check(numbers(pod), recorded.ended)
    shutil.rmtree(data)


def test_a_restore_that_is_not_exact_changes_nothing(recorded: Recorded) -> None:
    pod = recorded.pod
    assert "cannot prove that nothing of" in recorded.refusal(recorded.ended + 3600)
    assert "the backup has changes later than" in recorded.refusal(recorded.began - 3600)
    objects = sorted(chain_folder(pod, recorded.chain).iterdir())
    lost, kept = objects[-3], pod.root / "kept"
    shutil.copy2(lost, kept)
    flip(lost)
    assert f"{lost.name} of the archive is damaged" in recorded.refusal(recorded.ended)
    lost.unlink()
    assert "lacks the changes from" in recorded.refusal(recorded.ended)
    shutil.copy2(kept, lost)
    os.chown(lost, 999, 999)
    pod.write("/etc/backup/repository/password", "another one")
    try:
        assert "the password does not open the repository" in recorded.refusal(recorded.ended)
    finally:
        pod.write("/etc/backup/repository/password", "password of the repository")


def test_a_position_that_is_not_that_of_the_data_is_refused(recorded: Recorded) -> None:
    """Changes would be left out, or made twice."""
    pod = recorded.pod
    before, _, number = recorded.base["gtid"].rpartition("-")
    for gtid in (f"{before}-{int(number) + 20}", f"{before}-{int(number) - 20}"):
        path = folder(pod, "position")
        error = replay(pod, {**recorded.base, "gtid": gtid}, "/position", recorded.killed)["error"]
        assert f"the data end at change '{recorded.base['gtid']}'" in error
        assert (path / ".restoring").exists()
        shutil.rmtree(path)


def test_changes_that_no_log_has_any_more_are_a_gap(recorded: Recorded) -> None:
    pod, ledger = recorded.pod, recorded.ledger
    with writer(pod.connect, ledger):
        begin = len(ledger.entries)
        until("changes that are lost", lambda: len(ledger.entries) > begin + 100)

    def purge() -> bool:
        """Remove all files of the log but one; the server keeps those that a connection reads, also one that ended."""
        pod.execute("FLUSH BINARY LOGS")
        [*_, [newest, _]] = pod.execute("SHOW BINARY LOGS")
        pod.execute(f"PURGE BINARY LOGS TO '{newest}'")
        return len(pod.execute("SHOW BINARY LOGS")) == 1

    until("a log without these changes", purge)
    with writer(pod.connect, ledger), archiver(pod) as after:
        lost_after = another_chain(after, recorded.chain)["lostAfter"]
        base = pod.run("database", backup(pod, "after-the-gap"))
        second = int(time.time()) + 2
        after.await_second(second)
    assert f"the changes after {lost_after} are lost" in recorded.refusal(second)
    replace(recorded, base=base).restore("/after-the-gap", second)
    shutil.rmtree(pod.root / "after-the-gap")


def test_a_restored_database_has_an_archive_of_its_own(recorded: Recorded) -> None:
    recorded.restore("/restored", recorded.killed)
    pod, ledger = Pod(recorded.pod.root), Ledger()
    with pod.server("/restored"):
        ledger.entries = recorded.ledger.entries[: len(numbers(pod))]
        with writer(pod.connect, ledger), archiver(pod) as restored:
            facts = restored.facts()
            # Its changes have the numbers of changes that the other archive has, too.
            assert facts["chain"] != recorded.chain
            assert "lostAfter" not in facts
            base = pod.run("database", backup(pod, "of-the-restored"))
            second = int(time.time()) + 2
            restored.await_second(second)
            last = restored.end()["chain"]
    one = replace(recorded, ledger=ledger, base=base).restore("/restored-again", second)
    assert one["chain"] == last
    shutil.rmtree(pod.root / "restored-again")
    # The other archive is what it was.
    recorded.restore("/before", recorded.ended)
    shutil.rmtree(pod.root / "before")
    lose_changes(pod, ledger, last)


def another_chain(one: Archiver, chain: str) -> dict[str, Any]:
    """Return the status of an archiver once it has stored something in another chain."""
    until("another chain", lambda: one.facts().get("chain") != chain and one.facts().get("lastRecoverableTime"))
    return one.facts()


def lose_changes(pod: Pod, ledger: Ledger, chain: str) -> None:
    """A copy of a volume takes the place of the database, whose last changes it does not have, and takes others."""
    subprocess.run(["cp", "-a", str(pod.root / "restored"), str(pod.root / "copied")], check=True)
    one = Pod(pod.root)
    with one.server("/restored"), writer(one.connect, ledger), archiver(one) as longer:
        assert longer.facts()["chain"] == chain
        longer.await_second(time.time() + 2)
        end = longer.end()["gtid"]
    with one.server("/copied"):
        begin = len(numbers(one))
        number, last = (int(gtid.rpartition("-")[2]) for gtid in (one.execute("SELECT @@gtid_binlog_pos")[0][0], end))
        values = [f"INSERT INTO cloud.numbers VALUES ({begin + each}, '', '')" for each in range(last - number + 10)]
        one.execute(*values)
        with archiver(one) as other:
            assert "lostAfter" not in another_chain(other, chain)


def test_an_archive_follows_the_primary_to_another_member(recorded: Recorded) -> None:
    """The log of that one has other files, which begin with what it received."""
    pod, ledger, seconds = recorded.pod, Ledger(), list[int]()
    pod.execute("DELETE FROM cloud.numbers")
    with archiver(pod) as one:
        with writer(pod.connect, ledger):
            base = pod.run("database", backup(pod, "before-the-change"))
            assert "error" not in base, base
            folder(pod, "replica")
            assert "error" not in pod.run("restore", restoration(base, "/replica"))
            seconds.append(int(time.time()) + 2)
            one.await_second(seconds[0])
            before = one.facts()
        with replica(pod, "/replica", "127.0.0.2", base["gtid"]) as connect, connect() as member:
            take_over(pod, member)
            with writer(connect, ledger):
                seconds.append(int(time.time()) + 2)
                one.await_second(seconds[1])
            facts = one.end()
            pod.write("/etc/hosts", f"127.0.0.1 localhost {HOST}\n")
    assert [facts.get(name) for name in _CHAIN] == [before.get(name) for name in _CHAIN]
    assert facts["gtid"].startswith("0-2-")
    for number, second in enumerate(seconds):
        one_of_both = replace(recorded, ledger=ledger, base=base).restore(f"/changed-{number}", second)
        assert one_of_both["chain"] == before["chain"]
        shutil.rmtree(pod.root / f"changed-{number}")


def take_over(pod: Pod, member: Any) -> None:
    """Make a member the primary, once it has all changes; connections to the other one are ended before."""
    rows = pod.execute("SELECT chain, begins, after, lost_after FROM openstack_operator.archive")
    # Nobody listens there.
    pod.write("/etc/hosts", f"127.0.0.1 localhost\n127.0.0.3 {HOST}\n")
    for [number] in pod.execute("SELECT id FROM information_schema.processlist WHERE id != CONNECTION_ID()"):
        with suppress(pymysql.err.Error):
            pod.execute(f"KILL {number}")
    with member.cursor() as cursor:

        def position() -> str:
            cursor.execute("SELECT @@gtid_binlog_pos")
            return str(cursor.fetchall()[0][0])

        until("all changes", lambda: position() == pod.execute("SELECT @@gtid_binlog_pos")[0][0])
        cursor.execute("STOP SLAVE")
        # A restore has emptied it, and this member was none.
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute("REPLACE INTO openstack_operator.archive VALUES (1, %s, %s, %s, %s)", rows[0])
    pod.write("/etc/hosts", f"127.0.0.1 localhost\n127.0.0.2 {HOST}\n")


# A bucket.


@pytest.fixture(name="server")
def _server(tmp_path: Path) -> Generator[S3Server]:
    try:
        build.binary("s3", "versitygw")
    except build.BuildError as error:
        pytest.skip(str(error))
    with S3Server(tmp_path / "s3", mebibytes=64) as server:
        server.create_bucket("backups")
        yield server


def test_an_archive_in_a_bucket_outlives_outages(recorded: Recorded, server: S3Server) -> None:
    pod, ledger = recorded.pod, Ledger()
    # Numbers of other tests may have holes.
    pod.execute("DELETE FROM cloud.numbers")
    repository = {"url": f"s3:{server.url}/backups/cloud", "pathStyle": True, "region": REGION}
    for name, text in {"accessKey": server.access_key, "secretKey": server.secret_key}.items():
        pod.write(f"/etc/backup/repository/{name}", text)
    pod.write("/etc/backup/repository/ca.crt", server.authority.read_text(encoding="utf-8"))
    with writer(pod.connect, ledger, pause=0.01), archiver(pod, **repository) as one:
        chain = one.facts()["chain"]
        base = pod.run("database", backup(pod, "in-the-bucket"), **repository)
        assert "error" not in base, base
        outage(one, server.stop, server.start)
        ballast = server.buckets / "backups/ballast"
        outage(one, lambda: fill(ballast), ballast.unlink)
        second = int(time.time())
        one.await_second(second)
        assert one.end()["chain"] == chain
    data = folder(pod, "from-the-bucket")
    result = replay(pod, base, "/from-the-bucket", second, **repository)
    assert result.get("chain") == chain, result
    other = Pod(pod.root)
    with other.server("/from-the-bucket"):
        ledger.check(numbers(other), second)
    shutil.rmtree(data)


def outage(one: Archiver, begin: Any, end: Any) -> None:
    """Wait until the archiver says that it cannot write, and until it has caught up."""
    begin()
    until("an error", lambda: one.facts().get("error"))
    last = one.recoverable()
    end()
    one.await_second(max(last + 1, int(time.time())))


def fill(ballast: Path) -> None:
    with ballast.open("wb") as file:
        try:
            while True:
                file.write(bytes(1 << 12))
                file.flush()
        except OSError:
            pass
