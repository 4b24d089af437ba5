"""Command lines of the control plane's processes."""

from __future__ import annotations

import base64
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import build

SERVICE_RANGE = "10.96.0.0/16"
POD_RANGE = "10.244.0.0/16"
DNS_ADDRESS = "10.96.0.10"
DOMAIN = "cluster.local"
_API_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{DOMAIN}")


@dataclass(frozen=True)
class ControlPlane:
    """Addresses at which a control plane listens, and paths of its files as its own processes see them."""

    address: str
    port: int
    etcd_port: int
    etcd_peer_port: int
    data: Path
    pki: Path

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port}"


def certificates(pki: Path, address: str, nodes: list[str]) -> None:
    """Write all keys and certificates of a new cluster to `pki`, in place of what was there."""
    hosts = [address, "127.0.0.1", "10.96.0.1", "localhost", *_API_NAMES]
    clients = {
        "admin": "admin/system:masters",
        "kubelet-client": "kube-apiserver-kubelet-client/system:masters",
        "controllers": "system:kube-controller-manager",
        "scheduler": "system:kube-scheduler",
        "proxy": "system:kube-proxy",
        **{f"node-{node}": f"system:node:{node}/system:nodes" for node in nodes},
    }
    command = [str(build.binary("kubernetes", "certificates")), "-dir", str(pki)]
    for host in dict.fromkeys(hosts):
        command += ["-host", host]
    for file, user in clients.items():
        command += ["-client", f"{file}={user}"]
    subprocess.run(command, check=True)


def kubeconfig(pki: Path, client: str, url: str) -> dict[str, Any]:
    """Return a kubeconfig that contains everything it needs, so that it stays valid wherever it is copied to."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "localcluster",
        "contexts": [{"name": "localcluster", "context": {"cluster": "localcluster", "user": client}}],
        "clusters": [
            {
                "name": "localcluster",
                "cluster": {"server": url, "certificate-authority-data": _base64(pki / "ca.crt")},
            }
        ],
        "users": [
            {
                "name": client,
                "user": {
                    "client-certificate-data": _base64(pki / f"{client}.crt"),
                    "client-key-data": _base64(pki / f"{client}.key"),
                },
            }
        ],
    }


def write_private(path: Path, value: Any) -> Path:
    """Write `value` to `path` as JSON, which is YAML, too, readable by its owner only. Return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(value, indent=1) + "\n")
    return path


def etcd(plane: ControlPlane, binary: Path) -> list[str]:
    client, peer = (f"http://127.0.0.1:{port}" for port in (plane.etcd_port, plane.etcd_peer_port))
    return [
        str(binary),
        "--name=localcluster",
        f"--data-dir={plane.data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=localcluster={peer}",
        # A cluster to throw away loses nothing in a power cut that matters, and runs much faster on slow disks.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(plane: ControlPlane, binary: Path) -> list[str]:
    pki = plane.pki
    return [
        str(binary),
        f"--etcd-servers=http://127.0.0.1:{plane.etcd_port}",
        f"--bind-address={plane.address}" if plane.address == "127.0.0.1" else "--bind-address=0.0.0.0",
        f"--secure-port={plane.port}",
        f"--advertise-address={plane.address}",
        f"--cert-dir={pki}",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
        # Node names are in no DNS; without this, exec and logs look them up.
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki}/service-accounts.key",
        f"--service-account-signing-key-file={pki}/service-accounts.key",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--profiling=false",
        # The wait before shutting down gracefully, for load balancers to notice; there are none.
        "--shutdown-delay-duration=0s",
    ]


def controllers(plane: ControlPlane, binary: Path, config: Path) -> list[str]:
    return [
        str(binary),
        f"--kubeconfig={config}",
        f"--cert-dir={plane.pki}",
        f"--root-ca-file={plane.pki}/ca.crt",
        f"--service-account-private-key-file={plane.pki}/service-accounts.key",
        f"--cluster-signing-cert-file={plane.pki}/ca.crt",
        f"--cluster-signing-key-file={plane.pki}/ca.key",
        "--use-service-account-credentials=true",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--profiling=false",
        # The default of 20 requests a second is meant for clusters that share an API server with many others.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def scheduler(plane: ControlPlane, binary: Path, config: Path) -> list[str]:
    return [
        str(binary),
        f"--kubeconfig={config}",
        f"--cert-dir={plane.pki}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--profiling=false",
    ]


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
