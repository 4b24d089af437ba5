"""Access to an API for clients outside the cluster: by a port or an address of its Service, through an Ingress, or
through a Gateway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ... import kube
from ...api import Expose, Gateway, Ingress, RemoteAccess, ServiceAccess, UsesTLS
from ...plan import Context, Kind, Object, SpecError, Step, url_host
from ..secrets.issued import CERT_MANAGER, check_issuer
from ..secrets.tls import TRUSTED, Certified
from .annotations import HAPROXY, HAPROXY_ORG, NGINX, check_annotations, check_service_annotations

_GATEWAY_API = "gateway.networking.k8s.io/v1"
KINDS = (
    Kind(_GATEWAY_API, "HTTPRoute", "httproutes", project="gateway-api"),
    Kind(_GATEWAY_API, "BackendTLSPolicy", "backendtlspolicies", project="gateway-api"),
)
"""Kinds by which a Gateway exposes an API."""


def public_url(ctx: Context[Any], component: str, port: int, expose: Expose, scheme: str = "http") -> str | None:
    """Return the URL that outside clients use; None until Kubernetes has assigned a port or address. Raises SpecError
    if a name is missing.
    """
    if through_proxy(expose):
        number = f":{expose.port}" if expose.port not in (None, 443) else ""
        return f"https://{_name(component, expose)}{number}"
    service = ctx.name(component)
    live = ctx.children.get(("Service", kube.fitting(service)), {})
    host = public_host(ctx, service, expose)
    if expose.type == "NodePort" and host:
        ports = [entry["nodePort"] for entry in live.get("spec", {}).get("ports", ()) if entry.get("nodePort")]
        return f"{scheme}://{url_host(host)}:{ports[0]}" if ports else None
    return f"{scheme}://{url_host(host)}:{port}" if expose.type == "LoadBalancer" and host else None


def public_host(ctx: Context[Any], service: str, expose: Expose) -> str:
    """Name or address with which clients outside call the Service; empty if they do not, or it is not known yet."""
    if expose.type != "LoadBalancer":
        return (expose.host or "") if expose.type == "NodePort" else ""
    live = ctx.children.get(("Service", kube.fitting(service)), {})
    addresses = (live.get("status") or {}).get("loadBalancer", {}).get("ingress") or [{}]
    return expose.host or addresses[0].get("hostname") or addresses[0].get("ip") or ""


def entrance(
    ctx: Context[Any],
    component: str,
    ports: Mapping[str, int],
    target: Mapping[str, str],
    at: RemoteAccess,
    path: str = "spec.remoteAccess",
) -> tuple[Object, str]:
    """Return Service `<owner>-<component>` for clients outside, with one port, and its `HOST:PORT`; an empty string
    until Kubernetes has assigned a port or address.
    """
    [port] = ports.values()
    url = public_url(ctx, component, port, Expose(type=at.type, host=at.host), "any")
    service = outside_service(ctx, ctx.name(component), dict(ports), dict(target), at, at.type, path)
    return service, (url or "").removeprefix("any://")


def api_service(
    ctx: Context[Any], name: str, ports: Mapping[str, int], target: Mapping[str, str], expose: Expose
) -> Object:
    """Return the Service of an API, exposed as `spec.expose` says. Raises SpecError for an annotation that needs a
    permission.
    """
    return outside_service(ctx, name, ports, target, expose, service_type(expose), "spec.expose")


def outside_service(
    ctx: Context[Any],
    name: str,
    ports: Mapping[str, int],
    target: Mapping[str, str],
    at: ServiceAccess,
    type_: str,
    path: str,
) -> Object:
    """Return the Service with the settings for load balancers that the spec has at `path`. What these write on it stays
    theirs.
    """
    check_service_annotations(ctx, f"{path}.annotations", at.annotations)
    service = kube.service(ctx, name, ports, target, type_=type_)
    balanced = type_ == "LoadBalancer"
    settings = {
        "loadBalancerClass": at.load_balancer_class if balanced else None,
        "loadBalancerIP": at.load_balancer_ip if balanced else None,
        "loadBalancerSourceRanges": at.load_balancer_source_ranges or None if balanced else None,
        "externalTrafficPolicy": at.external_traffic_policy if type_ != "ClusterIP" else None,
    }
    service = {**service, "spec": {**service["spec"], **kube.drop_none(settings)}}
    return kube.annotated(service, at.annotations) if at.annotations else service


def last_public_url(ctx: Context[Any], component: str, expose: Expose) -> str:
    """Return the last URL in the catalog, to use until a recreated Service gets its port or address."""
    entry = ctx.name("catalog") if component == "api" else ctx.name("catalog", component)
    live = ctx.children.get(("KeystoneService", kube.fitting(entry)), {})
    url = urlsplit(live.get("spec", {}).get("endpoints", {}).get("public", ""))
    return f"{url.scheme}://{url.netloc}" if expose.type != "ClusterIP" and url.netloc else ""


def through_proxy(expose: Expose) -> bool:
    """Return True if a proxy that terminates the clients' TLS calls the API."""
    return expose.type in ("Ingress", "Gateway")


def service_type(expose: Expose) -> str:
    """Return the type of the Service behind the Ingress or route."""
    return "ClusterIP" if through_proxy(expose) else expose.type


def public_endpoint(
    ctx: Context[Any], component: str, port: int, expose: Expose, certificate: Certified
) -> tuple[Step, ...]:
    """Return the Ingress or HTTPRoute `<owner>-<component>`, if the spec asks for one. It uses TLS, and verifies the
    certificate of the pods, as soon as clients are configured to. Raises SpecError if a field is missing.
    """
    if not through_proxy(expose):
        return ()
    make_objects = _ingress if expose.type == "Ingress" else _route
    return (Step(name="PublicEndpoint", objects=make_objects(ctx, component, port, expose, certificate)),)


def _name(component: str, expose: Expose) -> str:
    """Return `host` for the API; for other components a sibling of it, which the same wildcard certificate covers."""
    if not expose.host:
        raise SpecError("spec.expose.host", f"type {expose.type} needs a host name for clients outside the cluster")
    label, dot, rest = expose.host.partition(".")
    return expose.host if component == "api" else f"{label}-{component}{dot}{rest}"


def _ingress(
    ctx: Context[Any], component: str, port: int, expose: Expose, certificate: Certified
) -> tuple[Object, ...]:
    settings, host, name = expose.ingress or Ingress(), _name(component, expose), ctx.name(component)
    settings = _certified_by_issuer(ctx, settings, host)
    check_annotations(ctx, "spec.expose.ingress.annotations", settings.annotations, host)
    backend = {"service": {"name": name, "port": {"number": port}}}
    ingress = kube.obj(
        ctx,
        "Ingress",
        name,
        "networking.k8s.io/v1",
        spec={
            "ingressClassName": settings.class_name,
            "tls": [{"hosts": [host], "secretName": _certificate(ctx, component, settings)}],
            "rules": [{"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}],
        },
    )
    return (kube.annotated(ingress, {**_PATIENT, **_encrypted(ctx, name, certificate), **settings.annotations}),)


def _certified_by_issuer(ctx: Context[Any], settings: Ingress, host: str) -> Ingress:
    """Return the settings with the issuer that certifies the cloud's public names, unless they name a certificate.
    Raises SpecError where the namespace may not have one for the host.
    """
    ref = ctx.spec.tls.pki_ref if isinstance(ctx.spec, UsesTLS) and ctx.spec.tls else None
    published = ctx.refs[ref].published if ref and ref in ctx.refs else {}
    if not (name := published.get("publicIssuerName")) or _names_certificate(settings):
        return settings
    kind = published["publicIssuerKind"]
    check_issuer(ctx, "spec.expose.host", kind, CERT_MANAGER, name, [host])
    annotation = "cluster-issuer" if kind == "ClusterIssuer" else "issuer"
    return settings.model_copy(update={"annotations": {**settings.annotations, f"{CERT_MANAGER}/{annotation}": name}})


def _names_certificate(settings: Ingress) -> bool:
    return bool(settings.secret_name) or any(name.startswith(f"{CERT_MANAGER}/") for name in settings.annotations)


def _certificate(ctx: Context[Any], component: str, settings: Ingress) -> str | None:
    """Return the Secret with the certificate of the host. cert-manager makes one for each Ingress, each with its own
    name.
    """
    return settings.secret_name or (ctx.name(component, "public-tls") if _names_certificate(settings) else None)


_PATIENT = {
    # An image is larger than the default limit of a request, and the proxy must not buffer it first.
    f"{NGINX}/proxy-body-size": "0",
    f"{NGINX}/proxy-request-buffering": "off",
    # As long as an API's TLS proxy waits; and consoles may be silent for long.
    f"{NGINX}/proxy-read-timeout": "3600",
    f"{NGINX}/proxy-send-timeout": "3600",
    f"{HAPROXY}/timeout-server": "10m",
    f"{HAPROXY}/timeout-tunnel": "24h",
}
"""Settings for controllers; each reads only its own annotations."""


def _encrypted(ctx: Context[Any], service: str, certificate: Certified) -> Mapping[str, str]:
    """Return the annotations with which controllers use TLS to the API."""
    trust = certificate.published.get(TRUSTED)
    if not trust:
        return {}
    host = ctx.host(service)
    return {
        f"{NGINX}/backend-protocol": "HTTPS",
        f"{NGINX}/proxy-ssl-secret": f"{ctx.namespace}/{trust}",
        f"{NGINX}/proxy-ssl-verify": "on",
        f"{NGINX}/proxy-ssl-verify-depth": "2",
        f"{NGINX}/proxy-ssl-name": host,
        f"{NGINX}/proxy-ssl-server-name": "on",
        f"{HAPROXY}/backend-protocol": "h1-ssl",
        f"{HAPROXY}/secure-sni": host,
        f"{HAPROXY}/secure-verify-ca-secret": trust,
        f"{HAPROXY}/secure-verify-hostname": host,
        f"{HAPROXY_ORG}/server-ssl": "true",
    }


def _route(ctx: Context[Any], component: str, port: int, expose: Expose, certificate: Certified) -> tuple[Object, ...]:
    if expose.gateway is None:
        raise SpecError("spec.expose.gateway", "type Gateway needs a Gateway; set parentRefs")
    name, gateway = ctx.name(component), expose.gateway
    check_service_annotations(ctx, "spec.expose.gateway.annotations", gateway.annotations)
    route = kube.obj(
        ctx,
        "HTTPRoute",
        name,
        _GATEWAY_API,
        spec={
            "parentRefs": _parents(gateway),
            "hostnames": [_name(component, expose)],
            "rules": [
                {
                    "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
                    "backendRefs": [{"name": name, "port": port}],
                    # Images take as long as they take; Envoy would give up after 15 s.
                    "timeouts": {"request": "0s"},
                }
            ],
        },
    )
    route = kube.annotated(route, gateway.annotations) if gateway.annotations else route
    return (route, *_checked(ctx, name, certificate))


def _parents(gateway: Gateway) -> list[Object]:
    return [parent.model_dump(by_alias=True, exclude_none=True) for parent in gateway.parent_refs]


def _checked(ctx: Context[Any], service: str, certificate: Certified) -> tuple[Object, ...]:
    """Return the objects with which a Gateway uses TLS to the API: it reads authorities from ConfigMaps."""
    if not certificate.authorities:
        return ()
    trust = kube.obj(ctx, "ConfigMap", f"{service}-trust", data={"ca.crt": certificate.authorities})
    policy = kube.obj(
        ctx,
        "BackendTLSPolicy",
        service,
        _GATEWAY_API,
        spec={
            "targetRefs": [{"group": "", "kind": "Service", "name": kube.fitting(service)}],
            "validation": {
                "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": trust["metadata"]["name"]}],
                "hostname": ctx.host(service),
            },
        },
    )
    return trust, policy
