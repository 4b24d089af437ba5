"""The program that hands out daemons of oslo.privsep as forks of one process, with a library that only takes notes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.polling import TIMEOUT, until
from tools.localcluster.kubernetes import ROOT

SCRIPT = ROOT / "images" / "oslo" / "privsep-helper"

DAEMON = """
import json, os, sys

def helper_main():
    at = sys.argv[sys.argv.index("--privsep_sock_path") + 1]
    if at.endswith("refused"):
        sys.exit("no such context")
    print("before there is a connection", file=sys.stderr, flush=True)
    known = [name for name in sys.modules if name.startswith("agent")]
    open(at, "w").write(json.dumps({"parent": os.getppid(), "arguments": sys.argv[1:], "modules": known}))
"""
AGENT = """
default, other = object(), object()
"""
CALL = """
import importlib.util, sys
from importlib.machinery import SourceFileLoader

script, folder, real = sys.argv[1:4]
sys.path.insert(0, folder + "/library")
loader = SourceFileLoader("helper", script)
helper = importlib.util.module_from_spec(importlib.util.spec_from_loader("helper", loader))
loader.exec_module(helper)
helper.FOLDER, helper.REAL = folder + "/own", real
helper.main(sys.argv[4:])
"""


class Caller:
    """Calls the program as an agent does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers: set[int] = set()

    def __call__(self, context: str, at: str = "daemon") -> subprocess.CompletedProcess[str]:
        words = ("--privsep_context", context, "--privsep_sock_path", str(self.folder / at))
        command = [sys.executable, "-c", CALL, str(SCRIPT), str(self.folder), str(self.folder / "real"), *words]
        # Not through pipes: the process that stays holds them open.
        with (self.folder / "errors").open("w") as errors:
            done = subprocess.run(command, stdout=errors, stderr=errors, text=True, timeout=TIMEOUT, check=False)
        return subprocess.CompletedProcess(command, done.returncode, stderr=(self.folder / "errors").read_text())

    def daemon(self, context: str) -> dict[str, Any]:
        """What the daemon of a context noted."""
        done = self(context, at := f"daemon-{context}")
        assert done.returncode == 0, done.stderr
        found = json.loads((self.folder / at).read_text())
        self.servers.add(found["parent"])
        return found


@pytest.fixture
def call(tmp_path: Path) -> Iterator[Caller]:
    files = {
        "library/oslo_privsep/__init__.py": "",
        "library/oslo_privsep/daemon.py": DAEMON,
        "library/agent/__init__.py": "",
        "library/agent/cmd.py": "raise SystemExit('never imported')",
        "library/agent/privileged/__init__.py": AGENT,
        "library/agent/privileged/linux/__init__.py": "",
        "library/agent/privileged/linux/ip_lib.py": "",
        "library/agent/privileged/windows.py": "raise ImportError('not here')",
        "library/agent/privileged/main.py": "raise SystemExit('a program')",
        "library/agent/privileged/tests/__init__.py": "raise AssertionError('never imported')",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "real").write_text('#!/bin/sh\necho "the real one: $*" >&2\nexit 7\n')
    (tmp_path / "real").chmod(0o755)
    caller = Caller(tmp_path)
    yield caller
    for server in caller.servers:
        _end(server)


def _end(server: int) -> None:
    """Ends a process that nobody here is the parent of."""
    try:
        os.kill(server, signal.SIGKILL)
    except ProcessLookupError:
        return
    until("the process to be gone", lambda: _gone(server))


def _gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_daemons_are_forks_of_one_process_that_imported_their_code(call: Caller) -> None:
    one, other = call.daemon("agent.privileged.default"), call.daemon("agent.privileged.other")
    assert one["parent"] == other["parent"]
    assert "agent.privileged.linux.ip_lib" in one["modules"]
    assert not {"agent.cmd", "agent.privileged.tests"} & set(one["modules"])
    assert one["arguments"][:2] == ["--privsep_context", "agent.privileged.default"]
    assert "before there is a connection" in (call.folder / "errors").read_text()


def test_an_ended_daemon_is_started_again(call: Caller) -> None:
    first = call.daemon("agent.privileged.default")["parent"]
    _end(first)
    assert call.daemon("agent.privileged.default")["parent"] != first


def test_the_library_itself_is_called_without_a_daemon(call: Caller) -> None:
    call.daemon("agent.privileged.default")
    done = call("agent.privileged.default", "refused")
    assert done.returncode == 7
    assert "the real one: --privsep_context agent.privileged.default" in done.stderr


def test_a_folder_of_others_is_not_used(call: Caller) -> None:
    (call.folder / "own").mkdir(mode=0o755)
    done = call("agent.privileged.default")
    assert done.returncode == 7
    assert "is not a folder of this user alone" in done.stderr
