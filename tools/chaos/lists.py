"""Lists of objects for frequent polling, over one connection that stays open.

kubectl starts a process for each list and first discovers the API; each second, that is CPU the cloud waits for.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tools.localcluster.kubernetes import KubeError

Object = dict[str, Any]
_TIMEOUT = 10.0
_OURS = "/apis/openstack.k8s.io/v1alpha1"
_CATEGORY = "openstack"
_POD = "Pod"
_TURNS = 5
"""Polls after which a kind whose objects were well is listed again, while objects of other kinds are not well."""


class Lists:
    """The API server of a kubeconfig that holds its certificates, as the embedded cluster's does."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._context = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]))
        # Only files can be loaded; these are removed before the first request.
        with tempfile.TemporaryDirectory() as folder:
            pem = Path(folder) / "client.pem"
            pem.touch(mode=0o600)
            pem.write_text(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
            self._context.load_cert_chain(pem)
        self._server = urlsplit(cluster["server"])
        self._connection: http.client.HTTPSConnection | None = None
        self._kinds: dict[str, str] = {}
        """Path of a list by kind."""
        self._seen: dict[str, list[Object]] = {}
        self._looks = 0

    def watched(self, namespace: str, well: Callable[[Object], bool]) -> list[Object]:
        """Return pods and resources of a namespace. If all are `well`, all kinds were listed just now; otherwise pods,
        kinds of which one was not well, and a part of the others in turn: each list costs CPU of the API server, which
        what recovers needs. Raises KubeError where it does not answer.
        """
        if not self._kinds:
            listed = self._get(_OURS)["resources"]
            ours = {each["kind"]: each["name"] for each in listed if _CATEGORY in each.get("categories", ())}
            self._kinds = {kind: f"{_OURS}/namespaces/{{}}/{plural}" for kind, plural in ours.items()}
            self._kinds[_POD] = "/api/v1/namespaces/{}/pods"
        self._looks += 1
        due = {
            kind
            for turn, kind in enumerate(self._kinds)
            if kind == _POD or turn % _TURNS == self._looks % _TURNS or not self._well(kind, well)
        }
        self._ask(namespace, due)
        if all(self._well(kind, well) for kind in self._kinds):
            self._ask(namespace, self._kinds.keys() - due)
        return [item for kind in self._kinds for item in self._seen[kind]]

    def _well(self, kind: str, well: Callable[[Object], bool]) -> bool:
        return kind in self._seen and all(map(well, self._seen[kind]))

    def _ask(self, namespace: str, kinds: Collection[str]) -> None:
        for kind in kinds:
            items = self._get(self._kinds[kind].format(namespace))["items"]
            self._seen[kind] = [{**item, "kind": kind} for item in items]

    def close(self) -> None:
        """Close the connection; the next request opens another."""
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
            raise KubeError(f"{path}: {error or type(error).__name__}") from None
        if response.status != http.client.OK:
            raise KubeError(f"{path}: {response.status} {response.reason}")
        return json.loads(body)


def _decoded(data: str) -> str:
    return base64.b64decode(data).decode()
