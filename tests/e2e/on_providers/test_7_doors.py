"""Traefik leads requests to Services by an Ingress and by a Gateway: by the host that is asked for, and by the path."""

from __future__ import annotations

import urllib.request
from typing import Any
from urllib.error import HTTPError

import pytest

from tools.localcluster.kubernetes import Kubernetes
from tools.operators import build
from tools.operators.catalog import OPERATORS

from ..waiting import until
from .asked import NAMESPACE

_PORT, _PATH = 8089, "/.well-known/acme-challenge/token"
_HOSTS = {"by-ingress": "ingress.example.com", "by-gateway": "gateway.example.com"}

Object = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def _servers(cluster: Kubernetes) -> None:
    """A server for each host, which answers one path with its name: cert-manager's solver of HTTP-01."""
    for name, host in _HOSTS.items():
        cluster.apply(*_server(name, host))
        cluster.kubectl("-n", NAMESPACE, "wait", f"pod/{name}", "--for=condition=Ready", "--timeout=60s")


def test_an_ingress(cluster: Kubernetes) -> None:
    backend = {"service": {"name": "by-ingress", "port": {"number": _PORT}}}
    path = {"path": "/.well-known", "pathType": "Prefix", "backend": backend}
    rule = {"host": _HOSTS["by-ingress"], "http": {"paths": [path]}}
    spec = {"ingressClassName": "traefik", "rules": [rule]}
    cluster.apply(_object("networking.k8s.io/v1", "Ingress", "by-ingress", spec))
    _answered(cluster, "by-ingress")


def test_a_gateway(cluster: Kubernetes) -> None:
    # Traefik has no listener but those of its own ports.
    listener = {"name": "web", "protocol": "HTTP", "port": 8000, "allowedRoutes": {"namespaces": {"from": "Same"}}}
    gateway = {"gatewayClassName": "traefik", "listeners": [listener]}
    route = {
        "parentRefs": [{"name": "public"}],
        "hostnames": [_HOSTS["by-gateway"]],
        "rules": [
            {
                "matches": [{"path": {"type": "PathPrefix", "value": "/.well-known"}}],
                "backendRefs": [{"name": "by-gateway", "port": _PORT}],
            }
        ],
    }
    api = "gateway.networking.k8s.io/v1"
    cluster.apply(_object(api, "Gateway", "public", gateway), _object(api, "HTTPRoute", "by-gateway", route))
    _answered(cluster, "by-gateway")


def _answered(cluster: Kubernetes, name: str) -> None:
    host = _HOSTS[name]
    until(f"{host} to answer", lambda: _asked(cluster, host, _PATH) == (200, name), 60, 1)
    assert _asked(cluster, host, "/other")[0] == 404
    assert _asked(cluster, f"other.{host}", _PATH)[0] == 404


def _asked(cluster: Kubernetes, host: str, path: str) -> tuple[int, str]:
    """Status and text of an answer at the port of a node."""
    ports = cluster.get("service", "traefik", "-n", "traefik")["spec"]["ports"]
    (port,) = [each["nodePort"] for each in ports if each["name"] == "web"]
    request = urllib.request.Request(f"http://{cluster.address()}:{port}{path}", headers={"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, ""


def _object(version: str, kind: str, name: str, spec: Object) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": name}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _server(name: str, host: str) -> list[Object]:
    container = {
        "name": "main",
        "image": build.reference(OPERATORS["cert-manager"]),
        "imagePullPolicy": "IfNotPresent",
        "args": [f"--listen-port={_PORT}", f"--domain={host}", "--token=token", f"--key={name}"],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": _PORT}, "periodSeconds": 1},
    }
    pod = {"automountServiceAccountToken": False, "containers": [container]}
    service = {"selector": {"app": name}, "ports": [{"port": _PORT}]}
    return [_object("v1", "Pod", name, pod), _object("v1", "Service", name, service)]
