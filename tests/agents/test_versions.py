"""Programs that bring data of an older version to that of the server: system tables of MariaDB, schemas of OVN."""

from __future__ import annotations

from pathlib import Path

import pytest

from openstack_operator import agents
from openstack_operator.plan import Release
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.mariadb.service import plan
from openstack_operator.testing import context

from .programs import Machine, planned_container

NEW = "echo 'mariadbd  Ver 11.8.9-MariaDB-0+deb13u1 from Debian for debian-linux-gnu on x86_64'"


class Server:
    """A single server of MariaDB 11.8 on a volume."""

    def __init__(self, machine: Machine, release: Release) -> None:
        self.machine, self.mark = machine, machine.home / "upgrading"
        self.container = planned_container(plan(context(MARIADB, release=release)), "StatefulSet", "mariadb-server")
        self.password = machine.write("root", "secret")
        machine.program("mariadbd", NEW)
        machine.program("mariadb-admin")
        machine.program("mariadb-upgrade", 'cat "${1#--defaults-extra-file=}" > "$STATE/options"')
        # It runs until its system tables are upgraded, and for a second after it.
        machine.program("mariadb-start", f"for _ in 1 2 3 4 5; do [ ! -e {self.mark} ] || /bin/sleep 0.2; done")

    def holds(self, note: str, name: str = "mysql_upgrade_info") -> None:
        self.machine.write("data/mysql/db.opt")
        if note:
            self.machine.write(f"data/{name}", note)

    def run(self) -> tuple[int, str]:
        ended = self.machine.run(
            self.container,
            DATA_FOLDER=f"{self.machine.home}/data",
            UPGRADE_MARK=self.mark,
            MARIADB_ROOT_PASSWORD_FILE=self.password,
        )
        return ended.returncode, ended.stderr


@pytest.fixture
def server(machine: Machine, release: Release) -> Server:
    return Server(machine, release)


@pytest.mark.parametrize("note", ["10.11.19-MariaDB", ""])
def test_a_server_upgrades_older_system_tables_before_it_is_ready(server: Server, note: str) -> None:
    server.holds(note)
    server.machine.program("mariadb-start", f"[ -e {server.mark} ] && touch $STATE/marked; /bin/sleep 2")
    assert server.run()[0] == 0
    assert (server.machine.state / "marked").exists()
    assert server.machine.calls("mariadb-upgrade") == ["--defaults-extra-file=/dev/stdin --silent"], "no password in it"
    assert 'password="secret"' in (server.machine.state / "options").read_text()
    assert not server.mark.exists()


@pytest.mark.parametrize("note", ["11.8.6-MariaDB", "11.8.9-MariaDB-log\n"])
def test_a_server_of_the_same_version_upgrades_nothing(server: Server, note: str) -> None:
    server.holds(note, "mariadb_upgrade_info")
    server.mark.touch()
    assert server.run()[0] == 0
    assert server.machine.calls("mariadb-upgrade") == []
    assert not server.mark.exists(), "what a start left that was cut off"


def test_a_new_server_upgrades_nothing(server: Server) -> None:
    assert server.run()[0] == 0
    assert server.machine.calls("mariadb-upgrade") == []


def test_a_server_does_not_read_data_of_a_later_version(server: Server) -> None:
    server.holds("12.3.1-MariaDB\n", "mariadb_upgrade_info")
    status, errors = server.run()
    assert status == 1
    assert errors == ("the data are of MariaDB 12.3, which 11.8 cannot read; run 12.3 again, or restore a backup\n")
    assert server.machine.calls("mariadb-start") == []


@pytest.mark.parametrize(("note", "is_later"), [("11.10.1-MariaDB", True), ("9.9.1-MariaDB", False)])
def test_versions_are_compared_by_their_numbers(server: Server, note: str, *, is_later: bool) -> None:
    server.holds(note, "mariadb_upgrade_info")
    status, errors = server.run()
    assert (status, "cannot read" in errors) == ((1, True) if is_later else (0, False))
    assert bool(server.machine.calls("mariadb-start")) == (not is_later)


def test_the_probe_fails_as_long_as_system_tables_are_old(server: Server) -> None:
    probe = server.container["readinessProbe"]["exec"]["command"]
    assert probe[:2] == ["sh", "-c"]
    assert "! -e /run/mysqld/upgrading" in probe[2]
    assert probe[3:] == ["ready", "mariadb-admin", "ping"]


def test_only_a_schema_that_is_older_is_converted(machine: Machine, tmp_path: Path) -> None:
    script = 'case "$*" in *needs-conversion*nb:1*) echo yes ;; *needs-conversion*) echo no ;; esac'
    machine.program("ovsdb-client", script)
    machine.program("ovsdb-tool", "echo 7.11.0")
    words = ["OVN_Northbound", "tcp:nb:1,tcp:nb:2", "OVN_Southbound", "ssl:sb:1"]
    container = {
        "command": agents.shell("ovnnetwork/convert.sh", words=words),
        "env": [{"name": "OPTIONS", "value": "--private-key=k --certificate=c"}, {"name": "SCHEMAS", "value": "/s"}],
    }
    ended = machine.run(container)
    assert (ended.returncode, ended.stdout) == (0, "OVN_Northbound: to the schema of 7.11.0\n")
    client = "--private-key=k --certificate=c"
    assert machine.calls("ovsdb-client") == [
        f"--timeout=60 {client} needs-conversion tcp:nb:1,tcp:nb:2 /s/ovn-nb.ovsschema",
        f"--timeout=600 {client} convert tcp:nb:1,tcp:nb:2 /s/ovn-nb.ovsschema",
        f"--timeout=60 {client} needs-conversion ssl:sb:1 /s/ovn-sb.ovsschema",
    ]
    machine.program("ovsdb-client", "exit 1")
    assert machine.run(container).returncode != 0, "its Job tries again"
