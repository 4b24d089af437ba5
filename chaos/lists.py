"""Lists of objects for who looks again and again: over one connection that stays open.

kubectl starts anew for each look and asks first what there is; each second, that is CPU the cloud waits for.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from cloud.kubernetes import CloudError

Object = dict[str, Any]
_TIMEOUT = 10.0
_OURS = "/apis/openstack.k8s.io/v1alpha1"
_CATEGORY = "openstack"


class Lists:
    """The API server of a kubeconfig that holds its certificates, as the embedded cluster's does."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._context = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]))
        # Only files can be loaded; these are gone before anything is asked.
        with tempfile.TemporaryDirectory() as folder:
            pem = Path(folder) / "client.pem"
            pem.touch(mode=0o600)
            pem.write_text(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
            self._context.load_cert_chain(pem)
        self._server = urlsplit(cluster["server"])
        self._connection: http.client.HTTPSConnection | None = None
        self._kinds: dict[str, str] = {}
        """Path of a list by kind."""

    def watched(self, namespace: str) -> list[Object]:
        """Pods and resources of a namespace. Raises CloudError where the API server does not answer."""
        if not self._kinds:
            listed = self._get(_OURS)["resources"]
            ours = {each["kind"]: each["name"] for each in listed if _CATEGORY in each.get("categories", ())}
            self._kinds = {kind: f"{_OURS}/namespaces/{{}}/{plural}" for kind, plural in ours.items()}
            self._kinds["Pod"] = "/api/v1/namespaces/{}/pods"
        found = {kind: self._get(path.format(namespace))["items"] for kind, path in self._kinds.items()}
        return [{**item, "kind": kind} for kind, items in found.items() for item in items]

    def close(self) -> None:
        """The connection is closed; another look opens one."""
        connection, self._connection = self._connection, None
        with contextlib.suppress(OSError):
            if connection:
                connection.close()

    def _get(self, path: str) -> Any:
        try:
            if self._connection is None:
                host, port = self._server.hostname or "", self._server.port
                self._connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=self._context)
            self._connection.request("GET", path)
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise CloudError(f"{path}: {error or type(error).__name__}") from None
        if response.status != http.client.OK:
            raise CloudError(f"{path}: {response.status} {response.reason}")
        return json.loads(body)


def _decoded(data: str) -> str:
    return base64.b64decode(data).decode()
