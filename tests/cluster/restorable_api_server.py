"""An API server of its own for a test that puts its etcd back to a snapshot, as an administrator does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tools.localcluster import apiserver, build, components
from tools.localcluster.ports import free_port


class ApiServer:
    """kube-apiserver and etcd, stopped until `start`."""

    def __init__(self, home: Path, data: Path) -> None:
        self._home, self._etcd, self._snapshot = home, home / "etcd", home / "snapshot"
        shutil.copytree(data, self._etcd)
        ports = free_port(), free_port(), free_port()
        self._plane = components.ControlPlane("127.0.0.1", *ports, self._etcd, home / "pki")
        components.certificates(self._plane.pki, self._plane.address, [])
        admin = components.kubeconfig(self._plane.pki, "admin", self._plane.url)
        self.kubeconfig = components.write_private(home / "admin.kubeconfig", admin)
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Returns once it is ready."""
        etcd = components.etcd(self._plane, build.binary("etcd", "etcd"))
        server = components.apiserver(self._plane, build.binary("kubernetes", "kube-apiserver"))
        for command in (etcd, [*server, "--endpoint-reconciler-type=none"]):
            with (self._home / f"{Path(command[0]).name}.log").open("ab") as log:
                process = subprocess.Popen(
                    command, stdout=log, stderr=log, start_new_session=True, env=apiserver.environment()
                )
            self._processes.append(process)
        apiserver._wait(self._plane, self._processes[-1], self._home / "kube-apiserver.log")  # pyright: ignore[reportPrivateUsage]

    def stop(self) -> None:
        """Ends both."""
        while self._processes:
            process = self._processes.pop()
            process.send_signal(signal.SIGKILL)
            process.wait()

    def save(self) -> None:
        """Takes a snapshot of what etcd has, as if it were killed at this moment: it is frozen meanwhile."""
        etcd = self._processes[0]
        etcd.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, etcd.pid, os.WSTOPPED)
        shutil.rmtree(self._snapshot, ignore_errors=True)
        shutil.copytree(self._etcd, self._snapshot)
        etcd.send_signal(signal.SIGCONT)

    def put_back(self) -> None:
        """Begins again with the snapshot."""
        self.stop()
        shutil.rmtree(self._etcd)
        shutil.copytree(self._snapshot, self._etcd)
        self.start()


@contextmanager
def restorable_api_server(home: Path, data: Path) -> Generator[ApiServer]:
    """One at work, which clients of this process connect to; `data` is what its etcd begins with."""
    server, before = ApiServer(home, data), os.environ.get("KUBECONFIG")
    os.environ["KUBECONFIG"] = str(server.kubeconfig)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        if before is None:
            del os.environ["KUBECONFIG"]
        else:
            os.environ["KUBECONFIG"] = before
