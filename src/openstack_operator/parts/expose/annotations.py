"""Annotations of Ingresses, routes and Services that every user may write: a controller obeys them beyond the namespace
they are in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...kube.pod_metadata import check_name
from ...plan import Context
from ..secrets.issued import CERT_MANAGER, check_issuer, serves_cluster

NGINX, HAPROXY, HAPROXY_ORG = "nginx.ingress.kubernetes.io", "haproxy-ingress.github.io", "haproxy.org"
_ACME = f"acme.{CERT_MANAGER}"

# A controller pastes the value into its configuration: it must contain no further settings, and not break the file.
_SECONDS, _SIZE, _TIME = "[0-9]{1,9}", "[0-9]{1,9}[kKmMgG]?", "[0-9]{1,9}(us|ms|[smhd])?"
_BOOL, _SWITCH, _LIFE = "true|false", "on|off", "([0-9]{1,6}[hms])+"
_LABEL, _NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?", "[a-z0-9]([-a-z0-9.]*[a-z0-9])?"


def _all(group: str, pattern: str, *names: str) -> dict[str, str]:
    return {f"{group}/{name}": pattern for name in names}


_TIMEOUTS = [f"timeout-{name}" for name in ("client", "connect", "http-request", "queue", "server", "tunnel")]
_ALLOWED: Mapping[str, str] = {
    "kubernetes.io/ingress.class": _NAME,
    "kubernetes.io/tls-acme": _BOOL,
    **_all(NGINX, _SECONDS, *(f"proxy-{name}-timeout" for name in ("connect", "read", "send"))),
    **_all(NGINX, _SECONDS, "limit-connections", "limit-rps", "limit-rpm"),
    **_all(NGINX, _SIZE, "proxy-body-size", "proxy-buffer-size", "client-body-buffer-size"),
    **_all(NGINX, _SWITCH, "proxy-buffering", "proxy-request-buffering"),
    **_all(NGINX, _BOOL, "ssl-redirect", "force-ssl-redirect"),
    **_all(HAPROXY, _TIME, *_TIMEOUTS),
    **_all(HAPROXY, _SIZE, "proxy-body-size"),
    **_all(HAPROXY, _SECONDS, "limit-connections", "limit-rps"),
    **_all(HAPROXY, _BOOL, "ssl-redirect"),
    **_all(HAPROXY_ORG, _TIME, *_TIMEOUTS),
    **_all(HAPROXY_ORG, _BOOL, "ssl-redirect"),
    **_all(CERT_MANAGER, _NAME, "issuer", "cluster-issuer", "issuer-group"),
    **_all(CERT_MANAGER, "Issuer|ClusterIssuer", "issuer-kind"),
    **_all(CERT_MANAGER, _LIFE, "duration", "renew-before"),
    **_all(CERT_MANAGER, "RSA|ECDSA|Ed25519", "private-key-algorithm"),
    **_all(CERT_MANAGER, "PKCS1|PKCS8", "private-key-encoding"),
    **_all(CERT_MANAGER, "Never|Always", "private-key-rotation-policy"),
    **_all(CERT_MANAGER, _SECONDS, "private-key-size", "revision-history-limit"),
    **_all(_ACME, _BOOL, "http01-edit-in-place"),
    **_all(_ACME, _NAME, "http01-ingress-class", "http01-ingress-ingressclassname"),
}
"""Pattern of each one's values. None names a program, a file, a header, or an object in another namespace."""


def check_annotations(ctx: Context[Any], path: str, annotations: Mapping[str, str], host: str) -> None:
    """Raise SpecError for an annotation that not every user may write, and for a host for which the namespace may not
    have a certificate of the issuer that the annotations name.
    """
    for name, value in annotations.items():
        if not _is_harmless(ctx, name, value):
            ctx.permissions.check_annotation(f"{path}.{name}", ctx.namespace, name)
    issuer = annotations.get(f"{CERT_MANAGER}/issuer")
    group = annotations.get(f"{CERT_MANAGER}/issuer-group", CERT_MANAGER)
    kind = annotations.get(f"{CERT_MANAGER}/issuer-kind", "Issuer")
    if issuer and serves_cluster(kind, group):
        check_issuer(ctx, f"{path}.{CERT_MANAGER}/issuer", kind, group, issuer, [host])
    if cluster_issuer := annotations.get(f"{CERT_MANAGER}/cluster-issuer"):
        check_issuer(ctx, f"{path}.{CERT_MANAGER}/cluster-issuer", "ClusterIssuer", group, cluster_issuer, [host])
    # The installation of cert-manager sets which issuer that is.
    elif annotations.get("kubernetes.io/tls-acme", "false") != "false" and not issuer:
        check_issuer(ctx, f"{path}.kubernetes.io/tls-acme", "ClusterIssuer", group, "the default one", [host])


_BALANCERS = re.compile(
    # One address for several APIs, networks, health checks and the like, of the load balancer alone.
    r"(metallb\.io|metallb\.universe\.tf|lbipam\.cilium\.io|kube-vip\.io|purelb\.io|openelb\.kubesphere\.io"
    r"|loadbalancer\.openstack\.org|load-balancer\.hetzner\.cloud|networking\.gke\.io|cloud\.google\.com"
    r"|service\.(beta\.)?kubernetes\.io)/.+"
    # Cilium's earlier names.
    r"|io\.cilium/lb-ipam-[a-z-]+"
)
_DNS = "external-dns.alpha.kubernetes.io/"
"""Of external-dns, which has filters of its own for names that it may write."""


def check_service_annotations(ctx: Context[Any], path: str, annotations: Mapping[str, str]) -> None:
    """Raise SpecError for an annotation of a Service or a route that is not a load balancer's or external-dns's, or
    that has no name of Kubernetes: some proxies paste others into the configuration of the whole cluster.
    """
    for name, value in annotations.items():
        check_name(f"{path}.{name}", name)
        if not (_BALANCERS.fullmatch(name) or name.startswith(_DNS)) or not value.isprintable():
            ctx.permissions.check_service_annotation(f"{path}.{name}", ctx.namespace, name)


def _is_harmless(ctx: Context[Any], name: str, value: str) -> bool:
    if name == f"{HAPROXY_ORG}/server-ca":
        # A Secret or a ConfigMap, of this namespace alone.
        return re.fullmatch(f"({re.escape(ctx.namespace)}/)?{_LABEL}", value) is not None
    return name in _ALLOWED and re.fullmatch(_ALLOWED[name], value) is not None
