"""HashiCorp's Vault in a pod, in a namespace of its own, as a server outside of the cloud."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests import vault
from tools.localcluster import archives, build
from tools.localcluster.kubernetes import Kubernetes, module

from ..waiting import until

NAMESPACE, PORT, USER = "vault", 8200, 65532
HOST = f"vault.{NAMESPACE}.svc.cluster.local"
_REFERENCE = "localhost/tests/vault"


def start(cluster: Kubernetes, folder: Path) -> vault.Administrator:
    """It is set up and active; its client has what it keeps in the folder. Barbican reaches it at HOST and PORT, the
    client at a port of the node. Its data outlive its processes, but not the pod."""
    part = build.ensure(build.VAULT)
    image = f"{_REFERENCE}:{part.name.rpartition('-')[2]}"
    archive = folder / "vault.tar"
    archives.write(archive, image, [part / "vault"], user=f"{USER}:{USER}")
    module("tools.localcluster", "load", str(archive))
    archive.unlink()
    files = vault.certificate(HOST, cluster.address())
    (folder / "ca.crt").write_text(files["ca.crt"])
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    cluster.apply(*_objects(image, files))
    service = cluster.get("service", "vault", "-n", NAMESPACE)
    url = f"https://{cluster.address()}:{service['spec']['ports'][0]['nodePort']}"
    administrator = vault.Administrator(url, folder, lambda what, look: until(what, look, 120, 1))
    administrator.initialize()
    return administrator


def _objects(image: str, files: dict[str, str]) -> list[dict[str, Any]]:
    metadata = {"name": "vault", "namespace": NAMESPACE, "labels": {"app": "vault"}}
    cluster = f"127.0.0.1:{PORT + 1}"
    config = vault.configuration(f"https://{HOST}:{PORT}", f"0.0.0.0:{PORT}", cluster, "/config", "/data")
    volumes = {"config": {"secret": {"secretName": "vault"}}, "data": {"emptyDir": {}}}
    main = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["server", "-config=/config/vault.json"],
        "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in volumes],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {**files, "vault.json": config}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"type": "NodePort", "selector": {"app": "vault"}, "ports": [{"port": PORT}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {
                "automountServiceAccountToken": False,
                "securityContext": {"runAsNonRoot": True, "fsGroup": USER},
                "containers": [main],
                "volumes": [{"name": name, **source} for name, source in volumes.items()],
            },
        },
    ]
