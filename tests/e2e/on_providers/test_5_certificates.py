"""cert-manager certifies by a private authority, and by an ACME server that refuses names which are not public."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from openstack_operator import pki
from tools.cloud import view
from tools.localcluster.kubernetes import Kubernetes
from tools.operators import issuers

from ..conftest import Report
from ..waiting import until
from .asked import NAMESPACE, raised

CERTIFICATES, ORDERS = "certificates.cert-manager.io", "orders.acme.cert-manager.io"
PRIVATE, PUBLIC = "openstack-ca", "letsencrypt-prod"
_INTERNAL = f"keystone.{NAMESPACE}.svc"
_PUBLIC = frozenset({"keystone.example.com", "*.cloud.example.com"})
_CLOUD = "certified"

Object = dict[str, Any]


def certificate(name: str, issuer: str, *names: str) -> Object:
    return {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "secretName": name,
            "dnsNames": sorted(names),
            "privateKey": {"algorithm": "ECDSA", "size": 256, "encoding": "PKCS8"},
            "issuerRef": {"name": issuer, "kind": "ClusterIssuer"},
        },
    }


def files(cluster: Kubernetes, name: str) -> dict[str, str]:
    stored = cluster.get("secret", name, "-n", NAMESPACE)["data"]
    return {file: base64.b64decode(text).decode() for file, text in stored.items()}


def fault(issued: dict[str, str], names: frozenset[str], authority: str) -> str:
    request = pki.Request(common="", names=names)
    pair = pki.Pair(issued["tls.key"], issued["tls.crt"])
    return pki.fault(pair, request, datetime.now(UTC), authorities=[authority])


def test_a_private_authority_certifies_internal_names(cluster: Kubernetes, report: Report) -> None:
    started = time.monotonic()
    issuers.ready(cluster, *issuers.private(PRIVATE))
    report.add(cert_manager_apply_to_ready_seconds=round(time.monotonic() - started, 1))
    issuers.ready(cluster, certificate("internal", PRIVATE, _INTERNAL))
    issued = files(cluster, "internal")
    assert not fault(issued, frozenset({_INTERNAL}), issued["ca.crt"])


def test_a_public_authority_certifies_public_names(cluster: Kubernetes, report: Report) -> None:
    issuers.ready(cluster, *issuers.public(cluster, PUBLIC))
    started = time.monotonic()
    # cert-manager waits a minute for each record to reach the world.
    issuers.ready(cluster, certificate("public", PUBLIC, *_PUBLIC), seconds=300)
    report.add(acme_apply_to_ready_seconds=round(time.monotonic() - started, 1))
    issued = files(cluster, "public")
    assert not fault(issued, _PUBLIC, issuers.public_root(cluster))
    assert "ca.crt" not in issued, "public authorities hand out none: who trusts them has theirs"


def test_a_public_authority_validates_a_name_through_an_ingress_controller(cluster: Kubernetes, report: Report) -> None:
    issuers.ready(cluster, *issuers.public(cluster, "letsencrypt-http", ingress_class="traefik"))
    started = time.monotonic()
    issuers.ready(cluster, certificate("served", "letsencrypt-http", "glance.example.com"), seconds=240)
    report.add(acme_http_apply_to_ready_seconds=round(time.monotonic() - started, 1))
    assert not fault(files(cluster, "served"), frozenset({"glance.example.com"}), issuers.public_root(cluster))


def test_a_public_authority_refuses_internal_names(cluster: Kubernetes) -> None:
    cluster.apply(certificate("refused", PUBLIC, _INTERNAL))

    def order() -> Object:
        owned = [each for each in cluster.items(ORDERS, "-n", NAMESPACE) if each["spec"]["dnsNames"] == [_INTERNAL]]
        return owned[0].get("status", {}) if owned else {}

    until("the order to be refused", lambda: order().get("state") == "errored", 60, 1)
    assert "rejectedIdentifier" in order()["reason"]
    assert not cluster.exists("secret", "refused", "-n", NAMESPACE)
    cluster.kubectl("-n", NAMESPACE, "delete", CERTIFICATES, "refused")


def test_a_pki_uses_the_private_issuer_and_public_names_the_public_one(cluster: Kubernetes, report: Report) -> None:
    with raised(cluster, _CLOUD):
        # Without OpenStack: the PKI alone.
        cluster.apply(_pki("private", PRIVATE), _pki("public", PUBLIC))
        found = _found(cluster)
        until("the PKI to be Ready", lambda: view.ready(found("private")), 120, 1)
        issuer = lambda: view.conditions(found("public")).get("IssuerReady", {})  # noqa: E731
        until("the issuer to be named", lambda: PUBLIC in issuer().get("message", ""), 120, 1)
        assert "certifies only public names" in issuer()["message"]
        report.add(pki_of_a_public_issuer=issuer()["message"])
        # Names inside the cluster are by an authority of its own.
        until("the PKI to be Ready", lambda: view.ready(found("public")), 120, 1)
        assert found("public")["status"]["published"]["publicIssuerName"] == PUBLIC


def _pki(name: str, issuer: str) -> Object:
    return {
        "apiVersion": "openstack.k8s.io/v1alpha1",
        "kind": "PKI",
        "metadata": {"name": name, "namespace": _CLOUD},
        "spec": {"issuerRef": {"name": issuer, "kind": "ClusterIssuer"}},
    }


def _found(cluster: Kubernetes) -> Callable[[str], Object]:
    return lambda name: cluster.get("pkis.openstack.k8s.io", name, "-n", _CLOUD)
