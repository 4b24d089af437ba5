"""`shell`: what it calls, with which credentials, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from openstack_operator.cli.inspection import shell
from openstack_operator.cli.main import main

CLOUDS = {
    "clouds": {
        "openstack": {"auth": {"password": "drawn"}, "cacert": "/etc/openstack/ca.crt"},
        "openstack-public": {"auth": {"password": "drawn"}},
    }
}


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of kubectl, which writes down its arguments and ends with status 7."""
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$CALL"\nexit 7\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("CALL", str(tmp_path / "call"))
    return tmp_path / "call"


def test_a_command_runs_in_the_pod_and_its_exit_status_counts(kubectl: Path) -> None:
    arguments = ["shell", "-n", "prod", "--context", "one", "--", "openstack", "server", "list", "--all"]
    assert main(arguments) == 7
    called = kubectl.read_text().splitlines()
    assert called[:3] == ["exec", "--namespace=prod", "--context=one"]
    assert called[-6:] == ["deployment/keystoneclient", "--", "openstack", "server", "list", "--all"]
    assert "--tty" not in called, "there is no terminal"


def test_without_a_command_it_is_a_shell_of_that_keystone(kubectl: Path) -> None:
    assert main(["shell", "--keystone", "identity"]) == 7
    assert kubectl.read_text().splitlines()[-3:] == ["deployment/identityclient", "--", "bash"]


def test_without_kubectl_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["shell"]) == 2
    assert "install it, or use --local" in capsys.readouterr().err


_PROGRAM = """
import asyncio, signal, sys
# As in a terminal, also if nohup began the tests.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from openstack_operator.cli.inspection import shell

class Client:
    async def get(self, *_):
        return {"data": {"clouds.yaml": "Y2xvdWRzOiB7fQ=="}}

script = 'trap "exit 0" HUP; echo $OS_CLIENT_CONFIG_FILE; while :; do sleep 0.1; done'
if sys.argv[1:] == ["stubborn"]:
    script = "trap '' HUP TERM; " + script.partition("; ")[2]
asyncio.run(shell._locally(Client(), shell.Options(command=["sh", "-c", script], is_local=True)))
"""


@pytest.mark.security
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize("arguments", [[], ["stubborn"]], ids=["a shell that ends", "one that does not"])
def test_a_local_shell_that_is_ended_leaves_no_login_behind(
    number: signal.Signals, arguments: list[str], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", _PROGRAM, *arguments]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        path = Path(process.stdout.readline().strip())
        assert path.is_file()
        process.send_signal(number)
        # The pipe ends once the shell ended, too.
        process.stdout.read()
        assert process.wait() == 128 + number
    assert not any(tmp_path.iterdir())


@pytest.mark.security
def test_credentials_of_a_local_shell_are_its_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_PASSWORD", "of another cloud")
    data = {"clouds.yaml": yaml.safe_dump(CLOUDS), "ca.crt": "PEM\n"}
    environment = shell.write_clouds(data, tmp_path)
    path = Path(environment["OS_CLIENT_CONFIG_FILE"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert environment["OS_CLOUD"] == "openstack-public"
    assert "OS_PASSWORD" not in environment
    for name in ("OS_CLIENT_SECURE_FILE", "OS_CLIENT_VENDOR_FILE"):
        assert Path(environment[name]).read_text() == "{}\n", "no file of the present folder is merged"
    assert not any("drawn" in value for value in environment.values())
    written = yaml.safe_load(path.read_text())["clouds"]
    assert written["openstack"]["cacert"] == str(tmp_path / "ca.crt")
    assert "cacert" not in written["openstack-public"]
    assert (tmp_path / "ca.crt").read_text() == "PEM\n"
