"""Designate: what must hold besides its goldens, above all the order of its start and who has which key."""

from __future__ import annotations

import copy
import json
from configparser import ConfigParser
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Object, Plan, Release, SpecError, Step, key
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.controlplane.service import plan as cloud
from openstack_operator.services.designate.model import DESIGNATE
from openstack_operator.services.designate.service import plan
from openstack_operator.testing import context, granted

PUBLISHED = {
    "MariaDB": {"host": "mariadb", "port": "3306"},
    "RabbitMQ": {"host": "rabbitmq", "port": "5672"},
    "Memcached": {"servers": "memcached:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3"},
}
Objects = dict[tuple[str, str], Object]


def planned(release: Release, children: Objects | None = None, **spec: Any) -> Plan:
    known = children or {}
    draws = iter(f"{len(known)}-{number}" for number in range(99))
    return plan(
        context(DESIGNATE, spec, release=release, published=PUBLISHED, children=known, draw=lambda: next(draws))
    )


def objects(made: Plan) -> Objects:
    return {key(obj): obj for obj in made.objects}


def test_a_login_that_migrations_cannot_read_is_refused(release: Release) -> None:
    """Designate's alembic takes the percent sign in its URL for a reference, and the job of the schema fails."""
    spec = {"database": {"secretRef": {"name": "db"}}}
    login = {"username": "designate", "password": "p@ss"}
    with pytest.raises(SpecError, match="for the migrations of Designate"):
        plan(context(DESIGNATE, spec, release=release, published=PUBLISHED, secrets={"db": login}))


def assigned(made: Plan, first: int = 1) -> Objects:
    """The objects of a plan, all of them finished, and each Service with an address."""
    live = {key(obj): granted(copy.deepcopy(obj)) for obj in made.objects}
    services = [obj for (kind, _), obj in live.items() if kind == "Service" and "clusterIP" not in obj["spec"]]
    for number, each in enumerate(services, first):
        each["spec"]["clusterIP"] = f"10.0.0.{number}"
    return live


def complete(release: Release, **spec: Any) -> Plan:
    """The plan once all addresses are known."""
    return planned(release, assigned(planned(release, **spec)), **spec)


def data(made: Plan, name: str) -> dict[str, str]:
    return kube.secret_data(objects(made)["Secret", f"designate-{name}"])


def pool(made: Plan) -> dict[str, Any]:
    (only,) = json.loads(data(made, "pools")["pools.json"])
    return only


def options(made: Plan, name: str = "config") -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.read_string(data(made, name)["designate.conf"])
    return parser


def step(made: Plan, condition: str) -> Step:
    """The last step that reports as this condition."""
    return [each for each, name in made.condition.items() if name == condition][-1]


def before(made: Plan, condition: str) -> set[str]:
    """Conditions of all steps that come before that one."""
    found, queue = set[str](), [*step(made, condition).after]
    while queue:
        each = queue.pop()
        found.add(made.condition[each])
        queue += each.after
    return found


def pods(made: Plan, component: str) -> dict[str, Any]:
    (template,) = [
        obj["spec"]["template"]
        for (kind, name), obj in objects(made).items()
        if kind in ("Deployment", "StatefulSet", "Job") and f"{name}-".startswith(f"designate-{component}-")
    ]
    return template["spec"]


def secrets_of(spec: dict[str, Any]) -> set[str]:
    return {volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume}


def test_the_pool_is_written_once_central_answers_and_before_the_others_start(release: Release) -> None:
    """Without a pool the API answers with errors; to write one, central must run."""
    made = complete(release)
    assert {"Schema", "Central", "Addresses"} <= before(made, "Pools")
    assert "Pools" not in before(made, "Central")
    for condition in ("API", "Worker", "Producer", "Mdns"):
        assert "Pools" in before(made, condition)


@pytest.mark.parametrize("backend", ["bind9", "pdns4"])
def test_servers_get_zones_from_workers_that_know_the_pool(release: Release, backend: str) -> None:
    """A worker reads the pool once: one that ran before would leave out a new server."""
    made = complete(release, backend=backend)
    assert {"Pools", "Worker"} <= before(made, "Zones")
    digests = {
        each["value"]
        for name in ("worker", "pools", "zones")
        for each in pods(made, name)["containers"][0]["env"]
        if each["name"] == "POOLS_DIGEST"
    }
    assert len(digests) == 1
    live = assigned(made)
    del live["Secret", "designate-keys"]["data"]["transfer"]
    (env,) = (
        each["value"]
        for each in pods(planned(release, live, backend=backend), "worker")["containers"][0]["env"]
        if each["name"] == "POOLS_DIGEST"
    )
    assert env not in digests


def test_servers_transfer_zones_from_an_address_of_each_pod_of_mdns(release: Release) -> None:
    spec: dict[str, Any] = {"mdns": {"replicas": 2}}
    first = planned(release, **spec)
    addresses = step(first, "Addresses")
    assert addresses.verdict is not None
    assert not addresses.verdict.ready
    live = assigned(first)
    made = planned(release, live, **spec)
    names = ("designate-mdns-0", "designate-mdns-1")
    for name in names:
        service = objects(made)["Service", name]["spec"]
        assert service["selector"]["statefulset.kubernetes.io/pod-name"] == name
        assert {(port["port"], port["protocol"]) for port in service["ports"]} == {(5354, "TCP"), (5354, "UDP")}
    masters = [{"host": live["Service", name]["spec"]["clusterIP"], "port": 5354} for name in names]
    assert [target["masters"] for target in pool(made)["targets"]] == [masters]


def test_another_address_or_key_is_another_job(release: Release) -> None:
    made = complete(release)
    live = assigned(made)

    def jobs(plan_: Plan) -> set[str]:
        return {name for kind, name in objects(plan_) if kind == "Job" and ("pools" in name or "zones" in name)}

    assert jobs(planned(release, live)) == jobs(made)
    assert jobs(planned(release, assigned(made, first=100))).isdisjoint(jobs(made))
    del live["Secret", "designate-keys"]["data"]["transfer"]
    assert jobs(planned(release, live)).isdisjoint(jobs(made))


def test_each_server_is_a_target_and_is_polled(release: Release) -> None:
    """By address: Designate's requests carry no name of a server (ValueError in IPOrHost)."""
    spec: dict[str, Any] = {"bind9": {"replicas": 2}}
    live = assigned(planned(release, **spec))
    made = planned(release, live, **spec)
    addresses = [live["Service", f"designate-bind9-{number}"]["spec"]["clusterIP"] for number in range(2)]
    found = pool(made)
    assert [each["host"] for each in found["nameservers"]] == addresses
    assert [target["options"]["host"] for target in found["targets"]] == addresses
    assert [target["options"]["rndc_host"] for target in found["targets"]] == addresses
    ports = objects(made)["Service", "designate-bind9-0"]["spec"]["ports"]
    assert {(each["port"], each["protocol"]) for each in ports} == {(5353, "TCP"), (5353, "UDP"), (9953, "TCP")}


def test_zones_have_the_names_of_servers_that_the_spec_says(release: Release) -> None:
    names = ["ns1.example.org.", "ns2.example.org."]
    found = pool(complete(release, nsRecords=names))["ns_records"]
    assert [each["hostname"] for each in found] == names
    (own,) = pool(complete(release))["ns_records"]
    assert own["hostname"] == "designate-dns.openstack.svc.cluster.local."


def test_resolvers_ask_by_tcp_and_udp(release: Release) -> None:
    for type_ in ("ClusterIP", "NodePort", "LoadBalancer"):
        service = objects(complete(release, bind9={"serviceType": type_}))["Service", "designate-dns"]["spec"]
        assert service["type"] == type_
        assert {(port["port"], port["targetPort"], port["protocol"]) for port in service["ports"]} == {
            (53, 5353, "TCP"),
            (53, 5353, "UDP"),
        }


@pytest.mark.security
def test_only_a_signed_request_gets_a_zone(release: Release) -> None:
    made = complete(release)
    assert options(made, "mdns-config")["service:mdns"]["query_enforce_tsig"] == "true"
    named = data(made, "bind9-config")["named.conf"]
    assert "allow-transfer { none; };" in named
    assert "recursion no;" in named
    (key_of_mdns,) = json.loads(data(made, "pools")["tsig.json"])
    assert (key_of_mdns["name"], key_of_mdns["scope"]) == ("transfer", "POOL")
    assert f'key "transfer" {{\n    algorithm hmac-sha256;\n    secret "{key_of_mdns["secret"]}";' in named
    assert 'server 0.0.0.0/0 { keys { "transfer"; }; };' in named


@pytest.mark.security
def test_mini_dns_has_no_login_of_keystone(release: Release) -> None:
    """It reads packets of other hosts. It needs the schema, and the broker for its heartbeat and for NOTIFY."""
    made = complete(release)
    secrets = secrets_of(pods(made, "mdns"))
    assert "designate-mdns-config" in secrets
    assert not secrets & {"designate-config", "designate-credentials", "designate-keys"}
    every, found = options(made), options(made, "mdns-config")
    assert {"storage:sqlalchemy", "oslo_messaging_rabbit"} <= set(found)
    assert not {"keystone_authtoken", "network_api:neutron", "service:api", "service:worker"} & set(found)
    for name, option in (("DEFAULT", "transport_url"), ("storage:sqlalchemy", "connection")):
        assert found[name][option] == every[name][option]
    assert every["keystone_authtoken"]["password"] not in data(made, "mdns-config")["designate.conf"]


@pytest.mark.security
def test_only_workers_may_command_servers(release: Release) -> None:
    made = complete(release, networkPolicies={"enabled": True})
    readers = ("api", "central", "worker", "producer", "mdns", "bind9", "pools", "zones")
    with_key = {name for name in readers if {"designate-rndc", "designate-keys"} & secrets_of(pods(made, name))}
    assert with_key == {"worker", "bind9"}
    assert 'allow { any; } keys { "rndc"; };' in data(made, "bind9-config")["named.conf"]
    _, control = objects(made)["NetworkPolicy", "designate-bind9"]["spec"]["ingress"]
    assert control["from"] == [{"podSelector": {"matchLabels": kube.pods_of("designate", "designate")}}]
    assert control["ports"] == [{"port": 9953, "protocol": "TCP"}]


@pytest.mark.security
def test_each_server_obeys_a_key_that_no_other_server_sees(release: Release) -> None:
    """Who runs code in one server must not command the others."""
    spec = {"bind9": {"replicas": 2}}
    made = complete(release, **spec)
    keys = {name: text for name, text in data(made, "rndc").items() if name.startswith("designate-bind9-")}
    assert set(keys) == {"designate-bind9-0", "designate-bind9-1"}
    secrets = {text.split('secret "')[1].split('"')[0] for text in keys.values()}
    assert len(secrets) == 2
    assert not [each for each in secrets if each in data(made, "bind9-config")["named.conf"]]
    (container,) = pods(made, "bind9")["containers"]
    mounts = [each for each in container["volumeMounts"] if each["name"] == "rndc"]
    # Kubernetes puts the pod's name there, and nothing else of the Secret into the container.
    assert [(each["mountPath"], each["subPathExpr"]) for each in mounts] == [("/etc/named/rndc.key", "$(POD_NAME)")]
    assert "subPath" not in mounts[0]
    assert 'include "/etc/named/rndc.key";' in data(made, "bind9-config")["named.conf"]
    targets = pool(made)["targets"]
    assert [each["options"]["rndc_key_file"] for each in targets] == [f"/etc/designate/rndc/{name}" for name in keys]


def test_a_further_server_leaves_the_others_running(release: Release) -> None:
    two = complete(release, bind9={"replicas": 2})
    three = planned(release, assigned(two), bind9={"replicas": 3})
    templates = [objects(made)["StatefulSet", "designate-bind9"]["spec"]["template"] for made in (two, three)]
    assert templates[0] == templates[1]


def test_servers_restart_with_another_key_of_commands(release: Release) -> None:
    one = complete(release)
    before = pods(one, "bind9")["containers"][0]["env"]
    live = assigned(one)
    del live["Secret", "designate-keys"]["data"]["rndc"]
    changed = planned(release, live)
    assert data(changed, "rndc") != data(one, "rndc")
    assert pods(changed, "bind9")["containers"][0]["env"] != before


@pytest.mark.security
def test_no_key_is_in_a_command_an_environment_or_a_configmap(release: Release) -> None:
    made = complete(release)
    drawn = kube.secret_data(objects(made)["Secret", "designate-keys"])
    (encoded,) = (each["secret"] for each in json.loads(data(made, "pools")["tsig.json"]))
    text = json.dumps([obj for (kind, _), obj in objects(made).items() if kind != "Secret"])
    assert not [value for value in (*drawn.values(), encoded) if f'"{value}"' in text or encoded in text]


def test_network_policies_open_dns_to_everybody_and_mdns_to_servers(release: Release) -> None:
    made = objects(complete(release, networkPolicies={"enabled": True}))
    dns, _ = made["NetworkPolicy", "designate-bind9"]["spec"]["ingress"]
    assert dns == {"ports": [{"port": 5353, "protocol": protocol} for protocol in ("TCP", "UDP")]}
    (transfers,) = made["NetworkPolicy", "designate-mdns"]["spec"]["ingress"]
    assert {(port["port"], port["protocol"]) for port in transfers["ports"]} == {(5354, "TCP"), (5354, "UDP")}
    assert transfers["from"] == [{"podSelector": {"matchLabels": kube.pods_of("designate", "designate")}}]
    assert ("NetworkPolicy", "designate-bind9") not in objects(complete(release))


def test_central_and_producer_run_alone(release: Release) -> None:
    """Several of them would need a coordination server."""
    made = objects(complete(release, replicas=3))
    found = {
        name: obj["spec"]["replicas"] for (kind, name), obj in made.items() if kind in ("Deployment", "StatefulSet")
    }
    assert found == {
        "designate-api": 3,
        "designate-central": 1,
        "designate-producer": 1,
        "designate-worker": 3,
        "designate-mdns": 3,
        "designate-bind9": 3,
    }


def test_a_server_keeps_its_zones(release: Release) -> None:
    made = complete(release)
    stateful_set = objects(made)["StatefulSet", "designate-bind9"]["spec"]
    assert stateful_set["volumeClaimTemplates"]
    (container,) = pods(made, "bind9")["containers"]
    assert {mount["mountPath"] for mount in container["volumeMounts"]} >= {"/var/lib/named", "/etc/named/named.conf"}
    assert 'directory "/var/lib/named";' in data(made, "bind9-config")["named.conf"]


def test_quotas_that_are_set_are_options(release: Release) -> None:
    default = options(complete(release, quotas={"zones": 50}))["DEFAULT"]
    assert default["quota_zones"] == "50"
    assert "quota_zone_records" not in default


def test_servers_hear_of_a_change_within_seconds(release: Release) -> None:
    """By default a change of a record waits for five seconds, and a look at the servers for fifteen."""
    found = options(complete(release))
    assert found["producer_task:increment_serial"]["interval"] == "1"
    looks = {name: int(value) for name, value in found["service:worker"].items() if name.startswith("poll_")}
    # Later than that, the producer repeats a change (designate.utils.max_prop_time).
    assert looks["poll_max_retries"] * (looks["poll_timeout"] + looks["poll_retry_interval"]) == 60
    assert int(found["producer_task:worker_periodic_recovery"]["interval"]) <= 30


def test_the_schema_is_where_designate_looks_for_it(release: Release) -> None:
    found = options(complete(release))
    assert found["storage:sqlalchemy"]["connection"].startswith("mysql+pymysql://designate:")
    assert "database" not in found


@pytest.mark.parametrize(
    ("section", "option"), [("service:mdns", "query_enforce_tsig"), ("service:central", "default_pool_id")]
)
def test_options_that_the_operator_sets_are_refused(release: Release, section: str, option: str) -> None:
    with pytest.raises(SpecError, match=rf"spec\.config\.{section}\.{option}"):
        planned(release, config={section: {option: "mine"}})


def test_a_cloud_runs_one_if_it_is_enabled(release: Release) -> None:
    off = {key(obj) for obj in cloud(context(CONTROL_PLANE, {}, release=release)).objects}
    assert ("Designate", "designate") not in off
    spec = {"designate": {"enabled": True, "nsRecords": ["ns1.example.org."]}}
    made = {key(obj): obj for obj in cloud(context(CONTROL_PLANE, spec, release=release)).objects}
    assert made["Designate", "designate"]["spec"]["nsRecords"] == ["ns1.example.org."]
    assert made["Designate", "designate"]["spec"]["tls"]["pkiRef"] == {"name": "internal"}


def test_pools_stay_as_they_are_while_an_address_is_unknown(release: Release) -> None:
    """A job that runs would write a pool without servers, which changes all zones on them."""
    live = assigned(planned(release))
    before = data(planned(release, live), "pools")
    live |= {key(obj): granted(copy.deepcopy(obj)) for obj in planned(release, live).objects if obj["kind"] == "Secret"}
    for obj in live.values():
        if obj["kind"] == "Service":
            obj["spec"].pop("clusterIP", None)
    assert json.loads(before["pools.json"])[0]["targets"]
    assert data(planned(release, live), "pools") == before
