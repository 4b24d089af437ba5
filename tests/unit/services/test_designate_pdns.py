"""PowerDNS as servers of a Designate: where it keeps its zones, who commands it, and what reaches it how."""

from __future__ import annotations

import configparser
import copy
import json
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.api import crd
from openstack_operator.parts.secrets.rotation import order_name
from openstack_operator.plan import Object, Plan, Release, key
from openstack_operator.services.designate.model import DESIGNATE
from openstack_operator.services.designate.service import plan
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as plan_pki
from openstack_operator.testing import NOW, context, granted

Objects = dict[tuple[str, str], Object]
SERVER = {"host": "mariadb", "port": "3306"}


def planned(release: Release, children: Objects, server: dict[str, str], **changes: Any) -> Plan:
    spec = {"backend": "pdns4", **changes.pop("spec", {})}
    made = plan_pki(context(PKI, release=release))
    secrets = {obj["metadata"]["name"]: kube.secret_data(obj) for obj in made.objects if obj["kind"] == "Secret"}
    secrets |= {"mariadb-trust": {"ca.crt": "of the database"}, **changes.pop("secrets", {})}
    published = {
        "MariaDB": server,
        "RabbitMQ": {"host": "rabbitmq", "port": "5672"},
        "Memcached": {"servers": "memcached:11211"},
        "Keystone": {"internalURL": "http://keystone-api:5000/v3"},
        "PKI": made.outcome.published,
    }
    draws = iter(f"drawn-{len(children)}-{number}" for number in range(99))
    return plan(
        context(
            DESIGNATE,
            spec,
            release=release,
            published=published,
            secrets=secrets,
            children=children,
            draw=lambda: next(draws),
            **changes,
        )
    )


def live(made: Plan) -> Objects:
    """The objects of a plan, all of them finished, and each Service with an address."""
    found = {key(obj): granted(copy.deepcopy(obj)) for obj in made.objects}
    for number, (kind, _) in enumerate(found, 1):
        if kind == "Service":
            found[kind, _]["spec"].setdefault("clusterIP", f"10.0.0.{number}")
    return found


def complete(release: Release, server: dict[str, str] | None = None, **changes: Any) -> Plan:
    """The plan once all addresses are known."""
    server = server or SERVER
    first = planned(release, {}, server, **copy.deepcopy(changes))
    return planned(release, live(first), server, **changes)


def objects(made: Plan) -> Objects:
    return {key(obj): obj for obj in made.objects}


def data(made: Plan, name: str) -> dict[str, str]:
    return kube.secret_data(objects(made)["Secret", f"designate-{name}"])


def options(made: Plan) -> dict[str, str]:
    """Options of pdns.conf."""
    lines = data(made, "pdns-config")["pdns.conf"].splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def target(made: Plan) -> dict[str, Any]:
    (pool,) = json.loads(data(made, "pools")["pools.json"])
    (only,) = pool["targets"]
    return only


def job(made: Plan, name: str) -> str:
    (found,) = (each for kind, each in objects(made) if kind == "Job" and each.startswith(f"designate-{name}-"))
    return found


def pods(made: Plan, name: str) -> Object:
    return objects(made)["Deployment", f"designate-{name}"]["spec"]["template"]["spec"]


TLS = {"tls": {"pkiRef": {"name": "pki"}}}


def test_all_servers_share_one_schema_with_its_own_account(release: Release) -> None:
    made = complete(release, spec={"pdns4": {"replicas": 2}})
    database = objects(made)["MariaDBDatabase", "designate-pdns-db"]["spec"]
    assert (database["database"], database["user"]) == ("designate_pdns", "designate_pdns")
    assert database["passwordSecretRef"] == {"name": "designate-credentials", "key": "pdns-database"}
    found = options(made)
    assert found["launch"] == "gmysql"
    assert {name: found[f"gmysql-{name}"] for name in ("host", "port", "user", "dbname")} == {
        **SERVER,
        "user": "designate_pdns",
        "dbname": "designate_pdns",
    }
    assert "gmysql-password" not in found
    assert f'password="{data(made, "credentials")["pdns-database"]}"' in data(made, "pdns-config")["my.cnf"]
    assert objects(made)["Deployment", "designate-pdns"]["spec"]["replicas"] == 2
    assert ("StatefulSet", "designate-bind9") not in objects(made)
    assert ("PodDisruptionBudget", "designate-pdns") in objects(made)


def test_a_change_on_one_server_is_answered_by_all_within_a_second(release: Release) -> None:
    found = options(complete(release))
    assert {found[f"{name}cache-ttl"] for name in ("", "query-", "negquery-")} == {"1"}
    assert found["zone-cache-refresh-interval"] == "0"


@pytest.mark.security
def test_servers_verify_the_database_that_has_a_certificate(release: Release) -> None:
    made = complete(release, {**SERVER, "trustSecret": "mariadb-trust"})
    for name in ("pdns-config", "pdns-schema"):
        client = configparser.ConfigParser(allow_no_value=True)
        client.read_string(data(made, name)["my.cnf"])
        assert client["client"]["ssl-ca"] == "/etc/openstack-trust/mariadb-trust/ca.crt"
        assert "ssl-verify-server-cert" in client["client"]
    mounts = pods(made, "pdns")["containers"][0]["volumeMounts"]
    assert "/etc/openstack-trust/mariadb-trust" in {each["mountPath"] for each in mounts}
    assert "ssl-verify-server-cert=0" in data(complete(release), "pdns-config")["my.cnf"]


def test_designate_commands_any_of_them_and_asks_any_of_them(release: Release) -> None:
    """By address: Designate's requests carry no name of a server (ValueError in IPOrHost)."""
    made = complete(release, spec={"pdns4": {"replicas": 3}, "mdns": {"replicas": 2}})
    known = live(planned(release, {}, SERVER, spec={"pdns4": {"replicas": 3}, "mdns": {"replicas": 2}}))
    address = known["Service", "designate-pdns"]["spec"]["clusterIP"]
    found = target(made)
    assert (found["type"], found["options"]["host"], found["options"]["port"]) == ("pdns4", address, 5353)
    assert found["options"]["api_token"] == data(made, "keys")["api"]
    masters = [known["Service", f"designate-mdns-{number}"]["spec"]["clusterIP"] for number in range(2)]
    assert [each["host"] for each in found["masters"]] == masters
    (pool,) = json.loads(data(made, "pools")["pools.json"])
    assert pool["nameservers"] == [{"host": address, "port": 5353}]


@pytest.mark.security
def test_commands_are_encrypted_and_verified_with_tls(release: Release) -> None:
    made = complete(release, spec=TLS)
    found = target(made)["options"]
    assert found["api_endpoint"] == "https://designate-pdns.openstack.svc.cluster.local:8081"
    assert options(made)["webserver-address"] == "127.0.0.1"
    assert [each["name"] for each in pods(made, "pdns")["containers"]] == ["main", "front"]
    (worker,) = pods(made, "worker")["containers"]
    # Designate's driver names no authorities as it looks for a zone or deletes one.
    assert {"name": "REQUESTS_CA_BUNDLE", "value": found["api_ca_cert"]} in worker["env"]
    folder = found["api_ca_cert"].removesuffix("/ca.crt")
    zones = objects(made)["Job", job(made, "zones")]["spec"]["template"]["spec"]["containers"][0]
    for container in (worker, zones):
        assert folder in {each["mountPath"] for each in container["volumeMounts"]}
    plain = complete(release)
    assert target(plain)["options"]["api_endpoint"].startswith("http://")
    assert "api_ca_cert" not in target(plain)["options"]


@pytest.mark.security
def test_only_designate_commands_servers_and_everybody_asks_them(release: Release) -> None:
    made = complete(release, spec={"networkPolicies": {"enabled": True}})
    dns, commands = objects(made)["NetworkPolicy", "designate-pdns"]["spec"]["ingress"]
    assert dns == {"ports": [{"port": 5353, "protocol": protocol} for protocol in ("TCP", "UDP")]}
    assert commands == {
        "ports": [{"port": 8081, "protocol": "TCP"}],
        "from": [{"podSelector": {"matchLabels": kube.pods_of("designate", "designate")}}],
    }


@pytest.mark.security
def test_servers_give_no_zone_away_and_sign_their_requests(release: Release) -> None:
    made = complete(release)
    found = options(made)
    assert found["disable-axfr"] == "yes"
    (tsig,) = json.loads(data(made, "pools")["tsig.json"])
    assert target(made)["options"]["tsigkey_name"] == tsig["name"]
    assert f"('transfer', 'hmac-sha256', '{tsig['secret']}')" in data(made, "pdns-schema")["transfer.sql"]


@pytest.mark.security
def test_no_key_is_in_a_command_an_environment_or_a_configmap(release: Release) -> None:
    made = complete(release)
    (secret,) = (each["secret"] for each in json.loads(data(made, "pools")["tsig.json"]))
    text = json.dumps([obj for (kind, _), obj in objects(made).items() if kind != "Secret"])
    drawn = (*data(made, "keys").values(), data(made, "credentials")["pdns-database"], secret)
    assert not [value for value in drawn if value in text]


@pytest.mark.security
def test_servers_run_as_a_user_of_their_own_and_write_nowhere(release: Release) -> None:
    checks = 0
    for container in pods(complete(release, spec=TLS), "pdns")["containers"]:
        security = container["securityContext"]
        checks += 1
        assert security["runAsNonRoot"]
        assert security["readOnlyRootFilesystem"]
        assert security["capabilities"] == {"drop": ["ALL"]}
    assert checks


def test_a_new_api_key_restarts_servers_and_workers_and_writes_the_pool(release: Release) -> None:
    made = complete(release)
    before = live(made)
    del before["Secret", "designate-keys"]["data"]["api"]
    changed = planned(release, before, SERVER)
    assert target(changed)["options"]["api_token"] == options(changed)["api-key"] != options(made)["api-key"]
    for name in ("pdns", "worker"):
        assert objects(changed)["Deployment", f"designate-{name}"] != objects(made)["Deployment", f"designate-{name}"]
    for name in ("pools", "zones"):
        assert job(changed, name) != job(made, name)
    assert job(changed, "pdns-schema") == job(made, "pdns-schema")


def test_another_key_of_transfers_is_loaded_and_restarts_no_server(release: Release) -> None:
    made = complete(release)
    before = live(made)
    del before["Secret", "designate-keys"]["data"]["transfer"]
    changed = planned(release, before, SERVER)
    assert job(changed, "pdns-schema") != job(made, "pdns-schema")
    assert objects(changed)["Deployment", "designate-pdns"] == objects(made)["Deployment", "designate-pdns"]


def test_an_order_replaces_the_password_of_its_account(release: Release) -> None:
    made = complete(release)
    order = {order_name("designate", "database"): {"at": "2026-01-01T00:00:00Z"}}
    changed = planned(release, live(made), SERVER, secrets=order, now=NOW)
    accounts = [name for kind, name in objects(changed) if kind == "MariaDBDatabase"]
    assert accounts == ["designate-db", "designate-db--b", "designate-pdns-db", "designate-pdns-db--b"]


def test_on_an_external_server_the_schema_is_beside_designates(release: Release) -> None:
    # Designate's own migrations read no other characters.
    login = {
        "username": "dns",
        "password": "of-dns.~_",
        "host": "db.example.org",
        "port": "3307",
        "database": "names",
    }
    spec = {"database": {"secretRef": {"name": "login"}}}
    made = complete(release, spec=spec, secrets={"login": login})
    found = options(made)
    assert (found["gmysql-host"], found["gmysql-port"], found["gmysql-dbname"]) == (
        "db.example.org",
        "3307",
        "names_pdns",
    )
    assert found["gmysql-user"] == "dns"
    assert 'password="of-dns.~_"' in data(made, "pdns-config")["my.cnf"]
    assert "pdns-database" not in data(made, "credentials")


def test_the_kind_of_servers_stays(release: Release) -> None:
    """Servers of the other kind would be asked before they have zones."""
    schema = crd(DESIGNATE)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    (rule,) = schema["backend"]["x-kubernetes-validations"]
    assert rule["rule"] == "self == oldSelf"
    assert "cannot be changed" in rule["message"]
