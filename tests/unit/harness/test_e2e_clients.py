"""Suites of clients: their results are read, their commands carried out, and each exception has a reason."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import leftovers
from tests.e2e.on_clients import command_server, go_log, packages, tobiko
from tests.e2e.on_clients.expectations import EXPECTED, PASSED
from tests.e2e.on_clients.runs import SUITES
from tests.e2e.outcomes import Expectation, Outcome, differences

PACKAGE = f"{go_log.ROOT}/dns/v2"
PIN = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)
CLIENT = """
import os, sys
def main(arguments):
    print(os.path.basename(sys.argv[0]), arguments, os.getcwd(), os.environ.get("COLOR"), sys.stdin.read())
    print("trouble", file=sys.stderr)
    if arguments == ["usage"]:
        sys.exit(2)
    if arguments == ["bug"]:
        raise ValueError("a bug")
    return 3 if arguments else 0
"""


def events(*what: tuple[str, str, str], package: str = PACKAGE) -> list[str]:
    """Return the lines of `go test -json` for actions, tests and what they print."""
    return [json.dumps({"Action": a, "Package": package, "Test": t, "Output": f"{o}\n"}) for a, t, o in what]


def test_results_of_go_are_read() -> None:
    log = "\n".join(
        go_log.lines(
            [
                "not of a test",
                *events(
                    ("run", "TestA", ""),
                    ("output", "TestA", "    zones.go:12: Created a zone"),
                    ("pass", "TestA", ""),
                    ("run", "TestB", ""),
                    ("run", "TestB/part", ""),
                    ("output", "TestB/part", "    zones.go:15: \x1b[1;31mno such \x1b[0mzone"),
                    ("fail", "TestB/part", ""),
                    ("fail", "TestB", ""),
                    ("run", "TestC", ""),
                    ("output", "TestC", "    conditions.go:20: must be: admin"),
                    ("output", "TestC", "--- SKIP: TestC (0.00s)"),
                    ("skip", "TestC", ""),
                    ("fail", "", ""),
                ),
            ]
        )
    )
    outcome = Outcome.of(log)
    assert outcome == Outcome(["dns.v2.TestA"], ["dns.v2.TestB"], {"dns.v2.TestC": "must be: admin"})
    assert "no such zone" in log
    assert "Created a zone" not in log


def test_a_test_that_never_ends_has_failed() -> None:
    output = events(("run", "TestA", ""), ("output", "TestA", "panic: test timed out"), ("fail", "", ""))
    output += events(("run", "TestX", ""), ("pass", "TestX", ""), package=go_log.ROOT)
    assert Outcome.of("\n".join(go_log.lines(output))) == Outcome(["TestX"], ["dns.v2.TestA"])


def test_tests_of_go_are_listed_without_what_else_is_printed() -> None:
    output = events(("output", "", "TestA"), ("output", "", "ok  \tgithub.com/x\t0.1s"), ("output", "", "TestB"))
    assert go_log.names(output) == ["dns.v2.TestA", "dns.v2.TestB"]
    assert differences(Outcome(["dns.v2.TestA"]), go_log.names(output)) == ["did not run: dns.v2.TestB"]


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Path]:
    """The command of a server with a client of this test's own."""
    client = tmp_path / "site" / "openstackclient"
    client.mkdir(parents=True)
    (client / "__init__.py").touch()
    (client / "shell.py").write_text(CLIENT)
    path, shim = tmp_path / "server", tmp_path / "openstack"
    shim.write_text(command_server.SHIM.format(python=sys.executable, path=str(path)))
    shim.chmod(0o755)
    variables = {"PYTHONPATH": str(client.parent), **leftovers.marked()}
    with subprocess.Popen([sys.executable, command_server.__file__, str(path)], env=variables) as server:
        while not path.exists() and server.poll() is None:
            time.sleep(0.01)
        yield shim
        server.terminate()


def test_a_command_runs_as_if_it_were_called(command: Path, tmp_path: Path) -> None:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "COLOR": "blue"}
        words = [str(command), *arguments]
        return subprocess.run(
            words, cwd=tmp_path, env=variables, input="typed", capture_output=True, text=True, check=False
        )

    plain, with_arguments = call(), call("server list", "--long")
    assert (plain.returncode, with_arguments.returncode) == (0, 3)
    assert plain.stdout == f"openstack [] {tmp_path} blue typed\n"
    assert plain.stderr == "trouble\n"
    assert with_arguments.stdout == f"openstack ['server list', '--long'] {tmp_path} blue typed\n"
    assert call("usage").returncode == 2
    bug = call("bug")
    assert bug.returncode == 1
    assert "ValueError: a bug" in bug.stderr


def test_versions_of_clients_are_those_of_the_lock_file(root: Path) -> None:
    """`make lock` renews both."""
    ours = dict(PIN.findall(packages.SUITES.read_text()))
    theirs = dict(PIN.findall((root / "requirements-dev.lock").read_text()))
    assert {"openstacksdk", "python-openstackclient"} <= ours.keys() & theirs.keys()
    assert {name: version for name, version in ours.items() if theirs.get(name, version) != version} == {}
    tempest = dict(PIN.findall((root / "images" / "tempest" / "requirements.lock").read_text()))
    assert ours["tempest"] == tempest["tempest"]


def test_a_pin_is_taken_with_its_hashes() -> None:
    pin = "b-c==2 \\\n    --hash=sha256:y \\\n    --hash=sha256:z\n"
    lock = f"a==1 \\\n    --hash=sha256:x\n{pin}d==3 \\\n    --hash=sha256:q\n"
    assert packages.requirement(lock, "b-c") == pin
    with pytest.raises(ValueError, match="b is not pinned"):
        packages.requirement(lock, "b")


def test_the_sum_of_the_go_module_is_that_of_its_version() -> None:
    folder = packages.HERE / "gophercloud"
    (version,) = re.findall(rf"^require {packages.GOPHERCLOUD} (\S+)$", (folder / "go.mod").read_text(), re.MULTILINE)
    sums = (folder / "go.sum").read_text().splitlines()
    assert [line.split()[:2] for line in sums] == [
        [packages.GOPHERCLOUD, version],
        [packages.GOPHERCLOUD, f"{version}/go.mod"],
    ]


def test_each_suite_has_expectations_with_reasons() -> None:
    assert SUITES.keys() == EXPECTED.keys() >= PASSED.keys()
    for lists in (*EXPECTED.values(), tobiko.EXPECTED):
        for each in (*lists.excluded, *lists.skipped, *lists.failing):
            re.compile(each.pattern)
            assert len(each.reason.split()) > 2


RESULTS = """<testsuites><testsuite>
<testcase classname="tobiko.tests.scenario.nova.test_server.CirrosServerTest" name="test_1_server_name"/>
<testcase classname="tobiko.tests.scenario.neutron.test_port.PortTest" name="test_a"><failure/></testcase>
<testcase classname="tobiko.tests.scenario.neutron.test_port.PortTest" name="test_b"><error/></testcase>
<testcase classname="tobiko.tests.scenario.neutron.test_port.PortTest" name="test_c"><skipped message="no: L3 HA"/>
</testcase>
</testsuite></testsuites>"""


def test_results_of_tobiko_are_read(tmp_path: Path) -> None:
    path = tmp_path / "results.xml"
    path.write_text(RESULTS)
    assert tobiko.outcome(path, ["manila.test_x.T.test_y"]) == Outcome(
        ["nova.test_server.CirrosServerTest.test_1_server_name"],
        ["neutron.test_port.PortTest.test_a", "neutron.test_port.PortTest.test_b"],
        {"neutron.test_port.PortTest.test_c": "no: L3 HA"},
        ["manila.test_x.T.test_y"],
    )


def test_a_test_of_tobiko_has_the_name_that_its_result_has() -> None:
    test = "nova.test_server.CirrosServerTest.test_1_server_name"
    assert tobiko.name("lib/tobiko/tests/scenario/nova/test_server.py::CirrosServerTest::test_1_server_name") == test
    chosen, excluded = tobiko.split([test, "manila.test_x.T.test_y"], [Expectation("^manila", "there is none here")])
    assert (chosen, excluded) == ([test], ["manila.test_x.T.test_y"])
