"""Octavia's provider amphora: what must hold besides its golden, above all who has which key and which rights."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from configparser import ConfigParser
from datetime import timedelta
from typing import Any

import pytest

from openstack_operator import kube, pki
from openstack_operator.plan import Node, Object, Plan, Release, SpecError, UnsupportedError
from openstack_operator.services.octavia.model import OCTAVIA
from openstack_operator.services.octavia.service import plan
from openstack_operator.testing import NOW, context
from tests.planning import objects

NODES = {
    name: Node(uid=name, labels=labels)
    for name, labels in {
        "both": {"openstack-control-plane": "enabled", "openvswitch": "enabled"},
        "control": {"openstack-control-plane": "enabled"},
        "compute": {"openvswitch": "enabled"},
    }.items()
}
PUBLISHED = {
    "MariaDB": {"host": "mariadb", "port": "3306"},
    "RabbitMQ": {"host": "rabbitmq", "port": "5672"},
    "Memcached": {"servers": "memcached:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3"},
    "OVNNetwork": {"northbound": "ssl:nb:6641", "southbound": "ssl:sb:6642", "clientSecret": "ovn-client-tls"},
}
PASSWORD = "correct-horse"
Objects = Mapping[tuple[str, str], Object]


def planned(release: Release, changes: Mapping[str, Any] | None = None, **amphora: Any) -> Plan:
    spec = {"amphora": {"managementCIDR": "10.254.0.0/20", **amphora}}
    fields: dict[str, Any] = {"draw": lambda: PASSWORD, "nodes": NODES, **(changes or {})}
    return plan(context(OCTAVIA, {**spec, **fields.pop("spec", {})}, release=release, published=PUBLISHED, **fields))


def options(made: Plan, secret: str = "octavia-config") -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.read_string(kube.secret_data(objects(made)["Secret", secret])["octavia.conf"])
    return parser


def pod(made: Plan) -> dict[str, Any]:
    return objects(made)["DaemonSet", "octavia-controllers"]["spec"]["template"]["spec"]


def containers(made: Plan) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in (*pod(made)["initContainers"], *pod(made)["containers"])}


def job(made: Plan) -> dict[str, str]:
    """The environment of the Job that makes the network."""
    (found,) = [obj for (kind, name), obj in objects(made).items() if kind == "Job" and "-management-" in name]
    (main,) = found["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["value"] for each in main["env"]}


def test_ovn_stays_the_default(release: Release) -> None:
    section = options(planned(release))["api_settings"]
    assert section["default_provider_driver"] == "ovn"
    assert [each.partition(":")[0] for each in section["enabled_provider_drivers"].split(",")] == ["ovn", "amphora"]


def test_the_api_and_the_workers_share_a_broker(release: Release) -> None:
    made = planned(release)
    assert ("RabbitMQVhost", "octavia-messaging") in objects(made)
    urls = {
        options(made, name)["DEFAULT"]["transport_url"] for name in ("octavia-config", "octavia-controllers-config")
    }
    assert urls == {f"rabbit://octavia:{PASSWORD}@rabbitmq:5672/octavia"}


def test_each_node_that_is_selected_has_a_port(release: Release) -> None:
    assert job(planned(release))["NODES"] == "both"
    other = planned(release, controllers={"nodeSelector": {"openvswitch": "enabled"}})
    assert job(other)["NODES"] == "both,compute"


def test_controllers_tell_amphorae_of_those_nodes_alone(release: Release) -> None:
    """Ports of nodes that left are there, too."""
    made = planned(release, controllers={"nodeSelector": {"openvswitch": "enabled"}})
    (source,) = [each["valueFrom"] for each in containers(made)["port"]["env"] if each["name"] == "NODES"]
    name = source["fieldRef"]["fieldPath"].removeprefix("metadata.annotations['").removesuffix("']")
    template = objects(made)["DaemonSet", "octavia-controllers"]["spec"]["template"]
    assert template["metadata"]["annotations"][name] == "both,compute"


def test_another_node_restarts_the_controllers(release: Release) -> None:
    """An amphora is told the addresses of all health managers, which a worker reads when it starts."""

    def digest(nodes: Mapping[str, Node]) -> str:
        made = objects(planned(release, {"nodes": nodes}))
        return made["DaemonSet", "octavia-controllers"]["spec"]["template"]["metadata"]["annotations"][
            "openstack.k8s.io/health-managers"
        ]

    more = NODES | {"new": Node(uid="new", labels=NODES["both"].labels)}
    assert digest(NODES) == digest(dict(NODES))
    assert digest(NODES) != digest(more)


def test_sizes_are_nova_s_units(release: Release) -> None:
    settings = json.loads(job(planned(release, flavor={"vcpus": 2, "memory": "1500Mi", "disk": "2500Mi"}))["SETTINGS"])
    assert settings["flavor"] == {"vcpus": 2, "ram": 1500, "disk": 3}
    assert "sshKey" not in settings


@pytest.mark.security
def test_only_the_container_that_joins_the_network_is_root(release: Release) -> None:
    made = planned(release, {"spec": {"image": "example.org/octavia:1"}}, controllers={"image": "example.org/mine:1"})
    privileged = {name for name, each in containers(made).items() if each["securityContext"].get("privileged")}
    assert privileged == {"join"}
    # An image of the user's would be root on the node.
    assert containers(made)["join"]["image"] == release["ovs-vswitchd"].image
    assert containers(made)["worker"]["image"] == "example.org/mine:1"
    assert not pod(made).get("hostNetwork")
    assert not pod(made).get("hostPID")
    paths = {
        name: {mount["mountPath"] for mount in each["volumeMounts"]} & {"/node/proc", "/run/openvswitch"}
        for name, each in containers(made).items()
    }
    assert {name for name, each in paths.items() if each} == {"join"}


@pytest.mark.security
def test_service_settings_choose_no_nodes_for_what_is_root(release: Release) -> None:
    made = planned(release, {"spec": {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"x": "y"}}})
    assert "tolerations" not in pod(made)
    assert pod(made)["nodeSelector"] == {"openstack-control-plane": "enabled", "openvswitch": "enabled"}


@pytest.mark.security
def test_the_api_has_no_key_of_amphorae(release: Release) -> None:
    made = planned(release)
    assert not options(made).has_section("health_manager")
    api = objects(made)["Deployment", "octavia-api"]["spec"]["template"]["spec"]
    secrets = {each["secret"]["secretName"] for each in api["volumes"] if "secret" in each}
    assert not secrets & {"octavia-amphora-tls", "octavia-controllers-config", "octavia-amphora"}
    for name in ("octavia-amphorae-ca", "octavia-controllers-ca"):
        assert name not in str(api)
        assert name not in str(pod(made))


@pytest.mark.security
def test_controllers_have_no_certificate_of_ovn(release: Release) -> None:
    assert "ovn-client-tls" not in str(pod(planned(release)))


@pytest.mark.security
def test_no_password_is_in_a_command_an_environment_or_a_configmap(release: Release) -> None:
    checks = 0
    for (kind, name), obj in objects(planned(release)).items():
        if kind != "Secret":
            checks += 1
            assert PASSWORD not in str(obj), name
    assert checks


@pytest.mark.security
def test_the_authorities_are_two(release: Release) -> None:
    """An amphora is a server of users: its certificate makes nobody a controller."""
    numbers = iter(range(10**6))
    files = kube.secret_data(
        objects(planned(release, {"draw": lambda: str(next(numbers))}))["Secret", "octavia-amphora-tls"]
    )
    assert pki.is_trusted(files["tls.crt"], [files["client-ca.crt"]])
    assert not pki.is_trusted(files["tls.crt"], [files["server-ca.crt"]])
    assert pki.is_trusted(files["ca.crt"], [files["server-ca.crt"]])
    assert files["client.pem"] == files["tls.crt"] + files["tls.key"]
    # The authority of controllers signs nothing but their own certificate, so no pod has its key.
    assert "ca.key" in files
    assert not pki.read_error(pki.Pair(files["ca.key"], files["ca.crt"]))


def later(release: Release, made: Plan, **after: int) -> Plan:
    """The plan after that time, in a cluster with the Secrets of an earlier one."""
    numbers = iter(range(10**6))
    children = {key: obj for key, obj in objects(made).items() if key[0] == "Secret"}
    stored = {
        key: {**obj, "data": {name: _encoded(text) for name, text in kube.secret_data(obj).items()}}
        for key, obj in children.items()
    }
    changes = {"draw": lambda: f"later{next(numbers)}", "now": NOW + timedelta(**after), "children": stored}
    return planned(release, changes)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def certificates(made: Plan) -> dict[str, str]:
    return kube.secret_data(objects(made)["Secret", "octavia-amphora-tls"])


def test_the_certificate_of_controllers_is_renewed(release: Release) -> None:
    first = planned(release)
    assert certificates(later(release, first, days=200))["tls.crt"] == certificates(first)["tls.crt"]
    assert certificates(later(release, first, days=300))["tls.crt"] != certificates(first)["tls.crt"]


def test_the_authority_of_amphorae_is_replaced_in_steps(release: Release) -> None:
    """Its successor is trusted for a day before it signs; the former one is trusted until nothing is by it."""
    first = planned(release)
    second = later(release, first, days=2500)
    assert certificates(second)["ca.crt"] == certificates(first)["ca.crt"]
    assert len(pki.split(certificates(second)["server-ca.crt"])) == 2
    third = later(release, second, days=2502)
    assert certificates(third)["ca.crt"] != certificates(first)["ca.crt"]
    assert pki.split(certificates(first)["ca.crt"]) < pki.split(certificates(third)["server-ca.crt"])


def test_the_authority_of_controllers_signs_last(release: Release) -> None:
    """An amphora learns of no authority after it was made, so there are years in which each is replaced."""
    first = planned(release)
    second = later(release, first, days=2500)
    assert len(pki.split(certificates(second)["client-ca.crt"])) == 2
    third = later(release, second, days=3500)
    assert pki.is_trusted(certificates(third)["tls.crt"], [certificates(first)["client-ca.crt"]])
    last = later(release, third, days=3625)
    assert not pki.is_trusted(certificates(last)["tls.crt"], [certificates(first)["client-ca.crt"]])
    assert pki.is_trusted(certificates(last)["tls.crt"], [certificates(second)["client-ca.crt"]])


def test_the_keys_of_amphorae_are_never_replaced(release: Release) -> None:
    first = planned(release)
    keys = kube.secret_data(objects(first)["Secret", "octavia-amphora"])
    assert kube.secret_data(objects(later(release, first, days=4))["Secret", "octavia-amphora"]) == keys
    passphrase = options(first)["certificates"]["server_certs_key_passphrase"]
    assert len(passphrase) == 32
    assert keys["certificates"] not in passphrase


@pytest.mark.parametrize(("purge", "days"), [({}, 30), ({"keep": "7d"}, 7), ({"enabled": False, "keep": "7d"}, 36500)])
def test_housekeeping_keeps_rows_as_long_as_the_purge(release: Release, purge: dict[str, Any], days: int) -> None:
    section = options(planned(release, {"spec": {"purge": purge}}), "octavia-controllers-config")["house_keeping"]
    assert section["load_balancer_expiry_age"] == section["amphora_expiry_age"] == str(days * 24 * 3600)


def test_the_operator_s_options_are_its_own(release: Release) -> None:
    with pytest.raises(SpecError, match="heartbeat_key"):
        planned(release, controllers={"config": {"health_manager": {"heartbeat_key": "x"}}})
    made = planned(release, controllers={"config": {"health_manager": {"health_update_threads": 8}}})
    assert options(made, "octavia-controllers-config")["health_manager"]["health_update_threads"] == "8"


def test_kolla_s_images_are_not_supported(release: Release) -> None:
    with pytest.raises(UnsupportedError, match="Kolla"):
        planned(release, {"spec": {"imageProfile": "kolla"}})
