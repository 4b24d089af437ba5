"""The image registry beside the embedded cluster: how commands of this machine and pods log in there."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.localcluster.layout import Cluster
from tools.localcluster.registry import Registry

LOCAL = "local"
"""The name of this registry in `make cloud REGISTRY=local`."""
PULL_SECRET = "registry-login"


@dataclass(frozen=True)
class Login:
    """A login to a registry."""

    file: Path
    """In the form of Docker's config.json."""
    authority: Path
    """The certificate by which clients know the registry."""

    def environment(self) -> Mapping[str, str]:
        """Return the variables by which skopeo logs in and trusts the registry."""
        return {"REGISTRY_AUTH_FILE": str(self.file), "SSL_CERT_FILE": str(self.authority)}

    def pull_secret(self, namespace: str) -> dict[str, Any]:
        """Return the Secret with which pods of a namespace pull."""
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": PULL_SECRET, "namespace": namespace},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": base64.b64encode(self.file.read_bytes()).decode()},
        }

    def objects(self, namespace: str) -> list[dict[str, Any]]:
        """Return a namespace whose pods can pull images even without an account of their own, as those of a cloud:
        Kubernetes adds the Secret of the account `default` to each new pod.
        """
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": namespace},
        }
        return [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
            self.pull_secret(namespace),
            with_pull_secret(account),
        ]


def with_pull_secret(account: dict[str, Any]) -> dict[str, Any]:
    """Return a ServiceAccount whose pods pull images with the Secret."""
    return {**account, "imagePullSecrets": [{"name": PULL_SECRET}]}


def local() -> Login:
    """Return the login to the registry beside the embedded cluster."""
    registry = Registry(Cluster())
    return Login(registry.login, registry.authority)
