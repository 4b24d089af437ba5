"""Names and certificates of c5c3's kinds: their APIs are reached as manifests that were written for c5c3 say."""

from __future__ import annotations

import pytest
from cryptography import x509

from openstack_operator.cli.render import Id, OfflineCluster
from openstack_operator.kube import secret_data
from openstack_operator.plan import Object
from openstack_operator.registry import ACTUATORS, SERVICES
from tests.field_effects import RELEASES, Leaves, changes, resulting_leaves
from tests.fields import KINDS

PKI = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "PKI", "metadata": {"name": "internal"}}
HOST = "openstack.svc.cluster.local"
PORTS = {"Keystone": 5000, "Glance": 9292, "Placement": 8778, "Neutron": 9696, "Nova": 8774, "Cinder": 8776}
KIND_NAMES = list(PORTS)


def planned(kind: str, *beside: Object, group: str = "") -> list[Object]:
    """The objects of a resource called as its kind."""
    resource = KINDS[kind]
    version = f"{group}/v1alpha1" if group else resource.api_version
    manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": kind.lower()}, "spec": {}}
    paper = OfflineCluster(SERVICES, ACTUATORS, RELEASES, password="drawn")
    handle = kind if group == "openstack.k8s.io" else resource.handle
    all_planned = {each.id: each for each in paper.render([manifest, *beside], "openstack")}
    return list(all_planned[Id(handle, "openstack", kind.lower())].objects)


def found(objects: list[Object], kind: str, name: str) -> Object:
    return next(obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == (kind, name))


def names(secret: Object) -> list[str]:
    cert = x509.load_pem_x509_certificate(secret_data(secret)["tls.crt"].encode())
    return cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_an_api_has_the_name_of_its_resource(kind: str) -> None:
    objects, low = planned(kind), kind.lower()
    short, own = (found(objects, "Service", name)["spec"] for name in (low, f"{low}-api"))
    assert short == own
    assert short["ports"] == [{"name": "http", "port": PORTS[kind], "protocol": "TCP"}]
    assert resulting_leaves(kind, {})["endpoint"].startswith(f"http://{low}.{HOST}:{PORTS[kind]}")


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_our_own_kinds_leave_that_name_to_others(kind: str) -> None:
    services = [obj["metadata"]["name"] for obj in planned(kind, group="openstack.k8s.io") if obj["kind"] == "Service"]
    assert services and kind.lower() not in services


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_the_clouds_pki_certifies_both_names(kind: str) -> None:
    low = kind.lower()
    certified = names(found(planned(kind, PKI), "Secret", f"{low}-api-tls"))
    assert {f"{name}.{HOST}" for name in (low, f"{low}-api")} < {*certified}
    assert {low, f"{low}.openstack", f"{low}.openstack.svc"} < {*certified}
    assert resulting_leaves(kind, {}, PKI)["endpoint"].startswith(f"https://{low}.{HOST}:{PORTS[kind]}")


def test_another_component_has_its_own_names_only() -> None:
    certified = names(found(planned("Nova", PKI), "Secret", "nova-metadata-tls"))
    assert f"nova-metadata.{HOST}" in certified
    assert f"nova.{HOST}" not in certified


@pytest.mark.parametrize("kind", [*KIND_NAMES, "Cortex"])
def test_a_pki_of_the_cloud_is_taken_as_if_it_was_named(kind: str) -> None:
    named = {"tls": {"pkiRef": {"name": "internal"}}}
    assert changes(resulting_leaves(kind, {}, PKI), resulting_leaves(kind, named, PKI)) == {}


@pytest.mark.parametrize("kind", [*KIND_NAMES, "Cortex"])
def test_plain_text_can_be_asked_for(kind: str) -> None:
    assert changes(resulting_leaves(kind, {}), resulting_leaves(kind, {"tls": {}}, PKI)) == {}


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_our_own_kinds_take_no_pki_by_themselves(kind: str) -> None:
    made = [obj["metadata"]["name"] for obj in planned(kind, PKI, group="openstack.k8s.io")]
    assert f"{kind.lower()}-api-tls" not in made


def test_a_keystone_by_its_address_is_trusted_by_the_pki() -> None:
    """Manifests name no authority: the one of the cloud is meant."""
    identity = {"authUrl": f"https://keystone.{HOST}:5000/v3", "appCredentialRef": {"secretName": "app"}}
    made: Leaves = resulting_leaves("Placement", {"keystone": identity}, PKI)
    place = "Secret/placement-config placement.conf [keystone_authtoken]"
    assert made[f"{place} cafile"] == "/etc/openstack-trust/internal-bundle/ca.crt"


def test_a_cloud_without_encryption_says_so_to_each_of_its_services() -> None:
    """Else they would take the certificate of a PKI that comes later, before their clients trust it."""
    made = resulting_leaves("ControlPlane", {"global": {"tls": {"enabled": False}}})
    assert made["Keystone/keystone spec.tls"] == {}
