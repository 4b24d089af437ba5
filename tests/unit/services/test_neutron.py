"""Neutron's special rules; what its plan looks like as a whole stands in its golden."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from openstack_operator import kube
from openstack_operator.api import references
from openstack_operator.plan import MissingReference, Object, Plan, SpecError, Transient, UnsupportedError
from openstack_operator.services.neutron.model import NEUTRON
from openstack_operator.services.neutron.service import plan
from openstack_operator.testing import context, granted
from tests.planning import release_of

PUBLISHED = {
    "MariaDB": {"host": "mariadb.openstack.svc", "port": "3306"},
    "RabbitMQ": {"host": "rabbitmq.openstack.svc", "port": "5672"},
    "Memcached": {"servers": "memcached-0:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3", "region": "RegionOne"},
    "OVNNetwork": {"northbound": "tcp:ovn-nb-0:6641,tcp:ovn-nb-1:6641", "southbound": "tcp:ovn-sb-0:6642"},
}


def planned(spec: Mapping[str, Any] | None = None, profile: str = "debian") -> Plan:
    return plan(context(NEUTRON, spec, release=release_of(profile), published=PUBLISHED))


def made(result: Plan) -> dict[tuple[str, str], Object]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in result.objects}


def options(result: Plan, secret: str, path: Path) -> cfg.ConfigOpts:
    """The rendered file as oslo.config reads it."""
    path.write_text(kube.secret_data(made(result)["Secret", secret])["neutron.conf"])
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.StrOpt("ovn_nb_connection"), cfg.StrOpt("ovn_sb_connection")], group="ovn")
    conf.register_opts([cfg.ListOpt("type_drivers"), cfg.StrOpt("mechanism_drivers")], group="ml2")
    conf.register_opts([cfg.StrOpt("connection")], group="database")
    conf.register_opts([cfg.StrOpt("username"), cfg.StrOpt("endpoint_type")], group="nova")
    conf.register_opts([cfg.StrOpt("nova_metadata_host"), cfg.StrOpt("metadata_proxy_shared_secret")])
    conf(["--config-file", str(path)], default_config_files=[])
    return conf


def test_the_configuration_is_what_oslo_config_reads(tmp_path: Path) -> None:
    conf = options(planned(), "neutron-config", tmp_path / "neutron.conf")
    assert conf.ml2.type_drivers == ["local", "flat", "vlan", "geneve"]
    assert conf.ovn.ovn_nb_connection == PUBLISHED["OVNNetwork"]["northbound"]
    assert conf.database.connection.startswith("mysql+pymysql://neutron:")
    assert (conf.nova.username, conf.nova.endpoint_type) == ("neutron", "internal")


def test_names_go_to_a_designate_once_it_has_a_url() -> None:
    spec = {"externalDns": {"designateRef": {"name": "designate"}, "reverseZones": False}}

    def conf(published: Mapping[str, str] | None, spec: Mapping[str, Any] | None = spec) -> str:
        known = PUBLISHED if published is None else {**PUBLISHED, "Designate": published}
        result = plan(context(NEUTRON, spec, release=release_of("debian"), published=known))
        return kube.secret_data(made(result)["Secret", "neutron-config"])["neutron.conf"]

    ready = {"internalURL": "https://designate-api.openstack.svc:9001"}
    assert "external_dns_driver" not in conf(ready, {})
    assert "external_dns_driver" not in conf({})
    assert "external_dns_driver" not in conf(ready, {"externalDns": {**spec["externalDns"], "enabled": False}})
    (section,) = re.findall(r"^\[designate\]\n(.*?)(?:^\[|\Z)", conf(ready), re.M | re.S)
    written = dict(line.split(" = ", 1) for line in section.splitlines() if " = " in line)
    assert written["url"] == "https://designate-api.openstack.svc:9001/v2"
    assert (written["username"], written["allow_reverse_dns_lookup"]) == ("neutron", "false")
    assert "external_dns_driver = designate" in conf(ready)


@pytest.mark.parametrize(
    ("spec", "plugins", "drivers"),
    [
        ({}, "ovn-router,qos,trunk,segments,log,port_forwarding", "port_security,dns,qos"),
        # As a Neutron of an earlier version has it stored.
        (
            {"ml2": {"extensionDrivers": ["port_security", "qos"]}},
            "ovn-router,qos,trunk,segments,log,port_forwarding",
            "port_security,qos",
        ),
        # Neutron does not start with both.
        (
            {"ovn": {"distributedFloatingIPs": True}, "ml2": {"tenantNetworkTypes": ["geneve", "vlan"]}},
            "ovn-router,qos,trunk,segments,log",
            "port_security,dns,qos",
        ),
        (
            {"ovn": {"distributedFloatingIPs": True}},
            "ovn-router,qos,trunk,segments,log,port_forwarding",
            "port_security,dns,qos",
        ),
        ({"config": {"DEFAULT": {"service_plugins": "ovn-router"}}}, "ovn-router", "port_security,dns"),
        (
            {"config": {"DEFAULT": {"service_plugins": "ovn-router, qos"}}},
            "ovn-router,qos",
            "port_security,dns,qos",
        ),
    ],
)
def test_networks_have_what_a_cloud_usually_has(
    spec: Mapping[str, Any], plugins: str, drivers: str, tmp_path: Path
) -> None:
    conf = options(planned(spec), "neutron-config", tmp_path / "neutron.conf")
    conf.register_opt(cfg.StrOpt("service_plugins"))
    conf.register_opt(cfg.StrOpt("extension_drivers"), group="ml2")
    assert conf.service_plugins.replace(" ", "") == plugins
    assert conf.ml2.extension_drivers == drivers


def test_no_agent_is_looked_for_to_answer_dhcp(tmp_path: Path) -> None:
    """OVN does; where agents may, each network and subnet is two warnings that none was found."""

    def traditional(spec: Mapping[str, Any] | None = None) -> bool:
        conf = options(planned(spec), "neutron-config", tmp_path / "neutron.conf")
        conf.register_opt(cfg.BoolOpt("enable_traditional_dhcp", default=True))
        return conf.enable_traditional_dhcp

    assert not traditional()
    assert traditional({"config": {"DEFAULT": {"enable_traditional_dhcp": True}}})


def test_a_lost_member_is_left_soon_where_there_are_others() -> None:
    several = {**PUBLISHED["OVNNetwork"], "southbound": "tcp:ovn-sb-0:6642,tcp:ovn-sb-1:6642"}
    release, published = release_of("debian"), {**PUBLISHED, "OVNNetwork": several}
    clustered = plan(context(NEUTRON, release=release, published=published))
    users = {"config": {"ovn": {"ovsdb_probe_interval": 30000}}}
    told = plan(context(NEUTRON, users, release=release, published=published))
    for secret in ("neutron-config", "neutron-metadata-agent-config"):
        files = [kube.secret_data(made(p)["Secret", secret])["neutron.conf"] for p in (clustered, planned(), told)]
        found = [re.search(r"^ovsdb_probe_interval = (.*)$", text, re.MULTILINE) for text in files]
        assert [match and match[1] for match in found] == ["10000", None, "30000"]


def test_the_agent_knows_no_database_and_no_service_password(tmp_path: Path) -> None:
    conf = options(planned(), "neutron-metadata-agent-config", tmp_path / "neutron.conf")
    assert conf.database.connection is None
    assert conf.nova.username is None
    assert conf.ovn.ovn_sb_connection == "tcp:ovn-sb-0:6642"
    assert conf.nova_metadata_host == "nova-metadata.openstack.svc.cluster.local"


def test_the_metadata_agent_uses_the_nodes_relay_and_the_api_not() -> None:
    network = {**PUBLISHED["OVNNetwork"], "southboundForNodes": "tcp:ovn-relay:6642"}
    relayed = plan(context(NEUTRON, release=release_of("debian"), published={**PUBLISHED, "OVNNetwork": network}))
    held = {
        name: kube.secret_data(made(relayed)["Secret", name])
        for name in ("neutron-config", "neutron-metadata-agent-config")
    }
    assert "ovn_sb_connection = tcp:ovn-relay:6642\n" in held["neutron-metadata-agent-config"]["neutron.conf"]
    assert "ovn_sb_connection = tcp:ovn-sb-0:6642\n" in held["neutron-config"]["neutron.conf"]


def test_processes_that_share_events_out_all_run_from_the_start() -> None:
    command = made(planned({"api": {"processes": 3}}))["Deployment", "neutron-api"]["spec"]["template"]["spec"]
    words = command["containers"][0]["command"]
    assert words[words.index("--processes") + 1] == "3"
    assert "--cheaper" not in words


def test_a_program_that_serves_by_itself_takes_no_number_of_processes() -> None:
    with pytest.raises(UnsupportedError, match=r"spec\.api\.processes: .*spec\.config"):
        planned({"api": {"processes": 3}, "imageProfile": "kolla"}, profile="kolla")


def test_the_shared_secret_is_the_published_one(tmp_path: Path) -> None:
    result = planned()
    secret = made(result)["Secret", result.outcome.published["metadataSecret"]]
    conf = options(result, "neutron-metadata-agent-config", tmp_path / "neutron.conf")
    assert conf.metadata_proxy_shared_secret == kube.secret_data(secret)["metadata"]


def test_a_wired_option_is_refused() -> None:
    with pytest.raises(SpecError, match=r"spec\.config\.ml2\.mechanism_drivers"):
        planned({"config": {"ml2": {"mechanism_drivers": "openvswitch"}}})


def test_an_unsupported_mechanism_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"spec\.mechanism: ovs is not supported"):
        planned({"mechanism": "ovs"})


def test_a_change_of_options_rolls_pods_and_repeats_no_job() -> None:
    before, after = made(planned()), made(planned({"config": {"DEFAULT": {"debug": True}}}))
    jobs = {key for key in before if key[0] == "Job"}
    assert jobs == {key for key in after if key[0] == "Job"}
    for key in (("Deployment", "neutron-api"), ("DaemonSet", "neutron-metadata-agent")):
        assert before[key]["spec"]["template"] != after[key]["spec"]["template"]


def test_a_profile_whose_api_does_the_maintenance_has_no_worker() -> None:
    name = ("Deployment", "neutron-ovn-maintenance-worker")
    assert name in made(planned())
    assert name not in made(planned(profile="kolla"))


def test_the_agent_ignores_where_the_control_plane_runs() -> None:
    spec = made(planned({"nodeSelector": {"role": "control"}}))["DaemonSet", "neutron-metadata-agent"]["spec"]
    assert spec["template"]["spec"]["nodeSelector"] == kube.COMPUTE


def test_a_cloud_without_compute_nodes_has_no_agent() -> None:
    assert ("DaemonSet", "neutron-metadata-agent") not in made(planned({"metadataAgent": {"enabled": False}}))


def rebuilt(children: dict[tuple[str, str], Object] | None = None, image: str = "") -> Plan:
    published = {**PUBLISHED, "OVNNetwork": {**PUBLISHED["OVNNetwork"], "northboundRebuilt": "two"}}
    spec = {"image": image} if image else {}
    release = release_of("debian")
    return plan(context(NEUTRON, spec, release=release, published=published, children=children or {}))


def repairs(result: Plan) -> list[Object]:
    return [obj for (kind, name), obj in made(result).items() if kind == "Job" and "-ovn-db-sync-" in name]


def test_a_recreated_ovn_database_is_filled_before_the_api_goes_on() -> None:
    assert not repairs(planned())
    (job,) = repairs(rebuilt())
    assert job["spec"]["template"]["spec"]["containers"][0]["command"][-1] == "repair"
    api = next(step for step in rebuilt() if step.name == "API")
    assert job in [obj for step in api.after if step.barrier for obj in step.objects]
    for key in (("Deployment", "neutron-api"), ("DaemonSet", "neutron-metadata-agent")):
        assert made(planned())[key]["spec"]["template"] != made(rebuilt())[key]["spec"]["template"], (
            "clients start anew"
        )


def test_a_database_is_filled_once_whatever_image_comes_later() -> None:
    (job,) = repairs(rebuilt())
    running = {("Job", job["metadata"]["name"]): granted(job) | {"status": {}}}
    (other,) = repairs(rebuilt(running, image="example.org/neutron:new"))
    assert other["metadata"]["name"] != job["metadata"]["name"], "it may be the image why it does not succeed"
    (same,) = repairs(rebuilt({("Job", job["metadata"]["name"]): granted(job)}, image="example.org/neutron:new"))
    assert same == job


CONNECTIONS = {
    "nbConnection": "tcp:ovn-nb.ovn-system:6641,tcp:other:16641",
    "sbConnection": "tcp:ovn-sb.ovn-system:6642",
}


def wired(ovn: Mapping[str, Any], **changes: Any) -> Plan:
    published = {kind: found for kind, found in PUBLISHED.items() if kind != "OVNNetwork"}
    return plan(context(NEUTRON, {"ovn": ovn}, release=release_of("debian"), published=published, **changes))


def connected(result: Plan) -> bool:
    return all(step.verdict.ready for step in result if step.name == "OVNConnected" and step.verdict)


def test_connections_take_the_place_of_an_ovnnetwork(tmp_path: Path) -> None:
    far = {**CONNECTIONS, "clusterRef": {"name": "a", "namespace": "infrastructure"}}
    for ovn in (CONNECTIONS, far):
        assert not [ref for _, ref in references(NEUTRON.spec.model_validate({"ovn": ovn})) if ref.kind == "OVNNetwork"]
        conf = options(wired(ovn), "neutron-config", tmp_path / "neutron.conf")
        assert conf.ovn.ovn_nb_connection == CONNECTIONS["nbConnection"]
        agent = options(wired(ovn), "neutron-metadata-agent-config", tmp_path / "neutron.conf")
        assert agent.ovn.ovn_sb_connection == CONNECTIONS["sbConnection"]


def test_ovn_is_connected_when_the_worker_has_its_connection() -> None:
    key = ("Deployment", "neutron-ovn-maintenance-worker")
    worker = made(wired(CONNECTIONS))[key]
    assert not connected(wired(CONNECTIONS))
    assert connected(wired(CONNECTIONS, children={key: granted(worker)}))
    command = worker["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["exec"]["command"]
    lines = [f" 0: 0100007F:D2F0 0100007F:{port:04X} 01 00000000" for port in (6641, 16641, 6642)]
    matched = [subprocess.run(command[:3], input=line, text=True, check=False).returncode for line in lines]
    assert matched == [0, 0, 1]


def test_a_clusterref_of_this_namespace_is_an_ovnnetwork() -> None:
    spec = NEUTRON.spec.model_validate({"ovn": {"clusterRef": {"name": "mine"}}})
    assert [(path, ref.name) for path, ref in references(spec) if ref.kind == "OVNNetwork"] == [
        ("spec.ovn.clusterRef", "mine")
    ]


ELSEWHERE = {"clusterRef": {"name": "ovn", "namespace": "ovn-system"}}
CERTIFICATE = {"tls.crt": "certificate", "tls.key": "key", "ca.crt": "authority"}


def encrypted(secrets: Mapping[str, Mapping[str, str]]) -> Plan:
    """A Neutron whose OVN is in another namespace and uses TLS."""
    ovn = {"northbound": "ssl:nb:16641", "southbound": "ssl:sb:16642", "clientSecret": "ovn-client-tls"}
    published = {**PUBLISHED, "OVNNetwork": ovn}
    release = release_of("debian")
    return plan(context(NEUTRON, {"ovn": ELSEWHERE}, release=release, published=published, secrets=secrets))


def test_the_certificate_of_an_ovn_in_another_namespace_is_copied() -> None:
    """Pods mount no Secret of another namespace."""
    result = made(encrypted({"ovn-system/ovn-client-tls": {**CERTIFICATE, "other": "x"}, "ovn-client-tls": {}}))
    assert kube.secret_data(result["Secret", "neutron-ovn-client"]) == CERTIFICATE
    for workload in ("neutron-api", "neutron-ovn-maintenance-worker"):
        volumes = result["Deployment", workload]["spec"]["template"]["spec"]["volumes"]
        assert "neutron-ovn-client" in [volume.get("secret", {}).get("secretName") for volume in volumes]
    assert "ssl:nb:16641" in kube.secret_data(result["Secret", "neutron-config"])["neutron.conf"]


def test_a_copy_waits_for_the_whole_certificate() -> None:
    with pytest.raises(Transient, match=r"waiting for tls\.key, ca\.crt in Secret ovn-system/ovn-client-tls"):
        encrypted({"ovn-system/ovn-client-tls": {"tls.crt": "certificate"}})


@pytest.mark.parametrize(
    ("host", "is_completed"),
    [
        ("ovn", True),
        ("ovn.ovn-system", True),
        ("ovn.ovn-system.svc", True),
        ("ovn.example.org", False),
        ("[::1]", False),
    ],
)
def test_names_of_services_are_completed_before_ovn_looks_them_up(host: str, *, is_completed: bool) -> None:
    result = made(wired({"nbConnection": f"tcp:{host}:6641", "sbConnection": "tcp:192.0.2.1:6642"}))
    pods = [result["Deployment", "neutron-api"], result["Deployment", "neutron-ovn-maintenance-worker"]]
    pods.append(result["DaemonSet", "neutron-metadata-agent"])
    assert pods
    for workload in pods:
        main = workload["spec"]["template"]["spec"]["containers"][0]
        assert ("full_names.sh" in main.get("command", [])) == is_completed
        assert ("OS_OVN__OVN_NB_CONNECTION" in {each["name"] for each in main["env"]}) == is_completed


def test_encrypted_connections_show_the_certificate_of_the_secret() -> None:
    ovn = {"nbConnection": "ssl:nb:6641", "sbConnection": "ssl:sb:6642", "tlsSecretRef": {"name": "ovn-client"}}
    with pytest.raises(MissingReference, match=r"spec\.ovn\.tlsSecretRef: Secret 'ovn-client' has no key 'ca.crt'"):
        wired(ovn, secrets={"ovn-client": {"tls.crt": "", "tls.key": ""}})
    result = made(wired(ovn, secrets={"ovn-client": {"tls.crt": "", "tls.key": "", "ca.crt": ""}}))
    text = kube.secret_data(result["Secret", "neutron-config"])["neutron.conf"]
    assert "ovn_nb_private_key = /etc/ovn-tls/tls.key\n" in text
    volumes = result["Deployment", "neutron-api"]["spec"]["template"]["spec"]["volumes"]
    assert "ovn-client" in [volume.get("secret", {}).get("secretName") for volume in volumes]


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ({"ovn": {"enabled": False}}, UnsupportedError, r"spec\.ovn\.enabled: only OVN"),
        ({"ml2": {"mechanismDrivers": ["ovn", "sriovnicswitch"]}}, UnsupportedError, "choose from ovn, logger"),
        ({"ml2": {"mechanismDrivers": ["logger"]}}, SpecError, r"spec\.ml2\.mechanismDrivers: .* add it"),
    ],
)
def test_settings_without_a_program_are_refused(spec: Mapping[str, Any], error: type[SpecError], message: str) -> None:
    with pytest.raises(error, match=message):
        planned(spec)


def test_mechanism_drivers_are_loaded_in_their_order(tmp_path: Path) -> None:
    conf = options(
        planned({"ml2": {"mechanismDrivers": ["logger", "ovn"]}}), "neutron-config", tmp_path / "neutron.conf"
    )
    assert conf.ml2.mechanism_drivers == "logger,ovn"


@pytest.mark.parametrize(("api", "workers"), [({}, 2), ({"processes": 5}, 5)])
def test_worker_count_for_ovn_events_is_in_the_configuration(api: dict[str, Any], workers: int) -> None:
    conf = kube.secret_data(made(planned({"api": api}))["Secret", "neutron-config"])["neutron.conf"]
    assert f"\napi_workers = {workers}\n" in conf
