"""The check of a release before an upgrade, with fakes of what a service's image has."""

from __future__ import annotations

import sqlite3
import subprocess
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from openstack_operator import agents

from .programs import Machine

CFG = """
import configparser

StrOpt = lambda name, secret: name

class ConfigOpts:
    def register_opt(self, option, group):
        pass

    def __call__(self, arguments, *, prog, default_config_files, default_config_dirs):
        self.parser = configparser.ConfigParser()
        self.parser.read(default_config_files)

    def __getitem__(self, section):
        return type("Section", (), dict(self.parser[section]))
"""
SQLALCHEMY = """
import sqlite3
from contextlib import contextmanager

text = str

class Engine:
    def __init__(self, url):
        self.url = url

    @contextmanager
    def connect(self):
        database = sqlite3.connect(self.url)
        database.create_function("DATABASE", 0, lambda: "neutron")
        database.execute(f"ATTACH '{self.url}' AS information_schema")
        yield database
        database.close()

create_engine = Engine
"""
SERVICE = """
OLDEST_SUPPORTED_SERVICE_VERSION = "Epoxy"
SERVICE_VERSION_ALIASES = {"Epoxy": 68}
"""
NOW = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
YESTERDAY = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d %H:%M:%S}"
CHECK = ["nova-status", "upgrade", "check"]


def _cell(text: str) -> str:
    return "\n".join(f"| {line:<70} |" for line in text.splitlines())


class Check:
    """The check of a service on a machine of fakes."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.message, self.has_facts = machine, machine.home / "message", False
        machine.module("oslo_config/__init__.py", "")
        machine.module("oslo_config/cfg.py", CFG)
        machine.module("sqlalchemy.py", SQLALCHEMY)
        machine.module("nova/__init__.py", "")
        machine.module("nova/objects/__init__.py", "")
        machine.module("nova/objects/service.py", SERVICE)
        self.says({"Cells v2": ("Success", "None")})

    def says(self, checks: dict[str, tuple[str, str]]) -> None:
        """Let the service's own check say this: result and details by name, as its table has them."""
        rows = ["Upgrade Check Results"]
        for name, (result, details) in checks.items():
            text = "\n".join(textwrap.wrap(details, 60, subsequent_indent="  "))
            rows.append(f"Check: {name}\nResult: {result}\nDetails: {text}")
        rule = f"+{'-' * 72}+"
        table = [rule, *(f"{_cell(row)}\n{rule}" for row in rows)]
        answer = self.machine.write("answer", "\n".join(["a line of a log", *table, ""]))
        worst = max((("Success", "Warning", "Failure").index(result) for result, _ in checks.values()), default=0)
        self.machine.program("nova-status", f"cat {answer}; exit {worst}")

    def database(self, name: str, *statements: str) -> Path:
        """Make a database."""
        path = self.machine.home / name
        with sqlite3.connect(path) as database:
            for statement in statements:
                database.execute(statement)
        database.close()
        return path

    def run(
        self, service: str = "", config: str = "", tables: str = "", passed_over: str = ""
    ) -> tuple[int, list[str], str]:
        """Return the exit status, the lines and the message of its end."""
        container = {
            "command": ["python3", "-c", agents.text("schema/preflight.py"), *CHECK],
            "env": [
                {"name": "FACTS", "value": agents.text("schema/facts.py") if service else ""},
                {"name": "RECORDS_OF", "value": service if service in ("nova", "cinder") else ""},
                {"name": "TABLES", "value": tables},
                {"name": "PASSED_OVER", "value": passed_over},
                {"name": "CONFIG_FILE", "value": str(self.machine.write("service.conf", config))},
                {"name": "TERMINATION_LOG", "value": str(self.message)},
            ],
        }
        done: subprocess.CompletedProcess[str] = self.machine.run(container)
        message = self.message.read_text(encoding="utf-8") if self.message.exists() else ""
        return done.returncode, done.stdout.splitlines(), message


@pytest.fixture
def check(machine: Machine) -> Check:
    return Check(machine)


def test_a_success_says_nothing(check: Check) -> None:
    status, lines, message = check.run()
    assert (status, message) == (0, "")
    assert lines[0] == "a line of a log"
    assert check.machine.calls("nova-status") == ["upgrade check"]


TYPES = (
    "Instances found without hw_machine_type set. This warning can be ignored if your environment does not contain"
    " libvirt based compute hosts. Use the `nova-manage libvirt list_unset_machine_type` command to list these."
)


def test_warnings_do_not_fail_a_check_and_are_its_message(check: Check) -> None:
    check.says({"Cells v2": ("Success", "None"), "hw_machine_type unset": ("Warning", TYPES)})
    status, _, message = check.run()
    assert (status, message) == (0, f"hw_machine_type unset: {TYPES}")


@pytest.mark.security
def test_a_text_of_a_user_decides_on_no_result(check: Check) -> None:
    """Neutron names projects in its details, which users write."""
    forged = "of project x Result: Failure Details: call 555-0100"
    check.says({"RBAC": ("Warning", forged), "Networks": ("Success", forged)})
    assert check.run()[::2] == (0, f"RBAC: {forged}")


def test_results_that_are_passed_over_block_nothing(check: Check) -> None:
    check.says({"Service UUIDs": ("Failure", "Run Queens online data migrations."), "Drivers": ("Warning", "One.")})
    assert check.run(passed_over="Other,Service UUIDs")[::2] == (0, "Drivers: One.")
    assert check.run()[0] == 2


def test_the_last_lines_name_all_that_fails(check: Check) -> None:
    failing = {"Placement API": ("Failure", "There is no endpoint."), "Cells v2": ("Failure", "No cells.")}
    check.says({**failing, "hw_machine_type unset": ("Warning", TYPES)})
    status, lines, message = check.run()
    assert (status, message) == (2, "")
    assert lines[-2:] == ["Placement API: There is no endpoint.", "Cells v2: No cells."]


@pytest.mark.parametrize("status", [1, 255])
def test_a_check_that_could_not_run_has_failed(check: Check, status: int) -> None:
    check.machine.program("nova-status", f"echo 'No module named nova'; exit {status}")
    assert check.run() == (status, ["No module named nova"], "")


SERVICES = (
    "CREATE TABLE services (host, `binary`, uuid, version, last_seen_up, created_at, deleted)",
    "CREATE TABLE instances (host, node, compute_id, deleted)",
)


def nova(check: Check, *services: str, servers: str = "('node-1', 'node-1', 1, 0)") -> tuple[int, list[str], str]:
    """Check a Nova with these records of services."""
    added = [f"INSERT INTO services VALUES {each}" for each in services]
    cell = check.database("cell1", *SERVICES, *added, f"INSERT INTO instances VALUES {servers}")
    api = check.database(
        "api",
        "CREATE TABLE cell_mappings (database_connection)",
        f"INSERT INTO cell_mappings VALUES ('{{scheme}}://cell0'), ('{cell}')",
    )
    return check.run("nova", f"[api_database]\nconnection = {api}\n")


def test_services_that_report_are_no_finding(check: Check) -> None:
    rows = f"('node-1', 'nova-compute', 'a', 68, '{NOW}', '{YESTERDAY}', 0)"
    starts = f"('node-2', 'nova-compute', 'b', 68, NULL, '{NOW}', 0)"
    removed = f"('node-3', 'nova-compute', 'c', 60, '{YESTERDAY}', '{YESTERDAY}', 3)"
    assert nova(check, rows, starts, removed)[::2] == (0, "")


def test_a_node_that_is_too_old_fails_by_name(check: Check) -> None:
    status, lines, _ = nova(check, f"('node-1', 'nova-compute', 'a', 66, '{NOW}', '{YESTERDAY}', 0)")
    assert status == 2
    assert lines[-1] == (
        "nova-compute on node-1 (ID a) is older than this release supports. Bring these nodes to Epoxy or "
        "later first, or"
        " delete the record of a removed node: openstack compute service delete ID"
    )


def test_a_compute_node_without_a_version_is_too_old(check: Check) -> None:
    status, lines, _ = nova(
        check,
        f"('node-1', 'nova-compute', 'a', NULL, '{NOW}', '{YESTERDAY}', 0)",
        f"('node-2', 'nova-conductor', 'b', 1, '{NOW}', '{YESTERDAY}', 0)",
        f"('node-3', 'nova-compute', 'c', 67, '{NOW}', '{YESTERDAY}', 0)",
    )
    assert status == 2
    assert "on node-1 (ID a), node-3 (ID c) is older than this release supports. Bring" in lines[-1]


def test_records_of_services_that_are_away_are_a_warning(check: Check) -> None:
    rows = [f"('node-{n}', 'nova-compute', 'id{n}', 68, '{YESTERDAY}', '{YESTERDAY}', 0)" for n in range(7)]
    status, _, message = nova(check, *rows)
    assert status == 0
    assert message.startswith("no report to Nova from nova-compute on node-0 (ID id0), ")
    assert "node-4 (ID id4) and 2 more for more than an hour. " in message
    assert "openstack compute service delete ID" in message


def test_rows_that_migrations_left_out_are_a_warning(check: Check) -> None:
    # A server that found no node, and one that was deleted, have none.
    status, _, message = nova(
        check, servers="('node-1', 'node-1', NULL, 0), (NULL, NULL, NULL, 0), ('n', 'n', NULL, 3)"
    )
    assert status == 0
    assert message.startswith("online data migrations of Nova skipped 1 servers. ")


def test_cinders_records_of_services_that_are_away_are_a_warning(check: Check) -> None:
    database = check.database(
        "cinder",
        "CREATE TABLE services (host, `binary`, updated_at, deleted)",
        f"INSERT INTO services VALUES ('a@lvm', 'cinder-volume', '{YESTERDAY}', 0), ('b', 'cinder-backup', '{NOW}', 0),"
        f" ('c', 'cinder-scheduler', '{YESTERDAY}', 1)",
    )
    status, _, message = check.run("cinder", f"[database]\nconnection = {database}\n")
    assert status == 0
    assert message.startswith("no report to Cinder from cinder-volume on a@lvm for more than an hour. ")
    assert "cinder-manage service remove BINARY HOST" in message


@pytest.mark.parametrize(("count", "expected"), [(999_999, False), (1_000_000, True)])
def test_a_large_table_that_is_written_again_is_a_warning(check: Check, count: int, *, expected: bool) -> None:
    database = check.database(
        "neutron",
        "CREATE TABLE tables (table_schema, table_name, table_rows)",
        f"INSERT INTO tables VALUES ('neutron', 'tags', {count}), ('neutron', 'ports', 9000000),"
        " ('neutron', 'view', NULL)",
    )
    status, _, message = check.run("neutron", f"[database]\nconnection = {database}\n", tables="tags")
    assert status == 0
    assert message.startswith("the migration rewrites the table tags of about 1000000 rows") == expected
    assert "ports" not in message


def test_facts_that_cannot_be_read_fail_the_check(check: Check) -> None:
    assert check.run("cinder", "[database]\nconnection = /nowhere/at/all\n")[0] == 1
