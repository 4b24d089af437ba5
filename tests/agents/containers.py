"""Containers of plans as processes: the planned commands in the planned environment, with other programs replaced."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from openstack_operator.plan import Object, Plan
from tests.unit.patience import PATIENCE


def container(plan: Plan, kind: str, name: str, container_name: str = "") -> Object:
    """Return a container of the pods of an object, the first one if no name is given."""
    obj = next(each for each in plan.objects if (each["kind"], each["metadata"]["name"]) == (kind, name))
    containers = obj["spec"]["template"]["spec"]["containers"]
    return next(each for each in containers if container_name in {"", each["name"]})


def environment(spec: Object, changes: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a container with `changes` of variables that it has."""
    env = {each["name"]: each.get("value", "") for each in spec["env"]}
    assert changes.keys() <= env.keys(), "the plan does not set these"
    return {**env, **changes}


class Computer:
    """A folder with replaced programs, which come first on PATH, and a record of each call."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / "programs"
        self.programs.mkdir()
        self.record = folder / "calls"
        self.record.touch()
        self.processes = folder / "processes"
        self.main_process = 0

    def install(self, name: str, script: str = "") -> None:
        """Put a program on PATH: it records its call, then does what the shell script says."""
        program = self.programs / name
        header = f'#!/bin/sh\necho {name} "$@" >> {self.record}\necho {name} $$ >> {self.processes}\n'
        program.write_text(f"{header}{script}\n")
        program.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        """Return the calls of the replaced programs, in their order."""
        return self.record.read_text().splitlines()

    def run(self, command: Sequence[str], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a command in its environment to its end."""
        with subprocess.Popen(
            command,
            env={**env, "PATH": self.path},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            self.main_process = process.pid
            try:
                output, errors = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def has_become(self, name: str) -> bool:
        """Return True if the process of the last run became a replaced program, which gets the container's signals."""
        return f"{name} {self.main_process}" in self.processes.read_text().splitlines()

    @property
    def path(self) -> str:
        """Return the search path with the replaced programs first."""
        return f"{self.programs}:{os.environ['PATH']}"
