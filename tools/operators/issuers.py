"""Issuers of cert-manager, as clouds name them: a private authority, and an ACME server like a public one."""

from __future__ import annotations

import time
from typing import Any

from tools.localcluster.kubernetes import KubeError, Kubernetes

Object = dict[str, Any]

NAMESPACE = "cert-manager"
"""The namespace of the Secrets of ClusterIssuers."""
_SERVER = "https://pebble.pebble.svc.cluster.local:14000/dir"
_MANAGEMENT = "/api/v1/namespaces/pebble/services/https:pebble:15000/proxy/roots/0"
_DNS = "public-dns.pebble.svc.cluster.local:53"


def private(name: str = "openstack-ca") -> list[Object]:
    """Return a ClusterIssuer whose authority's key cert-manager generates, by way of a self-signed issuer."""
    authority = {
        "isCA": True,
        "commonName": name,
        "secretName": name,
        "duration": "87600h",
        "privateKey": {"algorithm": "ECDSA", "size": 256},
        "issuerRef": {"name": f"{name}-root", "kind": "ClusterIssuer"},
    }
    return [
        _issuer(f"{name}-root", {"selfSigned": {}}),
        {
            "apiVersion": "cert-manager.io/v1",
            "kind": "Certificate",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": authority,
        },
        _issuer(name, {"ca": {"secretName": name}}),
    ]


def public(cluster: Kubernetes, name: str = "letsencrypt-prod", ingress_class: str = "") -> list[Object]:
    """Return a ClusterIssuer with an account at the ACME server of `pebble`, which is installed. Names are validated by
    DNS-01, for which cert-manager updates the DNS that pebble asks; with an Ingress class by HTTP-01, through it.
    """
    http = {"http01": {"ingress": {"ingressClassName": ingress_class}}}
    stored = cluster.get("secret", "pebble-tls", "-n", "pebble")["data"]
    acme = {
        "server": _SERVER,
        # In a Secret it is in base64, as it has to be here.
        "caBundle": stored["ca.crt"],
        "email": "admin@example.com",
        "privateKeySecretRef": {"name": f"{name}-account"},
        "solvers": [http if ingress_class else {"dns01": {"rfc2136": {"nameserver": _DNS}}}],
    }
    return [_issuer(name, {"acme": acme})]


def ready(cluster: Kubernetes, *objects: Object, seconds: float = 120) -> None:
    """Apply the objects, and wait until each is Ready.

    Raises KubeError where that takes longer.
    """
    end = time.monotonic() + seconds
    for each in objects:
        _accepted(cluster, each, end)
    for each in objects:
        metadata = each["metadata"]
        where = ("-n", metadata["namespace"]) if "namespace" in metadata else ()
        remaining = max(1, end - time.monotonic())
        name = f"{each['kind'].lower()}.cert-manager.io/{metadata['name']}"
        cluster.kubectl(
            *where, "wait", name, "--for=condition=Ready", f"--timeout={remaining:.0f}s", timeout=remaining + 10
        )


def public_root(cluster: Kubernetes) -> str:
    """Return the root certificate of pebble, which it generates at each start."""
    return cluster.kubectl("get", "--raw", _MANAGEMENT)


def _issuer(name: str, spec: Object) -> Object:
    return {"apiVersion": "cert-manager.io/v1", "kind": "ClusterIssuer", "metadata": {"name": name}, "spec": spec}


def _accepted(cluster: Kubernetes, obj: Object, end: float) -> None:
    """Apply an object, again until `end`: the API server gets the webhook's authority some seconds after the webhook
    answers.
    """
    while True:
        try:
            cluster.apply(obj)
        except KubeError as error:
            if "failed calling webhook" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(1)
        else:
            return
