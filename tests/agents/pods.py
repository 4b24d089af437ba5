"""Runs a planned container's program with fakes of the programs and of the Python modules that it calls."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openstack_operator.plan import Object, Plan
from tests.unit.patience import PATIENCE

_RECORD = '#!/bin/sh\necho "{name}${{*:+ }}$*" >> "$CALLS"\n'
_SLEEP = """
import os, time

pauses = []

def sleep(seconds):
    pauses.append(seconds)
    if len(pauses) > 50:
        raise SystemExit("the program would sleep for ever")
    with open(os.environ["CALLS"], "a") as calls:
        calls.write(f"sleep {seconds}\\n")

time.sleep = sleep
"""
"""Part of each Python that starts: a test has no time to sleep, and ends a program that waits for nothing."""


class Pod:
    """Folders of fakes, the state that they keep, and their calls."""

    def __init__(self, folder: Path) -> None:
        self.programs, self.modules, self.state = (folder / name for name in ("programs", "modules", "state"))
        self._calls = folder / "calls"
        for path in (self.programs, self.modules, self.state):
            path.mkdir()
        self._calls.touch()
        self.module("sitecustomize.py", _SLEEP)

    def program(self, name: str, script: str = "") -> None:
        """Make a shell program of PATH that records its call before it runs `script`, which keeps its state in
        `$STATE`.
        """
        path = self.programs / name
        path.write_text(_RECORD.format(name=name) + script)
        path.chmod(0o755)

    def module(self, name: str, text: str) -> None:
        """Make a module that Python programs import."""
        path = self.modules / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    @property
    def calls(self) -> list[str]:
        """The calls, each a line of its words."""
        return self._calls.read_text().splitlines()

    def forget_calls(self) -> None:
        """Begin with an empty record."""
        self._calls.write_text("")

    def run(
        self, container: Object, env: Mapping[str, str] | None = None, *, command: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run the container's command, or another one in it, with the values of `env` for variables that the plan
        takes from elsewhere, or that are paths.
        """
        planned = {entry["name"]: entry.get("value") for entry in container.get("env") or ()}
        assert not (env or {}).keys() - planned.keys(), "the container lacks a variable"
        values = {**planned, **(env or {})}
        assert None not in values.values(), "a variable has no value"
        words = [sys.executable if word == "python3" else word for word in command or container["command"]]
        system = {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.modules),
            "CALLS": str(self._calls),
            "STATE": str(self.state),
        }
        environment: dict[str, Any] = {**system, **values}
        return subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=self.state
        )


def job(plan: Plan, prefix: str) -> Object:
    """The container of the only job whose name begins like that."""
    [found] = [obj for obj in plan.objects if obj["kind"] == "Job" and obj["metadata"]["name"].startswith(prefix)]
    return found["spec"]["template"]["spec"]["containers"][0]


def workload(plan: Plan, name: str) -> Object:
    """The pods of a workload."""
    [found] = [obj for obj in plan.objects if "template" in obj.get("spec", {}) and obj["metadata"]["name"] == name]
    return found["spec"]["template"]["spec"]
