"""What a run of Tempest looks up in a cloud, so that tests of what is not there are skipped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from openstack_operator.agents.tempest.cloud import Cloud, CloudError, NotOfferedError, discover
from openstack_operator.agents.tempest.runner import without_passwords

IMAGES = {"images": [{"name": "demo", "id": "i1", "min_ram": 0, "min_disk": 0, "visibility": "public"}]}
FLAVORS = {"flavors": [{"name": "m1.nano", "id": "f1", "ram": 128, "disk": 1}]}
NETWORKS = {"networks": [{"name": "public", "id": "n1"}]}
FORMATS = {
    "container_format": {"enum": [None, "ami", "ovf", "bare"]},
    "disk_format": {"enum": [None, "ami", "raw", "qcow2"]},
}
SERVED: Mapping[str, Any] = {
    "image/v2/images": IMAGES,
    "image/v2/schemas/image": {"properties": FORMATS},
    "image/v2/info/stores/detail": {"stores": [{"id": "file", "type": "file"}]},
    "compute/flavors/detail": FLAVORS,
    "compute/os-services": {
        "services": [
            {"host": "a", "state": "up", "status": "enabled"},
            {"host": "b", "state": "up", "status": "enabled"},
            {"host": "c", "state": "down", "status": "enabled"},
            {"host": "d", "state": "up", "status": "disabled"},
        ]
    },
    "compute/": {"version": {"version": "2.100", "min_version": "2.1"}},
    "network/v2.0/networks": NETWORKS,
    "network/v2.0/rbac-policies": {"rbac_policies": [{"object_id": "n1", "target_tenant": "*"}]},
    "network/v2.0/extensions": {"extensions": [{"alias": "router"}, {"alias": "port-security"}]},
}


_WISHES = ("services", "image", "flavor", "network", "loadBalancerProvider")
"""Keys of run.json that a spec leaves empty unless it names something."""


class Served(Cloud):
    """A cloud that answers from a table; what is not in it is not offered."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers

    @property
    def identity(self) -> str:
        return "https://keystone:5000/v3"

    def endpoint(self, service: str) -> str:
        return service if any(path.startswith(f"{service}/") for path in self._answers) else ""

    def ask(self, method: str, url: str, body: Any = None, **query: str) -> Any:
        if url not in self._answers:
            raise NotOfferedError(f"{method} {url}: 404")
        return self._answers[url]


def options(**changes: Any) -> dict[str, dict[str, Any]]:
    """tempest.conf of a cloud whose answers differ from SERVED so; None is no such API."""
    answers = {path: answer for path, answer in {**SERVED, **changes}.items() if answer is not None}
    wanted: dict[str, Any] = dict.fromkeys(_WISHES)
    with ExitStack() as end:
        return discover(Served(answers), {**wanted, "administrator": ""}, end)


def test_extensions_of_neutron_are_those_it_has() -> None:
    features = options()["network-feature-enabled"]
    assert features["api_extensions"] == "port-security,router"
    assert features["port_security"] is True
    without = options(**{"network/v2.0/extensions": {"extensions": []}})
    assert without["network-feature-enabled"]["port_security"] is False
    # An empty list is none; unset would be all.
    assert without["network-feature-enabled"]["api_extensions"] == ""


def test_images_have_the_formats_glance_takes_and_servers_format_comes_first() -> None:
    image = options()["image"]
    assert image == {"container_formats": "bare,ami,ovf", "disk_formats": "qcow2,ami,raw"}


def test_a_glance_that_lists_no_formats_leaves_tempests_own() -> None:
    assert options(**{"image/v2/schemas/image": {"properties": {"disk_format": {}}}})["image"] == {}


@pytest.mark.parametrize(
    ("stores", "http", "weights"),
    [
        ([{"id": "file", "type": "file", "weight": 0}], False, False),
        ([{"id": "file", "type": "file", "weight": 0}, {"id": "web", "type": "http", "weight": 0}], True, False),
        ([{"id": "a", "type": "file", "weight": 0}, {"id": "b", "type": "file", "weight": 9}], False, True),
    ],
)
def test_stores_are_what_they_say(stores: list[dict[str, Any]], http: bool, weights: bool) -> None:
    features = options(**{"image/v2/info/stores/detail": {"stores": stores}})["image-feature-enabled"]
    assert features == {"http_store_enabled": http, "store_weight_enabled": weights}


def test_a_glance_of_one_store_tells_of_none() -> None:
    assert options(**{"image/v2/info/stores/detail": None})["image-feature-enabled"] == {}


def test_usable_compute_nodes_are_counted_and_the_newest_microversion_is_tested() -> None:
    compute = options()["compute"]
    assert (compute["min_compute_nodes"], compute["max_microversion"]) == (2, "2.100")
    assert options(**{"compute/os-services": {"services": []}})["compute"]["min_compute_nodes"] == 1


def test_services_outside_the_catalog_are_not_tested() -> None:
    available = options()["service_available"]
    assert available == {
        "nova": True,
        "glance": True,
        "neutron": True,
        "cinder": False,
        "swift": False,
        "horizon": False,
        "barbican": False,
        "designate": False,
        "heat": False,
        "load_balancer": False,
    }
    alone = {path: None for path in SERVED if not path.startswith("network/")}
    assert options(**alone).keys() == {"service_available", "network", "network-feature-enabled"}


def test_heat_plug_in_gets_its_own_login() -> None:
    account = {"name": "tempest", "password": "p4ss", "domain": {"name": "Default"}}
    auth = {
        "identity": {"password": {"user": account}},
        "scope": {"project": {"name": "service", "domain": account["domain"]}},
    }
    settings = {
        **dict.fromkeys((*_WISHES, "administrator")),
        "auth": auth,
        "trust": "/ca.crt",
    }
    cloud = Served({**SERVED, "orchestration/": {}})
    with ExitStack() as end:
        found = discover(cloud, settings, end)
    stacks = found["heat_plugin"]
    assert (stacks["username"], stacks["password"], stacks["project_name"]) == ("tempest", "p4ss", "service")
    assert stacks["user_domain_name"] == stacks["project_domain_name"] == "Default"
    assert (stacks["minimal_image_ref"], stacks["ca_file"]) == ("i1", "/ca.crt")
    assert "heat_plugin" not in options()
    assert "p4ss" not in json.dumps(without_passwords({**found, "auth": {"admin_password": "p4ss"}}))


PROVIDERS = "load-balancer/v2/lbaas/providers"
OVN = {"name": "ovn", "description": "Open Virtual Network"}
AMPHORA = {"name": "amphora", "description": "Octavia amphora"}


def with_providers(*providers: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    return options(**{PROVIDERS: {"providers": [*providers]}})


def test_load_balancers_are_tested_with_ovn_and_without_its_missing_features() -> None:
    found = with_providers(AMPHORA, OVN)
    assert found["service_available"]["load_balancer"] is True
    assert found["load_balancer"] == {
        "provider": "ovn",
        "enabled_provider_drivers": "amphora:Octavia amphora,ovn:Open Virtual Network",
    }
    features = found["loadbalancer-feature-enabled"]
    # OVN has health monitors, so the plug-in's own default holds.
    assert "health_monitor_enabled" not in features
    assert set(features.values()) == {False}
    assert features.keys() >= {"not_implemented_is_error", "terminated_tls_enabled", "l7_protocol_enabled"}


def test_load_balancers_of_octavias_own_provider_are_tested_with_all_features() -> None:
    found = with_providers({"name": "octavia", "description": ""}, AMPHORA)
    assert found["load_balancer"]["provider"] == "amphora"
    assert "loadbalancer-feature-enabled" not in found


def test_another_provider_need_not_do_everything() -> None:
    found = with_providers({"name": "f5", "description": "BIG-IP"})
    assert found["load_balancer"]["provider"] == "f5"
    assert found["loadbalancer-feature-enabled"] == {"not_implemented_is_error": False}


def test_the_provider_of_the_spec_is_tested_with_the_features_it_has() -> None:
    cloud = Served({**SERVED, PROVIDERS: {"providers": [AMPHORA, OVN]}})
    wishes = {**dict.fromkeys(_WISHES), "administrator": "", "loadBalancerProvider": "amphora"}
    with ExitStack() as end:
        found = discover(cloud, wishes, end)
    assert found["load_balancer"]["provider"] == "amphora"
    assert "loadbalancer-feature-enabled" not in found


@pytest.mark.parametrize("answer", [{"providers": []}, None])
def test_an_octavia_that_lists_no_providers_leaves_the_plug_ins_options(answer: Any) -> None:
    found = options(**{PROVIDERS: answer, "load-balancer/": {}})
    assert found["service_available"]["load_balancer"] is True
    assert not {"load_balancer", "loadbalancer-feature-enabled"} & found.keys()


def test_load_balancers_that_are_not_to_be_tested_are_not_looked_up() -> None:
    wanted: dict[str, Any] = dict.fromkeys(_WISHES)
    cloud = Served({**SERVED, PROVIDERS: {"providers": [OVN]}})
    with ExitStack() as end:
        found = discover(cloud, {**wanted, "services": ["compute"], "administrator": ""}, end)
    assert "load_balancer" not in found


def test_an_api_that_breaks_is_not_one_that_lacks_something() -> None:
    class Broken(Served):
        def ask(self, method: str, url: str, body: Any = None, **query: str) -> Any:
            if url.endswith("/detail"):
                raise CloudError(f"{method} {url}: 500")
            return super().ask(method, url, body, **query)

    wanted: dict[str, Any] = dict.fromkeys(_WISHES)
    with ExitStack() as end, pytest.raises(CloudError, match="500"):
        discover(Broken(SERVED), {**wanted, "administrator": ""}, end)
