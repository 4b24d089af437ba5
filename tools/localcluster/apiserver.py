"""A real kube-apiserver on loopback for tests, without root, nodes or anything left behind."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from . import build, components
from .ports import free_port

_START_TIMEOUT = 300.0
"""Seconds after which a start is taken for hung; it takes 5 s of CPU alone."""
_LOOK = 0.05
"""Seconds between two checks whether it is ready: nothing can be watched before, and tests wait for its start."""
_RARELY = {"GOGC": "300", "GOMEMLIMIT": "1200MiB"}
"""Go collects garbage a third as often, with which kube-apiserver takes a quarter less CPU, as long as it has that
memory: several run at once.
"""


@contextlib.contextmanager
def api_server(
    directory: Path | str,
    *,
    controllers: bool | str = False,
    scheduler: bool = False,
    prepare: Callable[[Path], None] = lambda admin: None,
) -> Generator[Path]:
    """Yield the path of an admin kubeconfig, valid inside the `with` block; logs and data are in `directory`.

    With `controllers`, kube-controller-manager runs too: garbage collection, namespaces, service accounts, ReplicaSets;
    a string chooses among its controllers, as its option of that name does: "garbage-collector-controller".
    With `scheduler`, kube-scheduler gives pods their nodes.
    `prepare` is called with the kubeconfig before they start: the place for CRDs, since the garbage collector looks for
    new kinds only every 30 seconds.
    Raises BuildError where the binaries are not built, RuntimeError with the end of the log where a process dies.
    """
    home = Path(directory).absolute()
    port, etcd_port, peer_port, controllers_port = (free_port() for _ in range(4))
    plane = components.ControlPlane("127.0.0.1", port, etcd_port, peer_port, home / "etcd", home / "pki")
    components.certificates(plane.pki, plane.address, [])
    admin = _config(home, plane, "admin")
    with contextlib.ExitStack() as stack:
        start = stack.enter_context(_processes(home))
        start("etcd", components.etcd(plane, build.binary("etcd", "etcd")))
        command = components.apiserver(plane, build.binary("kubernetes", "kube-apiserver"))
        # The endpoint of the Service "kubernetes" must not be loopback: the API server refuses to publish that.
        server = start("kube-apiserver", [*command, "--endpoint-reconciler-type=none"])
        _wait(plane, server, home / "kube-apiserver.log")
        prepare(admin)
        if controllers:
            manager = components.controllers(
                plane, build.binary("kubernetes", "kube-controller-manager"), _config(home, plane, "controllers")
            )
            chosen = [f"--controllers={controllers}"] if isinstance(controllers, str) else []
            start("kube-controller-manager", [*manager, *chosen, f"--secure-port={controllers_port}"])
        if scheduler:
            command = components.scheduler(
                plane, build.binary("kubernetes", "kube-scheduler"), _config(home, plane, "scheduler")
            )
            start("kube-scheduler", [*command, f"--secure-port={free_port()}"])
        yield admin


def ready(url: str, authority: Path) -> bool:
    """Return True if the API server says that it is ready, with its default roles in place."""
    trust = ssl.create_default_context(cafile=str(authority))
    try:
        with urllib.request.urlopen(f"{url}/readyz", context=trust, timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError, http.client.HTTPException):
        # The last is an answer that breaks off, as of a server that ends.
        return False


def environment() -> dict[str, str]:
    """Return the environment of the processes of a control plane."""
    return {**os.environ, **_RARELY}


def ending_with_us(command: Sequence[str]) -> list[str]:
    """Return a command whose process the kernel kills when the thread that starts it ends, however it ends: a test run
    that is killed leaves no servers behind.
    """
    return ["setpriv", "--pdeathsig", "KILL", *command]


def _config(home: Path, plane: components.ControlPlane, client: str) -> Path:
    return components.write_private(home / f"{client}.kubeconfig", components.kubeconfig(plane.pki, client, plane.url))


@contextlib.contextmanager
def _processes(home: Path) -> Generator[Callable[[str, list[str]], subprocess.Popen[bytes]]]:
    """Yield a function that starts a process with a log; end them all in the end, the last one first."""
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with (home / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                ending_with_us(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=environment(),
            )
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in reversed(started):
            # Nothing in the directory is kept, so there is nothing to save by a gentle end.
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait()


def _wait(plane: components.ControlPlane, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT
    while not ready(plane.url, plane.pki / "ca.crt"):
        if server.poll() is not None or time.monotonic() > deadline:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise RuntimeError(f"kube-apiserver did not start; the end of {log}:\n{tail}")
        # A server sends no notice when it is ready: only its answer shows that.
        time.sleep(_LOOK)
