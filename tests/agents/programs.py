"""Containers of a plan, and their shell programs, run on this machine with other programs beside them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openstack_operator import kube
from openstack_operator.api import Resource
from openstack_operator.plan import Context, Object, Plan, Release, key
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as plan_pki
from openstack_operator.testing import context
from tests.unit.patience import PATIENCE


@dataclass(frozen=True)
class Machine:
    """A folder with programs that stand in for those of an image, which come first on PATH, and with what they write.

    `sleep` returns at once and writes down how long it was to take, unless a test puts another one there.
    """

    home: Path
    env: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        for folder in (self.home / "bin", self.home / "calls"):
            folder.mkdir(parents=True, exist_ok=True)
        self.program("sleep", "")

    def program(self, name: str, script: str, *, language: str = "sh") -> None:
        """Put a program there, which first writes its arguments down as a line."""
        path = self.home / "bin" / name
        path.write_text(f'#!/bin/{language}\necho "$*" >> {self.home}/calls/{name}\n{script}\n', encoding="utf-8")
        path.chmod(0o755)

    def rounds(self, *actions: str) -> None:
        """Let a loop around `sleep` run as often as there are actions: each call runs one of the scripts, and the next
        one fails, which ends the loop.
        """
        for number, action in enumerate(actions, 1):
            self.write(f"rounds/{number}", action)
        self.program(
            "sleep", f'file={self.home}/rounds/$(wc -l < {self.home}/calls/sleep); [ -e "$file" ] && . "$file"'
        )

    def calls(self, name: str) -> list[str]:
        """Return the arguments of each call of a program."""
        path = self.home / "calls" / name
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def forget_calls(self) -> None:
        """Begin the lists of calls again."""
        for path in (self.home / "calls").iterdir():
            path.unlink()

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
        process = subprocess.Popen(
            command or as_kubelet_starts(container),
            env={**environment(container), **self._path(), **self.env, **{key: str(env[key]) for key in env}},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
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
            output, errors = process.communicate(timeout=PATIENCE)
            return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def _path(self) -> dict[str, str]:
        return {"PATH": f"{self.home}/bin:{os.environ['PATH']}"}


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
