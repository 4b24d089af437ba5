"""Which ports the pods of a cloud listen on, and what one of them tells a pod that has no rights and no secrets.

Who listens is read from the pods' own tables of sockets: that is every port, whatever its number. Who answers is tried
from a pod in another namespace, without labels of ours, with nothing but Python.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.localcluster.kubernetes import ROOT, KubeError, Kubernetes

PAGE = ROOT / "docs" / "explanation" / "security.md"
STRANGERS = "strangers"
"""A namespace with one pod."""
NAME = "app.kubernetes.io/name"
KUBERNETES = {6443, 10250, 10256}
"""Of the API server, the kubelet and kube-proxy, on the networks of nodes."""
VNC, VNCS = 5900, range(5900, 6000)
_LISTEN = "0A"
_LOOPBACK = re.compile(r"(?:0{16}FFFF0000)?[0-9A-F]{6}7F|0{24}01000000")
_ROW = re.compile(r"\| `(?P<pods>[^`]+)` \| (?P<port>\d+) \| (?P<speaks>[^|]+?) \|")

# Prints a line of JSON for each (address, port): what the port speaks to somebody who has no certificate.
_TRY = r"""
import json, socket, ssl, sys, time
from concurrent.futures import ThreadPoolExecutor
def speaks(where):
    host, port = where
    try:
        plain = socket.create_connection((host, port), 5)
    except OSError:
        return "no answer"
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        sock = context.wrap_socket(plain)
    except ssl.SSLError as error:
        asked = "CERTIFICATE_REQUIRED" in str(error.reason) or "HANDSHAKE_FAILURE" in str(error.reason)
        return "TLS with a client certificate" if asked else "plain"
    except OSError:
        return "plain"
    # With TLS 1.3 who asks for a certificate refuses after the handshake, as the client sees it; others wait.
    with sock:
        sock.settimeout(3)
        try:
            return "TLS" if sock.recv(1) else "TLS with a client certificate"
        except TimeoutError:
            return "TLS"
        except OSError:
            return "TLS with a client certificate"
with ThreadPoolExecutor(16) as threads:
    targets = json.loads(sys.argv[1])
    for where, answer in zip(targets, threads.map(speaks, targets)):
        print(json.dumps([*where, answer]))
"""


@dataclass(frozen=True, order=True)
class Port:
    """A port that the pods of one program listen on, for others than themselves."""

    pods: str
    """`app.kubernetes.io/name`; `nodes` for what listens on a node's own network."""
    number: int


def listed(page: Path = PAGE) -> dict[Port, str]:
    """What the security documentation says that each port speaks."""
    rows = _ROW.finditer(page.read_text(encoding="utf-8"))
    return {Port(name, int(row["port"])): row["speaks"] for row in rows for name in row["pods"].split(", ")}


def listening(table: str) -> set[int]:
    """Ports of a table of sockets (`/proc/net/tcp`, `/proc/net/tcp6`) that others than the pod itself can reach."""
    found = set[int]()
    for line in table.splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[3] == _LISTEN:
            address, _, port = fields[1].partition(":")
            if not _LOOPBACK.fullmatch(address):
                found.add(int(port, 16))
    return found


def open_ports(cluster: Kubernetes, namespaces: Iterable[str]) -> dict[tuple[str, int], Port]:
    """The port by (address, number) of every running pod in the namespaces, and of their nodes but for Kubernetes."""
    found: dict[tuple[str, int], Port] = {}
    for namespace in namespaces:
        for pod in cluster.items("pods", "-n", namespace, "--field-selector", "status.phase=Running"):
            on_node = pod["spec"].get("hostNetwork", False)
            name = "nodes" if on_node else pod["metadata"]["labels"].get(NAME, pod["metadata"]["name"])
            # A StatefulSet's pods are called after it.
            name = name.removesuffix("-server")
            for number in listening(_sockets(cluster, pod)) - (KUBERNETES if on_node else set()):
                # Each guest has a screen of its own.
                found[pod["status"]["podIP"], number] = Port(name, VNC if on_node and number in VNCS else number)
    return found


def _sockets(cluster: Kubernetes, pod: Mapping[str, Any]) -> str:
    where = ("-n", pod["metadata"]["namespace"], pod["metadata"]["name"], "-c", pod["spec"]["containers"][0]["name"])
    # Python's image of the operator has no cat.
    read = 'for t in tcp tcp6; do while read -r line; do echo "$line"; done < /proc/net/$t; done'
    return cluster.kubectl("exec", *where, "--", "sh", "-c", read)


def answers(cluster: Kubernetes, targets: Sequence[tuple[str, int]], image: str) -> dict[tuple[str, int], str]:
    """What each (address, port) speaks to a pod of its own namespace that may do nothing. Raises KubeError where that
    pod does not end.
    """
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": STRANGERS, "labels": restricted}})
    try:
        cluster.apply(_stranger(targets, image))
        _ended(cluster)
        lines = cluster.kubectl("logs", "-n", STRANGERS, "stranger").splitlines()
    finally:
        cluster.kubectl("delete", "namespace", STRANGERS, "--wait=false")
    return {(host, port): answer for host, port, answer in map(json.loads, lines)}


def _stranger(targets: Sequence[tuple[str, int]], image: str) -> dict[str, Any]:
    context = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "main",
        "image": image,
        "command": ["python3", "-c", _TRY, json.dumps(targets)],
        "securityContext": context,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stranger", "namespace": STRANGERS},
        "spec": {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container]},
    }


def _ended(cluster: Kubernetes, timeout: float = 180) -> None:
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        phase = cluster.get("pod", "stranger", "-n", STRANGERS)["status"].get("phase")
        if phase == "Succeeded":
            return
        if phase == "Failed":
            raise KubeError(cluster.kubectl("logs", "-n", STRANGERS, "stranger"))
        time.sleep(0.5)
    raise KubeError(f"the pod that tries all ports did not end within {timeout:.0f} s")
