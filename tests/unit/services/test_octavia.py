"""Octavia: what must hold besides its goldens, above all how its API and its driver agents reach OVN."""

from __future__ import annotations

from configparser import ConfigParser
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Object, Plan, Release, SpecError
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.controlplane.service import plan as cloud
from openstack_operator.services.octavia.model import OCTAVIA
from openstack_operator.services.octavia.service import plan
from openstack_operator.testing import context
from tests.planning import objects

OVN = {"northbound": "tcp:ovn-nb-0:6641", "southbound": "tcp:ovn-sb-0:6642"}
ENCRYPTED = {"northbound": "ssl:ovn-nb-0:16641", "southbound": "ssl:ovn-sb-0:16642", "clientSecret": "ovn-client-tls"}
PASSWORD = "correct-horse"
Objects = dict[tuple[str, str], Object]


def planned(release: Release, ovn: dict[str, str] = OVN, **spec: Any) -> Plan:
    published = {
        "MariaDB": {"host": "mariadb", "port": "3306"},
        "Memcached": {"servers": "memcached:11211"},
        "Keystone": {"internalURL": "http://keystone-api:5000/v3"},
        "OVNNetwork": ovn,
    }
    return plan(context(OCTAVIA, spec, release=release, published=published, draw=lambda: PASSWORD))


def options(made: Plan) -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.read_string(kube.secret_data(objects(made)["Secret", "octavia-config"])["octavia.conf"])
    return parser


def template(made: Plan) -> dict[str, Any]:
    return objects(made)["Deployment", "octavia-api"]["spec"]["template"]["spec"]


def containers(made: Plan) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in template(made)["containers"]}


def test_api_and_driver_agent_share_the_folder_of_their_sockets(release: Release) -> None:
    made = planned(release)
    both = containers(made)
    assert set(both) == {"main", "driver-agent"}
    shared = [
        {
            (mount["name"], mount.get("subPath"))
            for mount in each["volumeMounts"]
            if mount["mountPath"] == "/run/octavia"
        }
        for each in both.values()
    ]
    assert shared == [{("scratch", "run-octavia")}] * 2
    for name in ("status", "stats", "get"):
        # The provider knows no other place than this one.
        assert options(made)["driver_agent"][f"{name}_socket_path"] == f"/var/run/octavia/{name}.sock"


def test_each_pod_of_the_api_has_an_agent(release: Release) -> None:
    """OVN's lock decides which one works, so there may be as many as the API needs."""
    made = planned(release, replicas=3)
    assert objects(made)["Deployment", "octavia-api"]["spec"]["replicas"] == 3
    assert [name for kind, name in objects(made) if kind in {"Deployment", "StatefulSet"}] == ["octavia-api"]
    assert ("PodDisruptionBudget", "octavia-api") in objects(made)


def test_octavia_needs_no_broker(release: Release) -> None:
    made = planned(release)
    assert "RabbitMQVhost" not in {kind for kind, _ in objects(made)}
    assert options(made)["DEFAULT"]["transport_url"] == "fake:/"
    assert options(made)["oslo_messaging_notifications"]["driver"] == "noop"


@pytest.mark.security
def test_databases_with_tls_are_shown_a_certificate(release: Release) -> None:
    section = options(planned(release))["ovn"]
    assert section["ovn_nb_connection"] == OVN["northbound"]
    assert not [name for name in section if name.endswith(("private_key", "certificate", "ca_cert"))]
    made = planned(release, ENCRYPTED)
    section = options(made)["ovn"]
    for database in ("nb", "sb"):
        assert section[f"ovn_{database}_private_key"] == "/etc/ovn-tls/tls.key"
        assert section[f"ovn_{database}_certificate"] == "/etc/ovn-tls/tls.crt"
        assert section[f"ovn_{database}_ca_cert"] == "/etc/ovn-tls/ca.crt"
    for each in containers(made).values():
        assert "/etc/ovn-tls" in {mount["mountPath"] for mount in each["volumeMounts"]}
    (volume,) = [each for each in template(made)["volumes"] if each["name"] == "ovn-tls"]
    assert volume["secret"]["secretName"] == "ovn-client-tls"


def test_a_client_leaves_a_lost_member_soon(release: Release) -> None:
    several = {**OVN, "southbound": "tcp:ovn-sb-0:6642,tcp:ovn-sb-1:6642"}
    assert "ovsdb_probe_interval" not in options(planned(release))["ovn"]
    assert options(planned(release, several))["ovn"]["ovsdb_probe_interval"] == "10000"


def test_a_database_that_was_made_anew_restarts_the_pods(release: Release) -> None:
    """Their copy of the former one is newer: they would wait for it without end."""
    env = {each["name"]: each.get("value") for each in containers(planned(release))["main"]["env"]}
    assert "OVN_REBUILT" not in env
    made = planned(release, {**OVN, "northboundRebuilt": "one"})
    env = {each["name"]: each.get("value") for each in containers(made)["main"]["env"]}
    assert env["OVN_REBUILT"] == "one"


def test_load_balancers_are_written_into_a_database_that_was_rebuilt(release: Release) -> None:
    """Once for each, when the API answers, which lists them."""

    def jobs(**rebuilt: str) -> dict[str, Object]:
        made = objects(planned(release, {**OVN, **rebuilt}))
        return {name: obj for (kind, name), obj in made.items() if kind == "Job" and "restore" in name}

    assert jobs() == {}
    assert jobs(southboundRebuilt="one") == {}
    ((name, job),) = jobs(northboundRebuilt="one").items()
    (main,) = job["spec"]["template"]["spec"]["containers"]
    assert main["command"][-3:] == ["octavia-driver-agent", "--config-file", "/etc/octavia/octavia.conf"]
    assert "/run/octavia" in {mount["mountPath"] for mount in main["volumeMounts"]}
    assert jobs(northboundRebuilt="two").keys() != {name}
    made = planned(release, {**OVN, "northboundRebuilt": "one"})
    steps = [each for each, condition in made.condition.items() if condition == "OVNConnected"]
    (step,) = [each for each in steps if any(obj["kind"] == "Job" for obj in each.objects)]
    assert "API" in {made.condition[each] for each in step.after}


def test_every_process_stays(release: Release) -> None:
    """One that ends with requests in its queue would leave load balancers PENDING."""
    command = containers(planned(release))["main"]["command"]
    assert "--cheaper" not in command


@pytest.mark.security
def test_members_of_a_project_need_no_role_of_octavia(release: Release) -> None:
    policy = options(planned(release))["oslo_policy"]
    assert policy["enforce_new_defaults"] == "true"
    other = planned(release, config={"oslo_policy": {"enforce_new_defaults": False}})
    assert options(other)["oslo_policy"]["enforce_new_defaults"] == "false"


def test_ovn_is_the_only_provider(release: Release) -> None:
    assert options(planned(release))["api_settings"]["default_provider_driver"] == "ovn"
    with pytest.raises(SpecError, match="enabled_provider_drivers"):
        planned(release, config={"api_settings": {"enabled_provider_drivers": "amphora:Amphora"}})


def test_quotas_are_octavia_s_options(release: Release) -> None:
    assert "quotas" not in options(planned(release))
    quotas = {"loadBalancers": 5, "listeners": 6, "pools": 7, "members": -1, "healthMonitors": 0}
    section = options(planned(release, quotas=quotas))["quotas"]
    assert {name: section[name] for name in section if name.startswith("default_")} == {
        "default_load_balancer_quota": "5",
        "default_listener_quota": "6",
        "default_pool_quota": "7",
        "default_member_quota": "-1",
        "default_health_monitor_quota": "0",
    }


def test_load_balancers_stay_in_the_database_as_long_as_the_spec_says(release: Release) -> None:
    made = planned(release, purge={"keep": "7d"})
    assert options(made)["house_keeping"]["load_balancer_expiry_age"] == str(7 * 24 * 3600)
    assert ("CronJob", "octavia-purge") in objects(made)
    assert ("CronJob", "octavia-purge") not in objects(planned(release, purge={"enabled": False}))


@pytest.mark.security
def test_no_password_is_in_a_command_an_environment_or_a_configmap(release: Release) -> None:
    checks = 0
    for (kind, name), obj in objects(planned(release, ENCRYPTED)).items():
        if kind != "Secret":
            checks += 1
            assert PASSWORD not in str(obj), name
    assert checks


@pytest.mark.security
def test_network_policies_open_ovn_for_its_pods(release: Release) -> None:
    made = objects(planned(release, networkPolicies={"enabled": True}))
    names = {name for kind, name in made if kind == "NetworkPolicy"}
    assert {"octavia-api", "octavia-egress"} <= names
    peers = [{"podSelector": {"matchLabels": kube.pods_of("octavia", "octavia")}}]
    for database, port in (("nb", 6641), ("sb", 6642)):
        (rule,) = made["NetworkPolicy", f"octavia-uses-ovnnetwork-ovn-{database}"]["spec"]["ingress"]
        assert rule["from"] == peers
        assert {"port": port, "protocol": "TCP"} in rule["ports"]


def test_a_cloud_runs_it_on_request(release: Release) -> None:
    published = {"PKI": {"bundleSecret": "internal-bundle"}}
    off = cloud(context(CONTROL_PLANE, {}, release=release, published=published))
    assert ("Octavia", "octavia") not in objects(off)
    spec = {"octavia": {"enabled": True, "quotas": {"loadBalancers": 9}}}
    made = objects(cloud(context(CONTROL_PLANE, spec, release=release, published=published)))
    assert made["Octavia", "octavia"]["spec"]["quotas"] == {"loadBalancers": 9}
    assert made["Octavia", "octavia"]["spec"]["tls"]["pkiRef"] == {"name": "internal"}
