"""The programs of an upgrade: what they make of the answers of a service's own commands."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from openstack_operator import agents

NEWER = [
    "alembic.util.exc.CommandError: Can't locate revision identified by 'e8725d6fa226'\n",
    "alembic.script.revision.ResolutionError: No such revision or branch 'b1bca967e19d'\n",
]


def run(program: str, text: str, status: int, folder: Path) -> tuple[int, list[str]]:
    """Run a program over a command that prints a text and ends with a status; return its status and its lines."""
    answer = folder / "answer"
    answer.write_text(text, encoding="utf-8")
    command = agents.shell(f"schema/{program}.sh", words=["sh", "-c", f"cat {answer}; exit {status}"])
    env = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize("text", NEWER)
def test_a_schema_of_a_newer_release_stays(text: str, tmp_path: Path) -> None:
    status, lines = run("extend", text, 1, tmp_path)
    assert status == 0
    assert lines[-1].startswith("The schema is of a newer release")


@pytest.mark.parametrize("status", [0, 1, 3])
def test_any_other_end_of_a_schema_is_the_commands_own(status: int, tmp_path: Path) -> None:
    assert run("extend", "Access denied for user\n", status, tmp_path) == (status, ["Access denied for user"])


@pytest.mark.security
def test_a_failure_that_speaks_of_revisions_stays_one(tmp_path: Path) -> None:
    """The text of a server's error may hold these words."""
    text = "Lost connection to host 'No such revision or branch'\n"
    assert run("extend", text, 1, tmp_path) == (1, [text.strip()])
