"""`shell`: a shell, or one command, with the credentials of a cloud's administrator."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ...kube import fitting, secret_data
from ...runtime.kubernetes.client import Client
from ...runtime.kubernetes.kinds import SECRET
from .session import FAULT, run, warn

_INTERRUPTED = 130
_NOT_FOUND = 127
_ENDS = (signal.SIGHUP, signal.SIGTERM)
"""Signals of a terminal that is closed, and of a machine that shuts down."""
_GRACE = 3.0
"""Seconds in which a shell may write its history, before it is killed."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the command line."""

    command: Sequence[str] = ()
    """A command with its arguments; a shell if it is empty."""
    namespace: str = "openstack"
    context: str | None = None
    keystone: str = "keystone"
    is_local: bool = False
    """True runs it on this machine, False in the pod of the OpenStack client."""


def shell(options: Options) -> int:
    """Run a shell or a command. Returns its exit status, or 2 if it was not started."""
    return run(options.context, lambda client: _locally(client, options)) if options.is_local else _in_pod(options)


def _in_pod(options: Options) -> int:
    if shutil.which("kubectl") is None:
        warn("shell: kubectl is missing in PATH; install it, or use --local")
        return FAULT
    where = [f"--namespace={options.namespace}", *([f"--context={options.context}"] if options.context else [])]
    # Without a terminal here, one there would change the output.
    terminal = ["--tty"] if sys.stdin.isatty() and sys.stdout.isatty() else []
    pod = f"deployment/{fitting(f'{options.keystone}client')}"
    command = options.command or ["bash"]
    return _call(["kubectl", "exec", *where, "--stdin", *terminal, pod, "--", *command], os.environ)


async def _locally(client: Client, options: Options) -> int:
    """Run it with clouds.yaml in a folder of its own, which is removed afterwards."""
    name = f"{options.keystone}-clouds"
    secret = await client.get(SECRET, options.namespace, name)
    if secret is None:
        raise LookupError(
            f"there is no Secret {name} in namespace {options.namespace}: name the Keystone with --keystone, or wait"
            " until it creates the Secret"
        )
    # A folder that nobody else can enter.
    signals = _Signals()
    with signals.handled(), tempfile.TemporaryDirectory(prefix="openstack-") as folder:
        environment = write_clouds(secret_data(secret), Path(folder))
        command = options.command or [os.environ.get("SHELL", "sh")]
        if shutil.which(command[0]) is None:
            warn(f"shell: there is no {command[0]} in PATH; `pip install python-openstackclient` installs openstack")
            return _NOT_FOUND
        return _call(command, environment, signals)


def write_clouds(data: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Write clouds.yaml and the authorities to a folder. Returns the environment by which clients find them, without
    what this environment says of another cloud.
    """
    clouds: dict[str, Any] = yaml.safe_load(data["clouds.yaml"])
    if "ca.crt" in data:
        (folder / "ca.crt").write_text(data["ca.crt"], encoding="utf-8")
    for cloud in clouds["clouds"].values():
        if "cacert" in cloud:
            cloud["cacert"] = str(folder / "ca.crt")
    path = folder / "clouds.yaml"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(clouds), encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    # Clients would merge files of these names from the present folder, which somebody else may have written.
    empty_file = folder / "empty.yaml"
    empty_file.write_text("{}\n", encoding="utf-8")
    files = dict.fromkeys(("OS_CLIENT_SECURE_FILE", "OS_CLIENT_VENDOR_FILE"), str(empty_file))
    return {**inherited, **files, "OS_CLIENT_CONFIG_FILE": str(path), "OS_CLOUD": "openstack-public"}


class _Signals:
    """The end of a terminal, and of this process, which leave no login behind: Python would end at once."""

    def __init__(self) -> None:
        self._number = 0
        self._is_due = False
        """True once a signal may raise: one in the middle of the start of a program would leave that running."""

    @contextmanager
    def handled(self) -> Generator[None]:
        """Keep signals within, but for one that is ignored, as with nohup."""
        before = {each: signal.getsignal(each) for each in _ENDS}
        for each, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(each, self._end)
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _end(self, number: int, _: object) -> None:
        for each in _ENDS:
            signal.signal(each, signal.SIG_IGN)
        self._number = number
        if self._is_due:
            self.end_here()

    def end_here(self) -> None:
        """Raise SystemExit now if there was a signal, and with the next one otherwise."""
        self._is_due = True
        if self._number:
            raise SystemExit(128 + self._number)


def _call(command: Sequence[str], environment: Mapping[str, str], signals: _Signals | None = None) -> int:
    with subprocess.Popen(command, env=environment) as process:
        try:
            if signals:
                signals.end_here()
            return process.wait()
        except KeyboardInterrupt:
            return _INTERRUPTED
        finally:
            # Its login is about to be removed. A terminal that is closed tells a shell itself; other signals do not.
            if process.poll() is None:
                process.send_signal(signal.SIGHUP)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_GRACE)
                process.kill()
