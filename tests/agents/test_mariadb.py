"""The program of a cluster's member, run with the environment and the files of the plan, and a stand-in of mariadbd."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.agents.mariadb import disk, galera
from openstack_operator.plan import Release, key
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.mariadb.service import plan
from openstack_operator.testing import context
from tests import leftovers
from tools.localcluster.ports import free_port

PROGRAMS = Path(__file__).parent / "programs_of_mariadb"
WRAPPER = Path(__file__).parent / "start_member.py"
HISTORY = "11111111-0000-0000-0000-000000000000"
ANSWER = f"""\
wsrep_cluster_size\t3
wsrep_cluster_status\tPrimary
wsrep_last_committed\t7
wsrep_local_state_comment\tSynced
wsrep_local_state_uuid\t{HISTORY}
wsrep_ready\tON
encrypted\t0
"""


class Member:
    """A member's pod."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.folder = cluster.folder / name
        (self.folder / "data").mkdir(parents=True)
        self.write("status", ANSWER)
        self.process: subprocess.Popen[bytes] | None = None

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @property
    def starts(self) -> list[str]:
        """Commands with which it ran mariadbd."""
        return self.read("starts").splitlines()

    def label(self, role: str) -> None:
        """Write the label of its pod as the kubelet does."""
        path = self.folder / self.cluster.env["GALERA_ROLE"].lstrip("/")
        path.mkdir(parents=True, exist_ok=True)
        (path / "role.new").write_text(role, encoding="utf-8")
        (path / "role.new").replace(path / "role")

    def ended(self) -> set[str]:
        """Return the connections that it ended."""
        return set(re.findall(r"KILL CONNECTION (\d+);", self.read("kills")))

    def give_data(self, seqno: int, uuid: str = HISTORY) -> None:
        """Make a database that ended at a transaction; -1 is what a crash leaves."""
        (self.folder / "data" / "mysql").mkdir()
        lines = (
            "# GALERA saved state",
            "version: 2.1",
            f"uuid:    {uuid}",
            f"seqno:   {seqno}",
            "safe_to_bootstrap: 0",
        )
        self.write("data/grastate.dat", "\n".join(lines) + "\n")

    def start(self) -> None:
        command = [sys.executable, "-B", str(WRAPPER), *self.cluster.command]
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                command, env=self.cluster.environment(self), stdout=log, stderr=log, start_new_session=True
            )

    def ask(self, path: str = "/") -> tuple[int, Any]:
        """Return status and body of an answer; 0 while it does not listen."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.cluster.ports[self.name]}{path}", timeout=10
            ) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, None
        except OSError:
            return 0, None

    def is_ready(self) -> bool:
        return self.ask("/ready")[0] == 200

    def kill(self) -> None:
        """End the program, and what it started."""
        if self.process:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Cluster:
    """A cluster as it is planned, in a folder."""

    def __init__(self, release: Release, folder: Path, **spec: Any) -> None:
        objects = {key(o): o for o in plan(context(MARIADB, {"replicas": 3, **spec}, release=release)).objects}
        stateful_set = objects["StatefulSet", "mariadb-server"]
        [container] = stateful_set["spec"]["template"]["spec"]["containers"]
        program = ["tini", "--", "python3", "-B", "-m", "members.member"]
        # Behind the shell that keeps the account of backups, and becomes this program.
        command = container["command"][container["command"].index(program[0]) :]
        assert command[: len(program)] == program
        self.command = command[len(program) :]
        self.env = {entry["name"]: entry.get("value") for entry in container["env"]}
        self.folder = folder
        files = kube.secret_data(objects["Secret", "mariadb-config"])
        paths = {mount["mountPath"]: files[mount["subPath"]] for mount in container["volumeMounts"] if _is_code(mount)}
        for path, text in paths.items():
            self._write(path.lstrip("/"), text)
        self.record = kube.secret_data(objects["Secret", "mariadb-galera"])
        self.write_record()
        self.ports = {f"mariadb-server-{ordinal}": free_port() for ordinal in range(3)}
        self.members = [Member(self, name) for name in self.ports]

    def write_record(self, **changes: str) -> None:
        self.record |= changes
        for name, text in self.record.items():
            self._write(f"{self.env['GALERA_RECORD']}/{name}".lstrip("/"), text)

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def environment(self, member: Member) -> dict[str, str]:
        references = {"POD_NAME": member.name, "POD_IP": "192.0.2.1"}
        assert {name for name, value in self.env.items() if value is None} == set(references)
        env = {name: references.get(name) or value or "" for name, value in self.env.items()}
        folders = {name: f"{self.folder}{env[name]}" for name in ("PYTHONPATH", "GALERA_RECORD")}
        return {
            **leftovers.marked(),
            **env,
            **folders,
            **({"GALERA_ROLE": f"{member.folder}{env['GALERA_ROLE']}"} if "GALERA_ROLE" in env else {}),
            "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
            "MEMBER": str(member.folder),
            "CLUSTER": str(self.folder),
            "PORTS": json.dumps(self.ports),
        }

    def start(self, *ordinals: int) -> None:
        for ordinal in ordinals or range(3):
            self.members[ordinal].start()


def _is_code(mount: dict[str, Any]) -> bool:
    return str(mount.get("subPath", "")).endswith(".py")


@pytest.fixture
def cluster(release: Release, tmp_path: Path) -> Generator[Cluster]:
    cluster = Cluster(release, tmp_path)
    yield cluster
    for member in cluster.members:
        member.kill()


def wait(condition: Callable[[], object], members: Sequence[Member]) -> None:
    """Wait for a condition, for a minute at most."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, {member.name: member.read("log") for member in members}
        time.sleep(0.05)


def test_first_member_makes_the_database_and_the_others_join_it(cluster: Cluster) -> None:
    cluster.start(1, 2)
    first, *others = cluster.members
    wait(lambda: all(member.ask()[0] for member in others), others)
    assert not any(member.starts for member in others), "they wait for the member that the record names"
    cluster.start(0)
    wait(lambda: all(member.is_ready() for member in cluster.members), cluster.members)
    [start] = first.starts
    assert start.startswith(f"{cluster.command[0]} ")
    assert "--wsrep-new-cluster" in start
    assert f"--init-file={first.folder}/accounts.sql" in start
    assert "mysql@localhost IDENTIFIED VIA unix_socket" in first.read("accounts.sql")
    hosts = ",".join(f"{name}.{cluster.env['GALERA_DOMAIN']}" for name in cluster.ports)
    for member in others:
        [start] = member.starts
        assert start.startswith("mariadbd ")
        assert "--wsrep-new-cluster" not in start
    for member in cluster.members:
        options = (f"gcomm://{hosts}", f"--wsrep-node-name={member.name}", "--wsrep-node-address=192.0.2.1")
        assert all(option in member.starts[0] for option in options)


def test_the_member_with_the_last_transaction_starts_the_cluster_again(cluster: Cluster) -> None:
    cluster.write_record(seed="", uuid=HISTORY)
    for member, seqno in zip(cluster.members, (5, 7, 6), strict=True):
        member.give_data(seqno)
    cluster.start(0, 1)
    wait(lambda: all(member.ask()[0] for member in cluster.members[:2]), cluster.members)
    cluster.start(2)
    wait(lambda: all(member.is_ready() for member in cluster.members), cluster.members)
    last = cluster.members[1]
    assert (cluster.folder / "first").read_text().split() == [last.name]
    [start] = last.starts
    assert start.startswith("mariadbd "), "its data stay"
    assert "safe_to_bootstrap: 1" in last.read("grastate-of-start"), "otherwise Galera refuses"


def test_an_order_starts_the_cluster_with_the_data_of_one_member(cluster: Cluster) -> None:
    cluster.write_record(seed="", uuid=HISTORY, force="mariadb-server-0", token="order")
    member = cluster.members[0]
    member.give_data(5)
    cluster.start(0)
    wait(member.is_ready, [member])
    assert "--wsrep-new-cluster" in member.starts[0]
    wait(lambda: json.loads(member.read("data/member.json") or "{}").get("seen") == "order", [member])


def test_a_crashed_member_finds_out_its_position_before_it_starts(cluster: Cluster) -> None:
    cluster.write_record(seed="", uuid=HISTORY)
    (cluster.folder / "first").touch()
    crashed, primary = cluster.members[:2]
    crashed.give_data(-1)
    crashed.write("position", f"2026-01-01  0:00:00 0 [Note] WSREP: Recovered position: {HISTORY}:41\n")
    primary.give_data(42)
    cluster.start(0)
    wait(lambda: crashed.ask()[1] and crashed.ask()[1]["seqno"] == 41, [crashed])
    [recovery] = crashed.starts
    assert "--wsrep-recover" in recovery
    assert "--skip-networking" in recovery
    # A cluster to join: this member serves as the first of it.
    cluster.write_record(force=primary.name, token="order")
    cluster.start(1)
    wait(crashed.is_ready, [crashed, primary])
    assert f"--wsrep-start-position={HISTORY}:41" in crashed.starts[1]


def test_a_position_that_mariadbd_does_not_say_is_reported(cluster: Cluster) -> None:
    member = cluster.members[0]
    member.give_data(-1)
    member.write("position", "[ERROR] mariadbd: disk is full\n[ERROR] Aborting\n")
    cluster.start(0)
    wait(lambda: "disk is full" in member.read("log"), [member])
    wait(lambda: member.ask()[1], [member])
    wait(lambda: "disk is full" in member.ask()[1]["why"], [member])
    assert len(member.starts) == 1, "it tries again, but not at once"


OLD, NEW = "mariadbd  Ver 10.11.19-MariaDB for Linux", "mariadbd  Ver 11.8.9-MariaDB from Debian for Linux"


def joined(cluster: Cluster, version: str, note: str) -> Member:
    """A member with data that runs this version in a cluster that is there, with the note of mariadb-upgrade."""
    cluster.write_record(seed="", uuid=HISTORY)
    (cluster.folder / "first").touch()
    member = cluster.members[2]
    member.give_data(7)
    member.write("version", version)
    if note:
        member.write("data/mysql_upgrade_info", note)
    # The one to join, of which nothing is known but that it serves.
    primary = cluster.members[0]
    primary.give_data(7)
    cluster.write_record(force=primary.name, token="order")
    cluster.start(0)
    wait(primary.is_ready, [primary])
    return member


def test_a_member_of_a_new_version_serves_after_upgrading_its_system_tables(cluster: Cluster) -> None:
    member = joined(cluster, NEW, "10.11.19-MariaDB\n")
    member.start()
    wait(lambda: member.read("upgrades"), [member])
    answer = member.ask()[1]
    assert (answer["version"], answer["tables"], answer["ready"]) == ("11.8", "10.11", False)
    assert answer["why"] == "brings its system tables to MariaDB 11.8"
    assert not member.is_ready()
    member.write("upgraded", "")
    wait(lambda: "mariadb-upgrade failed: FATAL ERROR: Upgrade failed" in str(member.ask()[1]), [member])
    assert not member.is_ready()
    member.write("upgraded", "11.8.9-MariaDB\n")
    wait(member.is_ready, [member])
    wait(lambda: member.ask()[1]["tables"] == "11.8", [member])
    assert "--user=mysql" in member.read("upgrades"), "no password on a command line"


def test_a_member_of_the_same_version_upgrades_nothing(cluster: Cluster) -> None:
    member = joined(cluster, OLD, "10.11.14-MariaDB\n")
    member.start()
    wait(member.is_ready, [member])
    assert not member.read("upgrades")


def test_a_server_does_not_read_data_of_a_newer_version(cluster: Cluster) -> None:
    member = joined(cluster, OLD, "11.8.9-MariaDB\n")
    member.start()
    wait(lambda: member.ask()[1], [member])
    wait(lambda: "its data are of MariaDB 11.8, which 10.11 cannot read" in member.ask()[1]["why"], [member])
    assert not member.starts, "no program of the old version has touched them"


def test_a_member_with_foreign_data_takes_the_version_of_the_others(cluster: Cluster) -> None:
    cluster.members[0].write("version", NEW)
    cluster.members[0].write("data/mysql_upgrade_info", "11.8.9-MariaDB\n")
    member = joined(cluster, NEW, "")
    member.start()
    wait(member.is_ready, [member])
    assert not member.read("upgrades")
    assert member.read("data/mysql_upgrade_info").startswith("11.8.")


def test_a_member_with_the_data_of_an_older_one_upgrades_them(cluster: Cluster) -> None:
    cluster.members[0].write("version", OLD)
    cluster.members[0].write("data/mysql_upgrade_info", "10.11.19-MariaDB\n")
    member = joined(cluster, NEW, "")
    member.write("upgraded", "11.8.9-MariaDB\n")
    member.start()
    wait(member.is_ready, [member])
    assert member.read("upgrades")


def test_a_member_of_an_operator_without_a_fence_starts_again(cluster: Cluster) -> None:
    """Its container has the new program then, with the files and variables of its pod."""
    [program] = cluster.folder.rglob("member.py")
    for name in ("fence.py", "role.py"):
        (program.parent / name).unlink()
    del cluster.env["GALERA_ROLE"]
    cluster.start()
    wait(lambda: all(member.is_ready() for member in cluster.members), cluster.members)
    assert "role" not in cluster.members[0].ask()[1]


def test_an_unfinished_transfer_is_removed_and_the_vote_is_not(cluster: Cluster) -> None:
    member = cluster.members[0]
    cluster.write_record(seed="", uuid=HISTORY)
    member.give_data(5)
    (member.folder / "data" / ".sst").mkdir()
    memory = {"vote": "mariadb-server-1", "vote_mark": "mark", "ballot": 3, "seen": "token"}
    member.write("data/member.json", json.dumps(memory))
    cluster.start(0)
    wait(lambda: member.ask()[1] and member.ask()[1]["stage"] == "waiting", [member])
    assert [path.name for path in (member.folder / "data").iterdir()] == ["member.json"]
    answer = member.ask()[1]
    assert {name: answer[name] for name in memory} == memory
    assert answer["data"] is False


def test_a_vote_is_given_back_once_it_has_no_use(cluster: Cluster) -> None:
    """Two members wait. One has voted for the other, which is behind a third member that may come back."""
    cluster.write_record(seed="", uuid=HISTORY)
    voter, receiver, third = cluster.members
    for member, seqno in ((voter, 5), (receiver, 6), (third, 7)):
        member.give_data(seqno)
    cluster.start(1)
    wait(lambda: receiver.ask()[1] and receiver.ask()[1]["stage"] == "waiting", [receiver])
    mark = f"/{HISTORY}:6"
    voter.write("data/member.json", json.dumps({"vote": receiver.name, "vote_mark": mark, "ballot": 3, "seen": ""}))
    cluster.start(0)
    wait(lambda: voter.ask()[1] and voter.ask()[1]["vote"] == "" and voter.ask()[1]["ballot"] == 3, [voter, receiver])
    assert json.loads(voter.read("data/member.json"))["vote"] == ""
    cluster.start(2)
    wait(lambda: all(member.is_ready() for member in cluster.members), cluster.members)
    assert (cluster.folder / "first").read_text().split() == [third.name]


def test_a_member_that_starts_the_cluster_returns_no_vote(cluster: Cluster) -> None:
    cluster.write_record(seed="", uuid=HISTORY, force="mariadb-server-0", token="order")
    member = cluster.members[0]
    member.give_data(5)
    assert member.ask()[0] == 0
    cluster.start(0)
    wait(member.is_ready, [member])
    assert member.ask("/release?by=mariadb-server-1&ballot=1")[0] == 409
    assert member.ask("/alive")[0] == 200
    assert member.ask("/other")[0] == 404


def test_a_stopping_member_ends_idle_clients_and_waits_for_busy_ones(cluster: Cluster) -> None:
    cluster.write_record(seed="", uuid=HISTORY, force="mariadb-server-0", token="order")
    member = cluster.members[0]
    member.give_data(5)
    member.write("clients", "idle\t7\nbusy\t8\nidle\t9\n")
    cluster.start(0)
    wait(member.is_ready, [member])
    assert member.process
    member.process.send_signal(signal.SIGTERM)
    wait(lambda: member.read("kills"), [member])
    assert member.read("kills").split("SELECT")[0].strip() == "KILL CONNECTION 7;KILL CONNECTION 9;"
    assert member.read("signals") == "", "a client is still busy"
    member.write("clients", "")
    assert member.process.wait(60) == 0
    assert member.read("signals") == "TERM\n", "mariadbd writes down how far its data are"


def await_looks(*members: Member) -> None:
    """Wait until members looked at their state some more times."""
    looks = {member.name: len(member.read("looks").splitlines()) for member in members}
    wait(lambda: all(len(m.read("looks").splitlines()) > looks[m.name] + 3 for m in members), members)


def serving(cluster: Cluster, *roles: str) -> list[Member]:
    """Members that serve, with these labels."""
    cluster.write_record(seed="", uuid=HISTORY, force="mariadb-server-0", token="order")
    members = cluster.members[: len(roles)]
    for member, role in zip(members, roles, strict=True):
        member.give_data(5)
        member.label(role)
    cluster.start(*range(len(roles)))
    wait(lambda: all(member.is_ready() for member in members), members)
    return members


def test_a_member_that_takes_no_queries_ends_its_clients(cluster: Cluster) -> None:
    [member] = serving(cluster, "primary")
    member.write("remote-clients", "7\t-1\n8\t30\n")
    wait(lambda: member.ask()[1]["role"] == "primary", [member])
    assert not member.ended(), "they are where they should be"
    member.write("status", ANSWER.replace("Primary", "non-Primary"))
    wait(lambda: member.ended() == {"7", "8"}, [member])
    assert "ends 2 connections of clients: it takes no queries" in member.read("log")


def test_a_client_of_a_backup_is_ended_between_its_transactions(cluster: Cluster) -> None:
    _, backup = serving(cluster, "primary", "backup")
    backup.write("remote-clients", "7\t-1\n8\t30\n")
    wait(backup.ended, [backup])
    assert backup.read("kills").splitlines()[0] == "KILL CONNECTION 7; SELECT 'end';"
    assert "ends 1 connections of clients: mariadb-server-0 takes them" in backup.read("log")


def test_an_earlier_primary_ends_clients_once_the_label_moved(cluster: Cluster) -> None:
    earlier, later = serving(cluster, "primary", "backup")
    earlier.write("remote-clients", "7\t-1\n8\t30\n")
    await_looks(earlier, later)
    assert not earlier.ended()
    later.label("primary")
    later.write("remote-clients", "9\t-1\n")
    earlier.label("backup")
    wait(earlier.ended, [earlier])
    assert earlier.read("kills").splitlines()[0] == "KILL CONNECTION 7; SELECT 'end';", "8 began before"
    await_looks(later)
    assert not later.ended()


def test_a_primary_that_did_not_hear_of_a_later_one_ends_clients(cluster: Cluster) -> None:
    """It was cut off from the others and from Kubernetes meanwhile."""
    earlier, later = serving(cluster, "primary", "backup")
    earlier.write("status", ANSWER.replace("Primary", "non-Primary"))
    wait(lambda: not earlier.is_ready(), [earlier])
    later.label("primary")
    wait(lambda: later.ask()[1]["role"] == "primary", [later])
    earlier.write("status", ANSWER)
    wait(earlier.is_ready, [earlier])
    earlier.write("remote-clients", "7\t-1\n")
    wait(earlier.ended, [earlier])
    assert "ends 1 connections of clients: mariadb-server-1 takes them" in earlier.read("log")


def test_clients_stay_while_no_other_member_is_primary(cluster: Cluster) -> None:
    """The labels have not come yet, or the operator is away."""
    members = serving(cluster, "backup", "")
    for member in members:
        member.write("remote-clients", "7\t-1\n")
    await_looks(*members)
    assert not any(member.ended() for member in members)


def test_a_stopping_member_ends_new_transactions_once_another_is_primary(cluster: Cluster) -> None:
    stopping, later = serving(cluster, "primary", "backup")
    stopping.write("clients", "busy\t8\nbusy\t9\n")
    stopping.write("remote-clients", "8\t600\n9\t0\n")
    assert stopping.process
    stopping.process.send_signal(signal.SIGTERM)
    later.label("primary")
    wait(stopping.ended, [stopping])
    assert stopping.read("kills").splitlines()[0] == "KILL CONNECTION 9; SELECT 'end';"
    stopping.write("clients", "")
    assert stopping.process.wait(60) == 0


def test_a_member_remembers_its_vote_and_its_last_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "MEMORY", tmp_path / "member.json")
    me = galera.Member("a", vote="b", vote_mark="mark", ballot=3, last_order="token")
    disk.memorize(me)
    assert disk.recall(galera.Member("a")) == me
    assert disk.recall(replace(me, vote="c")) == me, "the disk counts"
    (tmp_path / "member.json").write_text("{", encoding="utf-8")
    assert disk.recall(galera.Member("a")) == galera.Member("a")


def with_data(name: str, seqno: int, *bootstraps: str) -> galera.Member:
    return galera.Member(name, data=True, uuid=HISTORY, seqno=seqno, bootstraps=bootstraps)


def in_primary(member: galera.Member) -> galera.Member:
    return replace(member, stage=galera.Stage.SERVING, status=galera.PRIMARY)


def test_a_bootstrap_without_a_member_leaves_its_later_transactions_behind() -> None:
    starter = in_primary(with_data("a", 9, *disk.with_bootstrap(with_data("a", 9))))
    for seqno, has_strayed in ((8, False), (9, False), (10, True)):
        assert disk.has_strayed(with_data("b", seqno), [starter]) is has_strayed
        assert not disk.has_strayed(replace(with_data("b", seqno), data=False), [starter]), "an empty disk has none"
    assert not disk.has_strayed(with_data("b", 10, *(starter.bootstraps or ())), [starter]), "it was part of that"
    assert disk.has_strayed(with_data("b", 10, "9@00000000"), [starter]), "another one from the same point"
    # Who started it may be away by then, and only what a component knows counts.
    joined = in_primary(replace(with_data("c", 30), bootstraps=disk.merged_bootstraps(with_data("c", 9), [starter])))
    assert disk.has_strayed(with_data("b", 10), [joined])
    assert not disk.has_strayed(with_data("b", 10), [replace(starter, status=galera.NON_PRIMARY)])


def test_a_member_that_knows_no_bootstraps_has_not_strayed() -> None:
    """It ran an earlier version, or its memory is gone with all data that a state transfer replaced."""
    starter = in_primary(with_data("a", 9, "9@00000000"))
    unknown = galera.Member("b", data=True, uuid=HISTORY, seqno=30)
    assert not disk.has_strayed(unknown, [starter])
    assert disk.merged_bootstraps(unknown, [starter]) == starter.bootstraps
    assert disk.merged_bootstraps(unknown, [replace(starter, bootstraps=None)]) is None
    assert disk.merged_bootstraps(with_data("b", 3, "2@00000000"), []) == ("2@00000000",)


def test_members_forget_the_same_bootstraps() -> None:
    first = [f"{seqno}@00000000" for seqno in range(disk.BOOTSTRAPS)]
    old, new = in_primary(with_data("a", 50, *first)), in_primary(with_data("b", 50, *first[1:], "40@00000000"))
    for me, peer in ((old, new), (new, old)):
        assert disk.merged_bootstraps(me, [peer]) == new.bootstraps
    assert not disk.has_strayed(new, [old]), "what it forgot is no news"
    assert disk.has_strayed(old, [new])
    assert len(disk.with_bootstrap(new)) == disk.BOOTSTRAPS
    assert galera.member(galera.published(old)) == old


@pytest.mark.parametrize("known", [None, 3, ["2@00000000", 4]])
def test_a_broken_memory_of_bootstraps_ends_no_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: object
) -> None:
    monkeypatch.setattr(disk, "MEMORY", tmp_path / "member.json")
    (tmp_path / "member.json").write_text(json.dumps({"bootstraps": known}), encoding="utf-8")
    assert disk.recall(galera.Member("a")).bootstraps == (("2@00000000",) if isinstance(known, list) else None)


def test_a_member_writes_its_memory_again_after_a_state_transfer(cluster: Cluster) -> None:
    """Galera's script removes all files but its own."""
    [member] = serving(cluster, "primary")
    path = member.folder / "data/member.json"
    wait(path.exists, [member])
    path.unlink()
    wait(path.exists, [member])


@pytest.mark.parametrize(("seqno", "is_kept"), [(5, True), (6, False)])
def test_a_member_with_later_data_than_a_bootstrap_gives_them_up(
    cluster: Cluster, seqno: int, *, is_kept: bool
) -> None:
    """The first member was told to start the cluster with its data, at 5."""
    members = serving(cluster, "primary", "backup")
    late = cluster.members[2]
    late.give_data(seqno)
    late.write("data/member.json", json.dumps({"seen": "order", "bootstraps": []}))
    late.start()
    wait(late.is_ready, cluster.members)
    assert (late.folder / "data/grastate.dat").exists() is is_kept
    known = members[0].ask()[1]["bootstraps"]
    assert [bootstrap.partition("@")[0] for bootstrap in known] == ["5"]
    for member in (members[1], late):
        wait(lambda member=member: member.ask()[1]["bootstraps"] == known, [member])
