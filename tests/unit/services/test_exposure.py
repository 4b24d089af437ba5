"""APIs behind an Ingress or a Gateway: what leads to them, how it calls them, and what clients are told."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from openstack_operator import kube
from openstack_operator.plan import Permissions, Plan, Release, SpecError, State
from openstack_operator.registry import EXTERNAL_KINDS
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.errors import Missing
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.controlplane.service import plan as cloud
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan as keystone
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.nova.service import plan as nova
from openstack_operator.testing import context, granted
from tests.unit.faulty_api import FaultyApi
from tests.unit.services.test_front import CONTRACTS, Objects, conf, objects, planned, pod

INGRESS: dict[str, Any] = {"type": "Ingress", "host": "id.example.org"}
PARENT = {"name": "public", "namespace": "gateways", "sectionName": "https"}
GATEWAY: dict[str, Any] = {"type": "Gateway", "host": "id.example.org", "gateway": {"parentRefs": [PARENT]}}
INSIDE = "keystone-api.openstack.svc.cluster.local"


def plain(release: Release, expose: dict[str, Any], **changes: Any) -> Plan:
    """A Keystone without a certificate."""
    return keystone(context(KEYSTONE, {"expose": expose}, release=release, published=CONTRACTS, **changes))


def told(found: Objects, name: str = "keystone-api") -> dict[str, str]:
    return found["Ingress", name]["metadata"]["annotations"]


def encrypting(found: dict[str, str]) -> set[str]:
    """Annotations that say how the API is called."""
    return {name.partition("/")[2] for name in found if "protocol" in name or "ssl" in name or "secure" in name}


def test_an_ingress_leads_to_the_api_and_clients_are_told_its_name(release: Release) -> None:
    plan = plain(release, {**INGRESS, "ingress": {"className": "haproxy", "secretName": "wildcard"}})
    found = objects(plan)
    spec = found["Ingress", "keystone-api"]["spec"]
    assert spec["ingressClassName"] == "haproxy"
    assert spec["tls"] == [{"hosts": ["id.example.org"], "secretName": "wildcard"}]
    [rule] = spec["rules"]
    assert rule["host"] == "id.example.org"
    [path] = rule["http"]["paths"]
    assert path["backend"]["service"] == {"name": "keystone-api", "port": {"number": 5000}}
    assert found["Service", "keystone-api"]["spec"]["type"] == "ClusterIP"
    assert plan.outcome.published["publicURL"] == "https://id.example.org/v3"
    assert plan.outcome.published["internalURL"] == f"http://{INSIDE}:5000/v3"
    catalog = found["KeystoneService", "keystone-catalog"]["spec"]["endpoints"]
    assert catalog["public"] == "https://id.example.org/v3"
    assert "PublicEndpoint" in plan.condition.values()


def test_published_url_has_the_port_of_the_spec(release: Release) -> None:
    assert plain(release, {**INGRESS, "port": 8443}).outcome.published["publicURL"] == "https://id.example.org:8443/v3"
    assert plain(release, {**INGRESS, "port": 443}).outcome.published["publicURL"] == "https://id.example.org/v3"


def test_large_images_get_through_and_annotations_of_the_user_win(release: Release) -> None:
    size = "nginx.ingress.kubernetes.io/proxy-body-size"
    assert told(objects(plain(release, INGRESS)))[size] == "0"
    own = {size: "1g", "haproxy.org/timeout-client": "1m"}
    found = told(objects(plain(release, {**INGRESS, "ingress": {"annotations": own}})))
    assert own.items() <= found.items()


@pytest.mark.parametrize(
    ("ingress", "secret"),
    [
        ({}, None),
        ({"annotations": {"cert-manager.io/issuer": "company"}}, "keystone-api-public-tls"),
        ({"annotations": {"cert-manager.io/issuer": "company"}, "secretName": "mine"}, "mine"),
    ],
)
def test_a_certificate_is_the_users_cert_managers_or_the_controllers(
    release: Release, ingress: dict[str, Any], secret: str | None
) -> None:
    [entry] = objects(plain(release, {**INGRESS, "ingress": ingress}))["Ingress", "keystone-api"]["spec"]["tls"]
    assert entry.get("secretName") == secret


@pytest.mark.parametrize(
    ("kind", "annotation"),
    [("Issuer", "cert-manager.io/issuer"), ("ClusterIssuer", "cert-manager.io/cluster-issuer")],
)
def test_the_issuer_of_public_names_certifies_an_ingress(release: Release, kind: str, annotation: str) -> None:
    public = {"publicIssuerName": "acme", "publicIssuerKind": kind}
    allowed = Permissions(issuer_hosts=("openstack=*.example.org",))
    changes: dict[str, Any] = {"pki_contract": public, "permissions": allowed}
    found = objects(planned(release, KEYSTONE, keystone, expose=INGRESS, **changes))
    assert told(found)[annotation] == "acme"
    assert found["Ingress", "keystone-api"]["spec"]["tls"][0]["secretName"] == "keystone-api-public-tls"
    own = {**INGRESS, "ingress": {"secretName": "mine"}}
    assert annotation not in told(objects(planned(release, KEYSTONE, keystone, expose=own, **changes)))
    if kind == "ClusterIssuer":
        with pytest.raises(SpecError, match=r"spec\.expose\.host: .*--issuer-hosts"):
            planned(release, KEYSTONE, keystone, expose=INGRESS, pki_contract=public, permissions=Permissions())


def test_an_api_believes_the_proxy_how_its_client_came(release: Release) -> None:
    believes = {"name": "OS_OSLO_MIDDLEWARE__ENABLE_PROXY_HEADERS_PARSING", "value": "true"}
    assert believes in pod(objects(plain(release, INGRESS)), "keystone-api")["containers"][0]["env"]
    assert believes not in pod(objects(plain(release, {"type": "ClusterIP"})), "keystone-api")["containers"][0]["env"]
    for expose, keeps in ((INGRESS, True), ({"type": "ClusterIP"}, False)):
        _, front = pod(objects(planned(release, KEYSTONE, keystone, expose=expose)), "keystone-api")["containers"]
        text = next(each["value"] for each in front["env"] if each["name"] == "CONFIG")
        assert ("X-Forwarded-Proto http unless { req.hdr(X-Forwarded-Proto) -m found }" in text) == keeps


def test_controllers_call_by_tls_and_check_the_certificate_once_clients_are_told(release: Release) -> None:
    assert not encrypting(told(objects(plain(release, INGRESS))))
    running = {key: granted(obj) for key, obj in objects(plain(release, INGRESS)).items()}
    rolling = planned(release, KEYSTONE, keystone, expose=INGRESS, children=running)
    assert not encrypting(told(objects(rolling))), "pods without a front take no TLS"
    found = told(objects(planned(release, KEYSTONE, keystone, expose=INGRESS)))
    assert found["nginx.ingress.kubernetes.io/backend-protocol"] == "HTTPS"
    assert found["nginx.ingress.kubernetes.io/proxy-ssl-secret"] == "openstack/pki-bundle"
    assert found["nginx.ingress.kubernetes.io/proxy-ssl-name"] == INSIDE
    assert found["nginx.ingress.kubernetes.io/proxy-ssl-verify"] == "on"
    assert found["haproxy-ingress.github.io/backend-protocol"] == "h1-ssl"
    assert found["haproxy-ingress.github.io/secure-verify-ca-secret"] == "pki-bundle"
    assert found["haproxy-ingress.github.io/secure-verify-hostname"] == INSIDE
    assert found["haproxy.org/server-ssl"] == "true"


def test_public_clouds_yaml_trusts_our_authority_unless_a_proxy_is_between(release: Release) -> None:
    for expose, checked in ((INGRESS, False), ({"type": "NodePort", "host": "192.0.2.7"}, True)):
        text = conf(objects(planned(release, KEYSTONE, keystone, expose=expose)), "keystone-clouds", "clouds.yaml")
        clouds = yaml.safe_load(text)["clouds"]
        assert "cacert" in clouds["openstack"]
        assert ("cacert" in clouds["openstack-public"]) == checked


def test_a_gateway_has_a_route_to_the_api(release: Release) -> None:
    plan = plain(release, GATEWAY)
    spec = objects(plan)["HTTPRoute", "keystone-api"]["spec"]
    assert spec["parentRefs"] == [PARENT]
    assert spec["hostnames"] == ["id.example.org"]
    [rule] = spec["rules"]
    assert rule["backendRefs"] == [{"name": "keystone-api", "port": 5000}]
    assert plan.outcome.published["publicURL"] == "https://id.example.org/v3"
    assert not [kind for kind, _ in objects(plan) if kind in {"BackendTLSPolicy", "ConfigMap", "Ingress"}]


def test_a_gateway_checks_the_certificate_too(release: Release) -> None:
    found = objects(planned(release, KEYSTONE, keystone, expose=GATEWAY))
    spec = found["BackendTLSPolicy", "keystone-api"]["spec"]
    assert spec["targetRefs"] == [{"group": "", "kind": "Service", "name": "keystone-api"}]
    [trust] = spec["validation"]["caCertificateRefs"]
    assert spec["validation"]["hostname"] == INSIDE
    assert found["ConfigMap", trust["name"]]["data"].keys() == {"ca.crt"}
    assert "PRIVATE KEY" not in str(found["ConfigMap", trust["name"]])


def test_consoles_have_a_name_beside_that_of_the_api(release: Release) -> None:
    expose = {**GATEWAY, "host": "nova.example.org"}
    found = objects(planned(release, NOVA, nova, expose=expose))
    assert found["HTTPRoute", "nova-api"]["spec"]["hostnames"] == ["nova.example.org"]
    assert found["HTTPRoute", "nova-cell1-novncproxy"]["spec"]["hostnames"] == ["nova-cell1-novncproxy.example.org"]
    assert ("HTTPRoute", "nova-metadata") not in found
    url = "novncproxy_base_url = https://nova-cell1-novncproxy.example.org/vnc_lite.html"
    assert url in conf(found, "nova-cell1-compute-config", "nova.conf")


def test_each_api_of_a_cloud_has_a_name_in_its_domain(release: Release) -> None:
    expose = {"type": "Ingress", "domain": "cloud.example.org", "ingress": {"className": "nginx"}}
    spec = {"expose": expose, "placement": {"expose": {"type": "ClusterIP"}}}
    made = {
        obj["metadata"]["name"]: obj["spec"] for obj in cloud(context(CONTROL_PLANE, spec, release=release)).objects
    }
    assert made["keystone"]["expose"]["host"] == "keystone.cloud.example.org"
    assert made["nova"]["expose"]["host"] == "nova.cloud.example.org"
    assert "domain" not in made["nova"]["expose"]
    assert made["placement"]["expose"] == {"type": "ClusterIP"}


@pytest.mark.parametrize(
    ("expose", "field"),
    [
        ({"type": "Ingress"}, "spec.expose.host"),
        ({**GATEWAY, "host": None}, "spec.expose.host"),
        ({"type": "Gateway", "host": "id.example.org"}, "spec.expose.gateway"),
    ],
)
def test_a_missing_exposure_field_is_named(release: Release, expose: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecError, match=field):
        plain(release, expose)


def test_why_a_gateway_does_not_take_a_route_is_told(release: Release) -> None:
    route = objects(plain(release, GATEWAY))["HTTPRoute", "keystone-api"]
    assert "no Gateway has accepted it yet" in kube.judge(route).message
    taken = [{"type": "Accepted", "status": "True"}, {"type": "ResolvedRefs", "status": "True"}]
    refused = [{"type": "Accepted", "status": "False", "reason": "NotAllowedByListeners", "message": "not from here"}]
    for conditions, message in ((taken, ""), (refused, "keystone-api: public: not from here")):
        parents = [{"parentRef": {"name": "public"}, "conditions": conditions}]
        verdict = kube.judge({**route, "status": {"parents": parents}})
        assert (verdict.state, verdict.message) == (State.READY, message)


async def test_a_kind_that_is_not_there_is_named(api: FaultyApi, client: Client, release: Release) -> None:
    kind = next(kind for kind in EXTERNAL_KINDS if kind.kind == "HTTPRoute")
    api.answers.append((404, {"message": "the server could not find the requested resource"}, {}))
    route = objects(plain(release, GATEWAY))["HTTPRoute", "keystone-api"]
    with pytest.raises(Missing, match=r"install the CRD httproutes\.gateway\.networking\.k8s\.io"):
        await client.apply(kind, route)
