"""The Kubernetes cluster the cloud goes to, and kubectl for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.localcluster.build import BuildError
from tools.localcluster.cluster import kubectl_command
from tools.localcluster.layout import Cluster
from tools.localcluster.target import target

from .registry_login import Login

ROOT = Path(__file__).resolve().parents[2]
_NO_CONDITIONS = ".status.conditions accessor error"
"""The message of kubectl for an object without conditions."""
NODE_LABELS = ("openstack-control-plane", "openstack-compute-node", "openvswitch", "openstack-gateway")


def ours(kind: str) -> str:
    """Return a kind of the operator's in a form that kubectl cannot mistake: others serve `mariadbs` and `keystones`,
    too.
    """
    return f"{kind}.openstack.k8s.io"


class KubeError(Exception):
    """Something the user can act on; shown without a traceback."""


def run(*command: str, stdin: str | None = None, timeout: float = 600) -> str:
    """Return the standard output of a command. Raises KubeError with its last line if it fails."""
    try:
        result = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise KubeError(f"{' '.join(command[:6])} … did not end within {timeout:.0f} s") from None
    if result.returncode:
        words = (result.stderr or result.stdout).strip()[-2000:]
        raise KubeError(f"{' '.join(command[:6])} … failed:\n{words}")
    return result.stdout


def module(name: str, *arguments: str, timeout: float = 3600, environment: Mapping[str, str] | None = None) -> str:
    """Return the standard output of one of the project's own command line modules. Its messages go to the terminal, and
    it has the variables in `environment` besides those of this process.
    """
    command = [sys.executable, "-m", name, *arguments]
    try:
        result = subprocess.run(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            timeout=timeout,
            env=os.environ | (environment or {}),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise KubeError(f"python -m {name} {' '.join(arguments)} did not end within {timeout:.0f} s") from None
    if result.returncode:
        raise KubeError(f"python -m {name} {' '.join(arguments)} failed; its messages stand above")
    return result.stdout


@dataclass(frozen=True)
class Kubernetes:
    """A reachable cluster."""

    kind: str
    """existing, kind or embedded"""
    kubeconfig: Path | None
    """None leaves it to kubectl's own rules."""
    registry: str = ""
    """Registry from which its nodes pull this checkout's images; empty if they were loaded onto them."""
    login: Login | None = field(default=None, kw_only=True)
    """The login there that pods get from here; None if the nodes pull by their own rules."""

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        """Return the standard output of kubectl."""
        return run(*self.command(), *arguments, stdin=stdin, timeout=timeout)

    def command(self) -> Sequence[str]:
        """Return the command line of kubectl for this cluster."""
        if self.kind == "embedded":
            try:
                return kubectl_command(Cluster())
            except BuildError as error:
                raise KubeError(f"{error}, or `make cloud`") from None
        return ("kubectl",) if self.kubeconfig is None else ("kubectl", f"--kubeconfig={self.kubeconfig}")

    def get(self, *arguments: str) -> dict[str, Any]:
        """Return the output of `kubectl get … -o json`, decoded."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        """Return the objects of a list."""
        return self.get(*arguments)["items"]

    def apply(self, *documents: dict[str, Any]) -> None:
        """Apply whole objects, by server-side apply."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(listed))

    def await_definitions(self, names: Iterable[str], seconds: int) -> None:
        """Wait until the API server serves the definitions of these names. Raises KubeError if it does not in time."""
        resources = [f"crd/{name}" for name in names]
        words, deadline = ("wait", "--for=condition=Established", f"--timeout={seconds}s"), time.monotonic() + seconds
        while True:
            try:
                self.kubectl(*words, *resources, timeout=seconds + 10)
            except KubeError as error:
                # kubectl gives up at once for a definition of which nothing is said yet.
                if _NO_CONDITIONS not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
            else:
                return

    def exists(self, *arguments: str) -> bool:
        """Return True if `kubectl get` finds the object."""
        return bool(self.kubectl("get", *arguments, "--ignore-not-found", "-o", "name").strip())

    def address(self) -> str:
        """Return the address of a control-plane node at which NodePorts answer from here, an external one if there is
        one.
        """
        for node in self.items("nodes", "-l", "openstack-control-plane=enabled"):
            addresses = {entry["type"]: entry["address"] for entry in node["status"]["addresses"]}
            if address := addresses.get("ExternalIP") or addresses.get("InternalIP"):
                return address
        raise KubeError("no node with the label openstack-control-plane=enabled has an address")


def started(nodes: int = 1, external: str = "") -> Kubernetes:
    """Return a cluster on this machine, kind or the embedded one, of at least `nodes` nodes, started and labelled.

    `external` is the address the machine takes on the nodes' external network, as 172.24.4.1/24; empty leaves it out.
    """
    chosen = target()
    print(f"    using {chosen.kind} cluster: {chosen.why}")
    labels = [word for label in NODE_LABELS for word in ("--label", f"{label}=enabled")]
    router = ["--external", external] if external else []
    path = module("tools.localcluster", "up", "--nodes", str(nodes), *router, *labels).strip().splitlines()[-1]
    os.environ["KUBECONFIG"] = path
    return Kubernetes(chosen.kind, Path(path))


def existing_cluster() -> Kubernetes:
    """Return the cluster of an earlier `make cloud`. Raises KubeError if none answers."""
    chosen = target()
    path = None
    if chosen.kind != "existing":
        path = Path(module("tools.localcluster", "kubeconfig").strip())
        if not path.exists():
            raise KubeError("no cluster runs on this machine; `make cloud` starts one, with a cloud in it")
        os.environ["KUBECONFIG"] = str(path)
    cluster = Kubernetes(chosen.kind, path)
    try:
        cluster.kubectl("version", "--request-timeout=10s")
    except KubeError as error:
        mend = "mend it" if path is None else "`make cloud` starts it anew"
        raise KubeError(f"the cluster does not answer; {mend}\n{error}") from None
    return cluster
