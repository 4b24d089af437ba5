"""A run of tests that is killed leaves no process behind, and one that ends says which it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from tests import leftovers
from tests.unit.polling import until
from tools.localcluster.layout import Cluster

OWN = "LEFTOVERS_OF_A_TEST"
"""Variable by which this test finds processes of the runs that it starts, among those of all others."""
TEST = """
import os, subprocess, sys, time
from pathlib import Path
from tests import leftovers

HERE = Path(__file__).parent
OWN = {"LEFTOVERS_OF_A_TEST": os.environ["LEFTOVERS_OF_A_TEST"]}

def test_that_starts_servers():
    sleep = ["sleep", "3600"]
    subprocess.Popen(sleep, start_new_session=True)
    subprocess.Popen(sleep, env={"PATH": os.environ["PATH"], **OWN, **leftovers.marked()}, start_new_session=True)
    # A daemon: its parent is gone, and it has no terminal.
    subprocess.run(["sh", "-c", "setsid sleep 3600 & exit"], check=True)
    (HERE / "begun").write_text(str(os.getpid()))
    if (HERE / "end").exists():
        return
    time.sleep(3600)
"""
MAKEFILE = """
all:
\t@echo begins
\t$(MAKE) --no-print-directory -j 2 other tests
other:
\t@sleep 3600; echo ends
tests:
\t{command}
"""


def processes(own: str) -> set[int]:
    """Return all processes with a value of the variable OWN."""
    found: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"{OWN}={own}".encode() in variables:
            found.add(int(folder.name))
    return found


@pytest.fixture
def own() -> Generator[str]:
    value = uuid.uuid4().hex
    yield value
    for pid in processes(value):
        # It may end by itself at this moment.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def command(folder: Path, *options: str) -> list[str]:
    (folder / "test_servers.py").write_text(TEST)
    words = ["-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "-p", "no:randomly", *options]
    return [sys.executable, *words, "-c", os.devnull, "--rootdir", str(folder), str(folder)]


def environment(own: str, root: Path) -> dict[str, str]:
    """Return that of a run which nothing guards yet."""
    paths = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH", ""))))
    return {name: value for name, value in os.environ.items() if name != leftovers.MARK} | {
        OWN: own,
        "PYTHONPATH": paths,
    }


@pytest.mark.seconds
@pytest.mark.parametrize("victim", ["make", "pytest", "group"])
def test_a_run_that_is_killed_leaves_no_process(own: str, root: Path, tmp_path: Path, victim: str) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE.format(command=" ".join(command(tmp_path, "-n", "2"))))
    run = subprocess.Popen(["make"], cwd=tmp_path, env=environment(own, root), start_new_session=True)
    until("its servers to run", (tmp_path / "begun").exists)
    assert len(processes(own)) >= 10
    match victim:
        case "make":
            run.kill()
        case "group":
            os.killpg(run.pid, signal.SIGKILL)
        case _:
            worker = int((tmp_path / "begun").read_text())
            status = Path(f"/proc/{worker}/stat").read_text()
            os.kill(int(status.rpartition(")")[2].split()[1]), signal.SIGKILL)
    if victim == "pytest":
        # What make began beside it is for make to end.
        until("all but make's own to end", lambda: len(processes(own)) == 4)
        run.kill()
    else:
        until("all to end", lambda: not processes(own))
    run.wait()


@pytest.mark.seconds
def test_a_run_that_ends_fails_for_the_processes_it_leaves(own: str, root: Path, tmp_path: Path) -> None:
    (tmp_path / "end").touch()
    done = subprocess.run(
        command(tmp_path, "-n", "0"), cwd=root, env=environment(own, root), capture_output=True, text=True, check=False
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert done.stdout.count("sleep 3600") == 3, done.stdout
    until("the guard to end them", lambda: not processes(own))


def test_processes_of_an_embedded_cluster_are_no_leftovers() -> None:
    """They have the mark of the run that started the cluster, and are in cgroups of its own."""
    assert f"/{Cluster().node(1).cgroup}".startswith(leftovers.CLUSTER)
