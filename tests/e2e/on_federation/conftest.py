"""One cloud for all of these tests, which run in the order they are written, and the provider in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from images import catalog
from openstack_operator import pki
from openstack_operator.api import ALLOWED_HOSTS
from tools.cloud.session import MINIMAL, Cloud, Session
from tools.localcluster.kubernetes import Kubernetes, module

from ..conftest import stands
from ..waiting import until
from . import provider

HOST, PORT = "sso.openstack.svc.cluster.local", 8443
ISSUER = f"https://{HOST}:{PORT}"
CLIENT, SECRET = "keystone", "what the provider gave this Keystone"
CLAIMS = {"sub": "u-1", "preferred_username": "ada", "email": "ada@example.org", "groups": ["cloud-users"]}
FOLDERS = {"program": "/provider", "told": "/told", "sso": "/sso", "bundle": "/bundle"}
Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="package")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The minimal cloud in a cluster of its own, Ready, and the provider beside it."""
    with stands(MINIMAL, lambda spec: spec) as found:
        cluster, cloud = found[0].cluster, found[1]
        module("images", "load", "federation")
        cluster.apply(*_provider(cloud, _bundle(cluster, cloud)))
        ask = ("logs", "sso", "-n", cloud.namespace)
        until("the provider to serve", lambda: _serving(cluster, ask), 120, 2)
        yield found


def _serving(cluster: Kubernetes, ask: tuple[str, ...]) -> bool:
    phase = cluster.get("pod", "sso", "-n", ask[-1])["status"].get("phase")
    return phase == "Running" and "serving" in cluster.kubectl(*ask)


def _bundle(cluster: Kubernetes, cloud: Cloud) -> str:
    """The Secret with the authorities of Keystone's certificate."""
    published = cluster.get("keystones.openstack.k8s.io", "keystone", "-n", cloud.namespace)["status"]["published"]
    return published["trustSecret"]


def _provider(cloud: Cloud, bundle: str) -> list[dict[str, Any]]:
    now = datetime.now(UTC)
    by = pki.authority("a" * 32, "authority of sso", now)
    leaf = pki.issue(by, pki.Request(common="sso", names=frozenset({HOST})), "b" * 32, now)
    told = {
        "issuer": ISSUER,
        "client": CLIENT,
        "secret": SECRET,
        "claims": CLAIMS,
        "port": PORT,
        "cert": "/told/tls.crt",
        "key": "/told/tls.key",
    }
    files = {"told.json": json.dumps(told), "tls.crt": leaf.cert, "tls.key": leaf.key}
    place = {"namespace": cloud.namespace}

    def secret(name: str, data: dict[str, str]) -> dict[str, Any]:
        metadata = {"name": name, **place, "annotations": {ALLOWED_HOSTS: HOST}}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}

    sources = {
        "program": {"configMap": {"name": "sso"}},
        "told": {"secret": {"secretName": "sso-told"}},
        "sso": {"secret": {"secretName": "sso", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        "bundle": {"secret": {"secretName": bundle}},
    }
    main = {
        "name": "main",
        "image": catalog.reference("operator"),
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "/provider/provider.py", "serve", "/told/told.json"],
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in FOLDERS.items()],
    }
    labels = {"app": "sso"}
    return [
        secret("sso", {"clientSecret": SECRET, "ca.crt": by.cert}),
        secret("sso-told", files),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "sso", **place},
            "data": {"provider.py": Path(provider.__file__).read_text(encoding="utf-8")},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "sso", **place},
            "spec": {"selector": labels, "ports": [{"port": PORT}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "sso", "labels": labels, **place},
            "spec": {
                "automountServiceAccountToken": False,
                "securityContext": {"fsGroup": 65532},
                "containers": [main],
                "volumes": [{"name": name, **source} for name, source in sources.items()],
            },
        },
    ]


@pytest.fixture
def run(cluster: Kubernetes, cloud: Cloud) -> Run:
    """What the program of the provider's pod prints, run there once more, as a client."""

    def found(*arguments: str) -> dict[str, Any]:
        trust = ("/sso/ca.crt", "/bundle/ca.crt")
        command = ("python3", "/provider/provider.py", *arguments, *trust)
        answer: dict[str, Any] = json.loads(cluster.kubectl("exec", "sso", "-n", cloud.namespace, "--", *command))
        return answer

    return found
