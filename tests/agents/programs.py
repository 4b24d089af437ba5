"""Containers of a plan, and their programs, run on this machine with fakes of what they call."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from openstack_operator import kube
from openstack_operator.api import Resource
from openstack_operator.plan import Context, Object, Plan, Release, key
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as plan_pki
from openstack_operator.testing import context
from tests import leftovers
from tests.unit.polling import TIMEOUT

_SLEEP = """
import os, time

pauses = []

def sleep(seconds):
    pauses.append(seconds)
    if len(pauses) > 50:
        raise SystemExit("the program would never stop sleeping")
    with open(os.environ["CALLS"], "a") as calls:
        calls.write(f"sleep {seconds}\\n")

time.sleep = sleep
"""
"""Part of each Python that starts: a test has no time to sleep, and ends a program that waits for nothing."""


class Machine:
    """A folder with fakes of the programs and of the Python modules of an image, which come first, and their calls.

    `sleep` returns at once and writes down how long it was to take, unless a test puts another one there. `env` has
    variables that no plan sets.
    """

    def __init__(self, home: Path, env: Mapping[str, str] | None = None) -> None:
        self.home, self.env = home, dict(env or {})
        self.record, self._processes = home / ".calls", home / ".processes"
        self.state, self._modules = home / ".state", home / ".modules"
        self._main_process = 0
        for folder in (home / "bin", home / "calls", self.state, self._modules):
            folder.mkdir(parents=True, exist_ok=True)
        for file in (self.record, self._processes):
            file.touch()
        self.program("sleep")
        self._install("python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        self.module("sitecustomize.py", _SLEEP)

    def program(self, name: str, script: str = "", *, language: str = "sh") -> None:
        """Put a program there, which first writes its call down, in `.calls` and without its name in `calls/<name>`.
        It may keep state in the folder `$STATE`.
        """
        calls = f'echo "$*" >> {self.home}/calls/{name}\necho "{name}${{*:+ }}$*" >> {self.record}\n'
        self._install(name, f"#!/bin/{language}\n{calls}echo {name} $$ >> {self._processes}\n{script}\n")

    def _install(self, name: str, text: str) -> None:
        path = self.home / "bin" / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def module(self, name: str, text: str) -> None:
        """Make a module that Python programs import; it writes its calls into the file `$CALLS`."""
        path = self._modules / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def rounds(self, *actions: str) -> None:
        """Let a loop around `sleep` run as often as there are actions: each call runs one of the scripts, and the next
        one fails, which ends the loop.
        """
        for number, action in enumerate(actions, 1):
            self.write(f"rounds/{number}", action)
        self.program(
            "sleep", f'file={self.home}/rounds/$(wc -l < {self.home}/calls/sleep); [ -e "$file" ] && . "$file"'
        )

    def calls(self, name: str = "") -> list[str]:
        """Return the calls, each a line of its words; those of one program without its name."""
        path = self.home / "calls" / name if name else self.record
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def forget_calls(self) -> None:
        """Begin the lists of calls again."""
        for path in (self.home / "calls").iterdir():
            path.unlink()
        self.record.write_text("", encoding="utf-8")

    def write(self, path: str, text: str = "") -> Path:
        """Write a file below the folder."""
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    @contextmanager
    def start(
        self, container: Object, *, command: Sequence[str] = (), **env: str | os.PathLike[str]
    ) -> Generator[subprocess.Popen[str]]:
        """Start the container's program, or `command` in its environment, of which `env` replaces variables; in the end
        all that it started is killed.
        """
        variables = environment(container)
        assert env.keys() <= variables.keys(), "the plan does not set these"
        fakes = {"PYTHONPATH": str(self._modules), "CALLS": str(self.record), "STATE": str(self.state)}
        path = {"PATH": f"{self.home}/bin:{os.environ['PATH']}"}
        process = subprocess.Popen(
            command or as_kubelet_starts(container),
            env={**leftovers.marked(), **fakes, **variables, **path, **self.env, **{key: str(env[key]) for key in env}},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._main_process = process.pid
        with process:
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def run(
        self, container: Object, *, command: Sequence[str] = (), **env: str | os.PathLike[str]
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end, and to that of what it started."""
        with self.start(container, command=command, **env) as process:
            output, errors = process.communicate(timeout=TIMEOUT)
            return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def has_become(self, name: str) -> bool:
        """Return True if the process of the last run became a fake, which gets the container's signals."""
        return f"{name} {self._main_process}" in self._processes.read_text(encoding="utf-8").splitlines()


def as_kubelet_starts(container: Object) -> list[str]:
    """Return the command as the kubelet changes it: it replaces `$(NAME)`, and makes one dollar sign of two."""
    env = environment(container)

    def replaced(match: re.Match[str]) -> str:
        return env.get(match[1], match[0]) if match[1] else "$"

    return [re.sub(r"\$\$|\$\(([A-Za-z_.-][\w.-]*)\)", replaced, word) for word in container["command"]]


def environment(container: Object) -> dict[str, str]:
    """Return the values in a container's environment; another source's are empty."""
    return {each["name"]: each.get("value", "") for each in container.get("env", ())}


def planned(plan: Plan, kind: str, name: str) -> Object:
    """Return the object of that kind and name."""
    return next(obj for obj in plan.objects if key(obj) == (kind, name))


def certified(resource: Resource[Any], release: Release, spec: Mapping[str, Any], **changes: Any) -> Context[Any]:
    """Return a context of a resource whose certificates a PKI makes."""
    pki = plan_pki(context(PKI, release=release))
    secrets = {obj["metadata"]["name"]: kube.secret_data(obj) for obj in pki.objects if obj["kind"] == "Secret"}
    published = {**changes.pop("published", {}), "PKI": pki.outcome.published}
    tls = {"pkiRef": {"name": "pki"}, **spec.get("tls", {})}
    return context(resource, {**spec, "tls": tls}, release=release, published=published, secrets=secrets, **changes)


def container(obj: Object, name: str = "main") -> Object:
    """Return the container of that name of a workload."""
    containers: list[Object] = obj["spec"]["template"]["spec"]["containers"]
    return next(each for each in containers if each["name"] == name)


def planned_container(plan: Plan, kind: str, name: str, container_name: str = "") -> Object:
    """Return the container of that name of an object of a plan, the first one without a name."""
    obj = planned(plan, kind, name)
    return container(obj, container_name or obj["spec"]["template"]["spec"]["containers"][0]["name"])


def job(plan: Plan, prefix: str) -> Object:
    """Return the container of the only job whose name begins like that."""
    [obj] = [obj for obj in plan.objects if obj["kind"] == "Job" and obj["metadata"]["name"].startswith(prefix)]
    return container(obj)


def pods(plan: Plan, name: str) -> Object:
    """Return the spec of the pods of a workload."""
    [obj] = [obj for obj in plan.objects if "template" in obj.get("spec", {}) and obj["metadata"]["name"] == name]
    return obj["spec"]["template"]["spec"]
