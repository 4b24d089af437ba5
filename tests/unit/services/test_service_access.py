"""Services that clients outside call: what load balancers are told, and by which addresses clients come."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.plan import Object, Permissions, Plan, Release, SpecError
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.controlplane.service import plan as cloud
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan as keystone
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.nova.service import plan as nova
from openstack_operator.testing import context
from tests.unit.services.test_front import CONTRACTS, Objects, objects
from tests.unit.services.test_front import planned as front_planned

METALLB = {"metallb.io/loadBalancerIPs": "192.0.2.10", "metallb.io/allow-shared-ip": "cloud"}
BALANCED: dict[str, Any] = {
    "type": "LoadBalancer",
    "host": "cloud.example.org",
    "annotations": METALLB,
    "loadBalancerClass": "metallb",
    "loadBalancerIP": "192.0.2.10",
    "loadBalancerSourceRanges": ["198.51.100.0/24"],
    "externalTrafficPolicy": "Local",
}


def planned(release: Release, expose: dict[str, Any], **changes: Any) -> Plan:
    return keystone(context(KEYSTONE, {"expose": expose}, release=release, published=CONTRACTS, **changes))


def address(release: Release, expose: dict[str, Any], **changes: Any) -> Object:
    return objects(planned(release, expose, **changes))["Service", "keystone-api"]


def test_a_load_balancer_reads_annotations_class_and_addresses(release: Release) -> None:
    service = address(release, BALANCED)
    assert METALLB.items() <= service["metadata"]["annotations"].items()
    fields = {name: value for name, value in service["spec"].items() if name not in ("ports", "selector")}
    assert fields == {
        "type": "LoadBalancer",
        "loadBalancerClass": "metallb",
        "loadBalancerIP": "192.0.2.10",
        "loadBalancerSourceRanges": ["198.51.100.0/24"],
        "externalTrafficPolicy": "Local",
    }


@pytest.mark.parametrize("type_", ["ClusterIP", "NodePort"])
def test_other_types_have_no_fields_of_load_balancers(release: Release, type_: str) -> None:
    spec = address(release, {**BALANCED, "type": type_})["spec"]
    assert {name for name in spec if name.startswith("loadBalancer")} == set()
    # The API server refuses that policy for a Service that no client outside calls.
    assert ("externalTrafficPolicy" in spec) == (type_ == "NodePort")


def test_a_node_port_keeps_its_number_beside_annotations_of_the_user(release: Release) -> None:
    annotations = address(release, {**BALANCED, "type": "NodePort"})["metadata"]["annotations"]
    assert annotations["openstack.k8s.io/remembered"] == "true"
    assert METALLB.items() <= annotations.items()


def test_a_recreated_service_has_no_fields_that_others_wrote(release: Release) -> None:
    """The plan has only fields of its own: those of a cloud's controllers stay theirs when it is applied."""
    written = address(release, BALANCED)
    foreign = {"metallb.io/ip-allocated-from-pool": "public", "service.beta.kubernetes.io/id": "7"}
    live = {**written, "metadata": {**written["metadata"], "annotations": METALLB | foreign}}
    assert address(release, BALANCED, children={("Service", "keystone-api"): live}) == written


def services(found: Objects) -> dict[str, Object]:
    return {name: obj for (kind, name), obj in found.items() if kind == "Service"}


def test_consoles_have_the_same_settings_as_the_apis(release: Release) -> None:
    found = services(objects(front_planned(release, NOVA, nova, expose=BALANCED)))
    outside = [name for name, obj in found.items() if obj["spec"].get("type") == "LoadBalancer"]
    assert "nova-api" in outside
    assert [name for name in outside if "novncproxy" in name]
    for name in outside:
        assert found[name]["spec"]["loadBalancerClass"] == "metallb"
        assert METALLB.items() <= found[name]["metadata"]["annotations"].items()


def test_own_exposure_of_a_service_replaces_that_of_the_cloud(release: Release) -> None:
    own = {"type": "LoadBalancer", "annotations": {"metallb.io/address-pool": "images"}}
    spec = {"expose": BALANCED, "glance": {"expose": own}}
    found = objects(cloud(context(CONTROL_PLANE, spec, release=release)))
    assert found["Glance", "glance"]["spec"]["expose"] == own
    assert found["Keystone", "keystone"]["spec"]["expose"]["annotations"] == METALLB
    assert found["Keystone", "keystone"]["spec"]["expose"]["loadBalancerIP"] == "192.0.2.10"


# Annotations that not every user may write

CONFIG = "haproxy.org/backend-config-snippet"


@pytest.mark.parametrize(
    "name",
    [
        "metallb.universe.tf/address-pool",
        "service.beta.kubernetes.io/aws-load-balancer-internal",
        "service.kubernetes.io/topology-mode",
        "loadbalancer.openstack.org/keep-floatingip",
        "lbipam.cilium.io/ips",
        "io.cilium/lb-ipam-ips",
        "networking.gke.io/load-balancer-type",
        "load-balancer.hetzner.cloud/location",
        "external-dns.alpha.kubernetes.io/hostname",
    ],
)
def test_every_user_may_write_annotations_of_load_balancers(release: Release, name: str) -> None:
    found = address(release, {"type": "LoadBalancer", "annotations": {name: "x"}}, permissions=Permissions())
    assert found["metadata"]["annotations"] == {name: "x"}


@pytest.mark.parametrize("name", [CONFIG, "haproxy-ingress.github.io/config-backend", "getambassador.io/config", "x"])
def test_orders_to_proxies_of_the_cluster_need_a_permission(release: Release, name: str) -> None:
    expose = {"type": "LoadBalancer", "annotations": {name: "x"}}
    with pytest.raises(SpecError, match=r"spec\.expose\.annotations\..*--service-annotations 'openstack="):
        address(release, expose, permissions=Permissions())
    allowed = Permissions(service_annotations=(f"openstack={name}",))
    assert address(release, expose, permissions=allowed)["metadata"]["annotations"] == {name: "x"}


@pytest.mark.parametrize("name", ["openstack.k8s.io/retain", "app.kubernetes.io/x", "nova.openstack.c5c3.io/x", "a b"])
def test_annotations_of_the_operator_cannot_be_set(release: Release, name: str) -> None:
    with pytest.raises(SpecError, match=r"spec\.expose\.annotations\."):
        address(
            release,
            {"type": "LoadBalancer", "annotations": {name: "x"}},
            permissions=Permissions(service_annotations=("*",)),
        )


def test_a_route_of_a_gateway_has_annotations(release: Release) -> None:
    dns = {"external-dns.alpha.kubernetes.io/ttl": "60"}
    expose = {
        "type": "Gateway",
        "host": "id.example.org",
        "gateway": {"parentRefs": [{"name": "public"}], "annotations": dns},
    }
    kinds = objects(planned(release, expose))
    [route] = [obj for (kind, _), obj in kinds.items() if kind.startswith("HTTPRoute")]
    assert route["metadata"]["annotations"] == dns


# IPv6

V6 = "2001:db8::10"


def live(**fields: Any) -> dict[tuple[str, str], Object]:
    service: Object = {"metadata": {"name": "keystone-api"}, "spec": {"ports": [{"nodePort": 30500}]}, **fields}
    return {("Service", "keystone-api"): service}


@pytest.mark.parametrize(
    ("expose", "children", "url"),
    [
        ({"type": "NodePort", "host": V6}, live(), f"http://[{V6}]:30500/v3"),
        ({"type": "LoadBalancer", "host": V6}, {}, f"http://[{V6}]:5000/v3"),
        (
            {"type": "LoadBalancer"},
            live(status={"loadBalancer": {"ingress": [{"ip": V6}]}}),
            f"http://[{V6}]:5000/v3",
        ),
        ({"type": "NodePort", "host": "192.0.2.10"}, live(), "http://192.0.2.10:30500/v3"),
    ],
)
def test_clients_learn_a_url_with_an_address_in_brackets(
    release: Release, expose: dict[str, Any], children: dict[tuple[str, str], Object], url: str
) -> None:
    assert planned(release, expose, children=children).outcome.published["publicURL"] == url
