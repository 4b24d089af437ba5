"""Several pools of a Designate: whose zones are where, who has which key, and what becomes of a removed pool."""

from __future__ import annotations

import base64
import copy
import json
from configparser import ConfigParser
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.api import crd, destinations
from openstack_operator.plan import MissingReference, Object, Plan, Release, SpecError, key
from openstack_operator.services.designate.model import DESIGNATE, DesignateSpec
from openstack_operator.services.designate.service import plan
from openstack_operator.services.pki.model import PKI
from openstack_operator.services.pki.service import plan as plan_pki
from openstack_operator.testing import context, granted

Objects = dict[tuple[str, str], Object]
DEFAULT = "794ccc2c-d751-44fe-b57f-8894c9f5c842"
SECRET = base64.b64encode(b"of the user").decode()
KEY = {"name": "rndc-key", "keyRef": {"name": "dns", "key": "rndc"}}
API = {
    "url": "https://ns2.example.org:8081/",
    "tokenRef": {"name": "dns", "key": "token"},
    "caSecretRef": {"name": "dns"},
}
BIND = {"address": "192.0.2.53", "bind9": {"key": KEY}}
POWER = {"address": "2001:db8::53", "port": 5300, "pdns4": API}
SECRETS = {"dns": {"rndc": SECRET, "token": "of-the-api", "ca.crt": "the authority of the user"}}


def outside(*servers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "name": "outside",
        "backend": "external",
        "nsRecords": ["ns.example.org."],
        "external": {"servers": [*servers], **fields},
    }


def planned(release: Release, spec: dict[str, Any], children: Objects | None = None, **changes: Any) -> Plan:
    made = plan_pki(context(PKI, release=release))
    secrets = {obj["metadata"]["name"]: kube.secret_data(obj) for obj in made.objects if obj["kind"] == "Secret"}
    secrets |= SECRETS | changes.pop("secrets", {})
    published = {
        "MariaDB": {"host": "mariadb", "port": "3306"},
        "RabbitMQ": {"host": "rabbitmq", "port": "5672"},
        "Memcached": {"servers": "memcached:11211"},
        "Keystone": {"internalURL": "http://keystone-api:5000/v3"},
        "PKI": made.outcome.published,
    }
    draws = iter(f"drawn-{len(children or {})}-{number}" for number in range(99))
    return plan(
        context(
            DESIGNATE,
            copy.deepcopy(spec),
            release=release,
            published=published,
            secrets=secrets,
            children=children or {},
            draw=lambda: next(draws),
        )
    )


def live(made: Plan) -> Objects:
    """The objects of a plan, all of them finished, and each Service with its addresses."""
    result = {key(obj): granted(copy.deepcopy(obj)) for obj in made.objects}
    for number, obj in enumerate(result.values(), 1):
        if obj["kind"] == "Service":
            obj["spec"].setdefault("clusterIP", f"10.0.0.{number}")
            if obj["spec"].get("type") == "LoadBalancer":
                obj["status"] = {"loadBalancer": {"ingress": [{"ip": f"203.0.113.{number}"}]}}
    return result


def complete(release: Release, spec: dict[str, Any], **changes: Any) -> Plan:
    """The plan once all addresses are known."""
    return planned(release, spec, live(planned(release, spec, **changes)), **changes)


def objects(made: Plan) -> Objects:
    return {key(obj): obj for obj in made.objects}


def data(made: Plan, name: str) -> dict[str, str]:
    return kube.secret_data(objects(made)["Secret", f"designate-{name}"])


def pools(made: Plan) -> dict[str, Any]:
    return {each["name"]: each for each in json.loads(data(made, "pools")["pools.json"])}


def pods(made: Plan, kind: str, name: str) -> Object:
    return objects(made)[kind, f"designate-{name}"]["spec"]["template"]["spec"]


def central(made: Plan) -> dict[str, str]:
    parser = ConfigParser(interpolation=None, strict=False)
    parser.read_string(data(made, "config")["designate.conf"])
    return dict(parser["service:central"])


def test_each_pool_has_servers_a_service_and_keys_of_its_own(release: Release) -> None:
    spec = {"pools": [{"name": "inner", "bind9": {"replicas": 2}}, {"name": "fast", "backend": "pdns4"}]}
    made = complete(release, spec)
    assert {"designate-bind9", "designate-inner-bind9"} <= {
        name for kind, name in objects(made) if kind == "StatefulSet"
    }
    assert ("Deployment", "designate-fast-pdns") in objects(made)
    entries = pools(made)
    assert entries["default"]["id"] == DEFAULT
    assert len({each["id"] for each in entries.values()}) == 3
    hosts = [[each["host"] for each in entry["nameservers"]] for entry in entries.values()]
    assert [len(each) for each in hosts] == [1, 2, 1]
    assert len({host for each in hosts for host in each}) == 4
    for name, prefix in (("default", ""), ("inner", "inner-"), ("fast", "fast-")):
        component = f"{prefix}pdns" if name == "fast" else f"{prefix}bind9"
        assert objects(made)["Service", f"designate-{prefix}dns"]["spec"]["selector"] == kube.selector(
            context(DESIGNATE, {}, release=release), component
        )
        (record,) = entries[name]["ns_records"]
        assert record["hostname"] == f"designate-{prefix}dns.openstack.svc.cluster.local."
    assert objects(made)["MariaDBDatabase", "designate-fast-pdns-db"]["spec"]["database"] == "designate_fast_pdns"


@pytest.mark.security
def test_servers_of_a_pool_read_no_zone_of_another_one(release: Release) -> None:
    """Mini DNS knows by the key whose zones are asked for."""
    made = complete(release, {"pools": [{"name": "inner"}, {"name": "fast", "backend": "pdns4"}]})
    keys = json.loads(data(made, "pools")["tsig.json"])
    assert {each["name"]: each["resource_id"] for each in keys} == {
        "transfer": DEFAULT,
        "transfer-inner": pools(made)["inner"]["id"],
        "transfer-fast": pools(made)["fast"]["id"],
    }
    assert len({each["secret"] for each in keys}) == 3
    files = {
        "transfer": data(made, "bind9-config")["named.conf"],
        "transfer-inner": data(made, "inner-bind9-config")["named.conf"],
        "transfer-fast": data(made, "fast-pdns-schema")["transfer.sql"],
    }
    for each in keys:
        assert [name for name, text in files.items() if each["secret"] in text] == [each["name"]]
    assert pools(made)["fast"]["targets"][0]["options"]["tsigkey_name"] == "transfer-fast"
    rndc = [set(data(made, name).values()) for name in ("rndc", "inner-rndc")]
    assert rndc[0].isdisjoint(rndc[1])


def test_users_choose_a_pool_by_its_attributes(release: Release) -> None:
    made = complete(release, {"pools": [{"name": "inner", "attributes": {"tier": "gold"}}]})
    assert central(made)["scheduler_filters"] == "attribute,in_doubt_default_pool,random"
    assert pools(made)["default"]["attributes"] == {"pool": "default"}
    assert pools(made)["inner"]["attributes"] == {"pool": "inner", "tier": "gold"}
    assert "scheduler_filters" not in central(complete(release, {}))


def test_external_servers_are_targets_that_are_commanded_as_the_spec_says(release: Release) -> None:
    host = {**BIND, "bind9": {"host": "rndc.example.org", "port": 8953, "key": KEY}}
    spec = {"pools": [{**outside(host, POWER), "alsoNotifies": [{"address": "192.0.2.99"}]}], "mdns": {"replicas": 2}}
    made = complete(release, spec)
    entry = pools(made)["outside"]
    assert entry["nameservers"] == [{"host": "192.0.2.53", "port": 53}, {"host": "2001:db8::53", "port": 5300}]
    assert entry["also_notifies"] == [{"host": "192.0.2.99", "port": 53}]
    assert [each["hostname"] for each in entry["ns_records"]] == ["ns.example.org."]
    bind, power = entry["targets"]
    assert (bind["type"], power["type"]) == ("bind9", "pdns4")
    assert bind["options"] == {
        "host": "192.0.2.53",
        "port": 53,
        "rndc_host": "rndc.example.org",
        "rndc_port": 8953,
        "rndc_key_file": "/etc/designate/outside-rndc/server-0.key",
        "clean_zonefile": True,
    }
    assert power["options"]["api_endpoint"] == "https://ns2.example.org:8081"
    assert power["options"]["api_token"] == "of-the-api"
    assert power["options"]["tsigkey_name"] == "transfer-outside"
    known = live(planned(release, spec))
    masters = [known["Service", f"designate-mdns-{number}"]["spec"]["clusterIP"] for number in range(2)]
    assert [each["host"] for each in bind["masters"]] == masters
    worker = pods(made, "Deployment", "worker")["containers"][0]
    paths = {each["mountPath"] for each in worker["volumeMounts"]}
    assert {bind["options"]["rndc_key_file"], power["options"]["api_ca_cert"].removesuffix("/ca.crt")} <= paths
    assert f'secret "{SECRET}"' in data(made, "outside-rndc")["server-0.key"]
    assert not [name for _, name in objects(made) if "outside-dns" in name or "outside-bind9" in name]


def test_the_default_pool_may_have_only_external_servers(release: Release) -> None:
    spec = {each: value for each, value in outside(BIND).items() if each != "name"}
    made = complete(release, spec)
    assert not [name for kind, name in objects(made) if kind == "StatefulSet" and name != "designate-mdns"]
    assert pools(made)["default"]["targets"][0]["options"]["rndc_host"] == "192.0.2.53"
    assert ("Service", "designate-dns") not in objects(made)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"backend": "bind9"}, "external"),
        ({"external": None}, "external"),
        ({"nsRecords": []}, "nsRecords"),
    ],
)
def test_external_servers_are_said_completely(release: Release, fields: dict[str, Any], path: str) -> None:
    with pytest.raises(SpecError) as error:
        complete(release, {"pools": [outside(BIND) | fields]})
    assert error.value.path == f"spec.pools[outside].{path}"


def test_external_servers_reach_mini_dns_by_load_balancers_or_given_addresses(release: Release) -> None:
    spec = {"pools": [outside(BIND)], "mdns": {"serviceType": "LoadBalancer"}}
    first = planned(release, spec)
    children = live(first)
    made = planned(release, spec, children)
    service = objects(made)["Service", "designate-mdns-0"]["spec"]
    # The address of a server is the one that it has.
    assert (service["type"], service["externalTrafficPolicy"]) == ("LoadBalancer", "Local")
    assert {each["port"] for each in service["ports"]} == {5354}
    (address,) = [each["ip"] for each in children["Service", "designate-mdns-0"]["status"]["loadBalancer"]["ingress"]]
    assert pools(made)["outside"]["targets"][0]["masters"] == [{"host": address, "port": 5354}]
    inner = pools(made)["default"]["targets"][0]["masters"]
    assert inner == [{"host": children["Service", "designate-mdns-0"]["spec"]["clusterIP"], "port": 5354}]
    for obj in children.values():
        obj.pop("status", None) if obj["kind"] == "Service" else None
    assert pools(planned(release, spec, children))["default"]["targets"] == []
    named = {"pools": [outside(BIND, primaries=[{"address": "198.51.100.1", "port": 53}])]}
    assert pools(complete(release, named))["outside"]["targets"][0]["masters"] == [{"host": "198.51.100.1", "port": 53}]


@pytest.mark.security
def test_external_servers_alone_reach_mini_dns_from_outside(release: Release) -> None:
    spec = {"pools": [outside(BIND, POWER)], "networkPolicies": {"enabled": True}}
    (rule,) = objects(complete(release, spec))["NetworkPolicy", "designate-mdns"]["spec"]["ingress"]
    assert [each["ipBlock"]["cidr"] for each in rule["from"][1:]] == ["192.0.2.53/32", "2001:db8::53/128"]


@pytest.mark.security
def test_a_secret_has_to_allow_each_server_that_it_is_sent_to() -> None:
    own = {"name": "transfers", "keyRef": {"name": "tsig", "key": "key"}}
    spec = DesignateSpec.model_validate({"pools": [outside(BIND, POWER, tsigKey=own)]})
    where = {each.secret: [*each.addresses] for each in destinations(spec) if each.secret == "tsig"}
    assert where == {"tsig": ["192.0.2.53", "[2001:db8::53]"]}
    of_servers = [each for each in destinations(spec) if each.secret == "dns"]
    assert [[*each.addresses] for each in of_servers] == [["192.0.2.53"], [API["url"]]]
    assert [each[0] for each in of_servers] == [
        "spec.pools[0].external.servers[0].bind9.key.keyRef",
        "spec.pools[0].external.servers[1].pdns4.tokenRef",
    ]


@pytest.mark.security
@pytest.mark.parametrize(
    ("servers", "field"),
    [
        ([{**BIND, "address": "127.0.0.1"}], "servers[0].address"),
        ([{**BIND, "address": "::ffff:169.254.169.254"}], "servers[0].address"),
        ([BIND, {**BIND, "address": "fd00:ec2::254"}], "servers[1].address"),
        ([{**BIND, "bind9": {"host": "169.254.169.254", "key": KEY}}], "servers[0].bind9.host"),
        ([{**BIND, "bind9": {"host": "localhost", "key": KEY}}], "servers[0].bind9.host"),
        ([{**BIND, "address": "64:ff9b::a9fe:a9fe"}], "servers[0].address"),
        ([{**BIND, "bind9": {"host": "127.1", "key": KEY}}], "servers[0].bind9.host"),
        ([{**POWER, "pdns4": {**API, "url": "https://[::1]:8081"}}], "servers[0].pdns4.url"),
    ],
)
def test_addresses_of_this_machine_and_of_the_link_are_refused(
    release: Release, servers: list[dict[str, Any]], field: str
) -> None:
    with pytest.raises(SpecError) as error:
        complete(release, {"pools": [outside(*servers)]})
    assert error.value.path == f"spec.pools[outside].external.{field}"
    with pytest.raises(SpecError, match="alsoNotifies"):
        complete(release, {"alsoNotifies": [{"address": "169.254.169.254"}]})


@pytest.mark.security
def test_forms_of_addresses_that_resolvers_may_read_are_refused() -> None:
    refused = ("127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.0.0.1.", "64:ff9b::a9fe:a9fe")
    assert not [host for host in (*refused, "localhost.") if kube.may_be_server(host)]
    allowed = (
        "192.0.2.53",
        "64:ff9b::c000:235",
        "ns1.example.org",
        "ns1.example.org.",
        "abc",
        "3com.example",
        "ns1.3com",
    )
    assert [host for host in allowed if kube.may_be_server(host)] == [*allowed]


def test_a_load_balancer_without_an_address_is_named(release: Release) -> None:
    spec: dict[str, Any] = {"pools": [outside(BIND)], "mdns": {"serviceType": "LoadBalancer"}}
    children = live(planned(release, spec))
    service = children["Service", "designate-mdns-0"]
    for ingress, said in (
        ([], "no IP address yet"),
        ([{"hostname": "lb.example.org"}], "the host name lb.example.org"),
    ):
        service["status"] = {"loadBalancer": {"ingress": ingress}}
        (step,) = [each for each in planned(release, spec, children) if each.name == "Addresses"]
        assert step.verdict
        assert "Service 'designate-mdns-0'" in step.verdict.message
        assert said in step.verdict.message
        assert "external.primaries" in step.verdict.message


def test_servers_with_given_addresses_wait_for_no_load_balancer(release: Release) -> None:
    primaries = [{"address": "198.51.100.1", "port": 53}]
    spec: dict[str, Any] = {"pools": [outside(BIND, primaries=primaries)], "mdns": {"serviceType": "LoadBalancer"}}
    children = live(planned(release, spec))
    for obj in children.values():
        obj.pop("status", None) if obj["kind"] == "Service" else None
    assert pools(planned(release, spec, children))["outside"]["targets"][0]["masters"] == [
        {"host": "198.51.100.1", "port": 53}
    ]


@pytest.mark.security
@pytest.mark.parametrize(
    ("secret", "field"),
    [
        ({"token": "with a\nline"}, "servers[1].pdns4.tokenRef"),
        ({"rndc": '"; }; include "/etc/passwd"; key "a" { secret "'}, "servers[0].bind9.key.keyRef"),
        ({"rndc": ""}, "servers[0].bind9.key.keyRef"),
    ],
)
def test_an_invalid_key_is_refused_and_not_quoted(release: Release, secret: dict[str, str], field: str) -> None:
    changes = {"dns": {**SECRETS["dns"], **secret}}
    with pytest.raises(SpecError) as error:
        complete(release, {"pools": [outside(BIND, POWER)]}, secrets=changes)
    assert error.value.path == f"spec.pools[outside].external.{field}"
    assert not [value for value in secret.values() if value and value in str(error.value)]


@pytest.mark.security
def test_apis_are_verified_by_authorities_of_the_user(release: Release) -> None:
    schema = crd(DESIGNATE)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    api = schema["external"]["properties"]["servers"]["items"]["properties"]["pdns4"]
    assert api["properties"]["url"]["pattern"].startswith("^https://")
    assert "caSecretRef" in api["required"]
    with pytest.raises(MissingReference, match=r"ca\.crt"):
        complete(release, {"pools": [outside(POWER)]}, secrets={"dns": {"token": "t"}})


@pytest.mark.security
def test_workers_trust_the_authorities_of_all_apis_and_no_other(release: Release) -> None:
    """Designate's driver names none as it looks for a zone or deletes one."""

    def bundle(spec: dict[str, Any], secrets: dict[str, dict[str, str]] | None = None) -> tuple[str, str]:
        made = complete(release, spec, secrets=secrets or {})
        pod = pods(made, "Deployment", "worker")
        (container,) = pod["containers"]
        (path,) = [each["value"] for each in container["env"] if each["name"] == "REQUESTS_CA_BUNDLE"]
        [mount] = [each for each in container["volumeMounts"] if each["mountPath"] == path.removesuffix("/ca.crt")]
        [volume] = [each for each in pod["volumes"] if each["name"] == mount["name"]]
        name = volume["secret"]["secretName"]
        return name, "" if name == "dns" else kube.secret_data(objects(made)["Secret", name])["ca.crt"]

    assert bundle({"pools": [outside(POWER)]}) == ("dns", "")
    other = {**POWER, "address": "192.0.2.54", "pdns4": {**API, "caSecretRef": {"name": "other"}}}
    name, text = bundle({"pools": [outside(POWER, other)]}, {"other": {"ca.crt": "another authority"}})
    assert (name, text) == ("designate-apis-trust", "the authority of the user\n\nanother authority\n")
    tls = {"tls": {"pkiRef": {"name": "pki"}}, "backend": "pdns4", "pools": [outside(POWER)]}
    _, text = bundle(tls)
    assert "the authority of the user" in text
    assert "BEGIN CERTIFICATE" in text


def test_two_pools_do_not_share_the_name_of_a_key(release: Release) -> None:
    own = {"name": "Transfer", "keyRef": {"name": "dns", "key": "rndc"}}
    with pytest.raises(SpecError, match="another pool uses the key name"):
        complete(release, {"pools": [outside(BIND, tsigKey=own)]})
    own["name"] = "mine"
    made = complete(release, {"pools": [outside(POWER, tsigKey=own)]})
    assert "transfer-outside" not in data(made, "keys")
    assert pools(made)["outside"]["targets"][0]["options"]["tsigkey_name"] == "mine"
    assert json.loads(data(made, "pools")["tsig.json"])[1]["secret"] == SECRET


@pytest.mark.security
def test_no_key_is_in_a_command_an_environment_or_a_configmap(release: Release) -> None:
    made = complete(release, {"pools": [outside(BIND, POWER), {"name": "fast", "backend": "pdns4"}]})
    text = json.dumps([obj for (kind, _), obj in objects(made).items() if kind != "Secret"])
    signatures = [each["secret"] for each in json.loads(data(made, "pools")["tsig.json"])]
    values = (*data(made, "keys").values(), *signatures, SECRET, "of-the-api")
    assert not [value for value in values if value in text]


def test_a_pool_is_removed_only_once_designate_has_forgotten_it(release: Release) -> None:
    further: dict[str, Any] = {"name": "inner"}
    children = live(complete(release, {"pools": [further]}))
    with pytest.raises(SpecError, match="restore it with retired: true"):
        planned(release, {}, children)
    further["retired"] = True
    made = planned(release, {"pools": [further]}, children)
    # Its servers still answer.
    assert ("StatefulSet", "designate-inner-bind9") in objects(made)
    # Nobody asks for this attribute.
    assert pools(made)["inner"]["attributes"] == {"retired": pools(made)["inner"]["id"]}
    children = live(made)
    (job,) = [obj for (kind, name), obj in children.items() if kind == "Job" and name.startswith("designate-retired-")]
    status = job.pop("status")
    with pytest.raises(SpecError, match="pool 'inner' is still in use"):
        planned(release, {}, children)
    job["status"] = status
    made = planned(release, {}, children)
    assert ("StatefulSet", "designate-inner-bind9") not in objects(made)
    assert [*pools(made)] == ["default"]
    planned(release, {}, live(made))


def test_a_retired_pool_that_has_zones_holds_up_nothing_else(release: Release) -> None:
    made = complete(release, {"pools": [{"name": "inner", "retired": True}]})
    (retired,) = [each for each, name in made.condition.items() if name == "RetiredPools"]
    assert not [each for each in made.condition if retired in each.after]
