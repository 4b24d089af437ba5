"""Clusters of IPv6: where programs listen, and URLs with addresses."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.api import allowed_hosts, host_of, is_allowed
from openstack_operator.api.schema import flat_schema
from openstack_operator.cli.offline.rules import evaluator
from openstack_operator.cli.offline.schema import validate
from openstack_operator.cluster_domain import is_ipv6
from openstack_operator.parts.expose.front import front
from openstack_operator.plan import Object, Release, SpecError, UnsupportedError, secret_data, split_port, url_host
from openstack_operator.services.cephstorage.health import questions as ask_ceph
from openstack_operator.services.cephstorage.model import CEPH_STORAGE
from openstack_operator.services.designate.model import DESIGNATE
from openstack_operator.services.designate.service import plan as designate
from openstack_operator.services.etcd.model import ETCD
from openstack_operator.services.etcd.service import plan as etcd
from openstack_operator.services.glance.model import GLANCE
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan as keystone
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.mariadb.roles import questions as ask_members
from openstack_operator.services.mariadb.service import plan as mariadb
from openstack_operator.services.memcached.model import MEMCACHED
from openstack_operator.services.memcached.service import plan as memcached
from openstack_operator.services.neutron.model import NEUTRON
from openstack_operator.services.neutron.service import plan as neutron
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.nova.service import plan as nova
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK
from openstack_operator.services.ovnnetwork.service import plan as ovnnetwork
from openstack_operator.testing import context
from tests.unit.services.test_designate import PUBLISHED as DESIGNATE_CONTRACTS
from tests.unit.services.test_front import CONTRACTS, objects

V6 = "2001:db8::10"
SHARED = {"neutron-credentials": {"metadata": "shared"}}
FAMILIES = pytest.mark.parametrize(("six", "any_host"), [(False, "0.0.0.0"), (True, "[::]")])


def text(found: Any, kind: str, name: str) -> str:
    obj: Object = found[kind, name]
    return "\n".join(secret_data(obj).values()) if kind == "Secret" else str(obj)


@pytest.mark.parametrize(
    ("address", "answer"), [("10.96.0.1", False), ("fd00:10:96::1", True), ("", False), ("kubernetes.default", False)]
)
def test_the_family_is_that_of_the_api_servers_address(address: str, answer: bool) -> None:
    assert is_ipv6({"KUBERNETES_SERVICE_HOST": address}) is answer
    assert is_ipv6({}) is False


@FAMILIES
def test_an_api_without_a_proxy_listens_on_that_family(release: Release, six: bool, any_host: str) -> None:
    found = objects(keystone(context(KEYSTONE, release=release, published=CONTRACTS, is_ipv6=six)))
    assert f"'{any_host}:5000'" in text(found, "Deployment", "keystone-api")


@FAMILIES
def test_etcd_listens_on_the_address_family_of_the_cluster(release: Release, six: bool, any_host: str) -> None:
    spec = {"replicas": 3, "monitoring": {"enabled": True}}
    found = text(objects(etcd(context(ETCD, spec, release=release, is_ipv6=six))), "StatefulSet", "etcd-server")
    for port in (2379, 2380):
        assert f"http://{any_host}:{port}" in found
    assert ("0.0.0.0" in found) != six


@FAMILIES
def test_memcached_listens_on_the_address_families_of_the_cluster(release: Release, six: bool, any_host: str) -> None:
    found = objects(memcached(context(MEMCACHED, release=release, is_ipv6=six)))
    # It keeps the families apart.
    listen = f"{any_host},0.0.0.0" if six else any_host
    assert f"'-l', '{listen}'" in text(found, "StatefulSet", "memcached-server")


@FAMILIES
def test_mariadb_listens_on_the_address_families_of_the_cluster(release: Release, six: bool, any_host: str) -> None:
    found = objects(mariadb(context(MARIADB, release=release, is_ipv6=six)))
    assert ("--bind-address=*" in text(found, "StatefulSet", "mariadb-server")) == six


@FAMILIES
def test_mini_dns_and_bind_listen_on_the_address_family_of_the_cluster(
    release: Release, six: bool, any_host: str
) -> None:
    ctx = context(DESIGNATE, release=release, published=DESIGNATE_CONTRACTS, is_ipv6=six)
    found = objects(designate(ctx))
    texts = "\n".join(text(found, kind, name) for kind, name in found if kind == "Secret")
    assert f"listen = {any_host}:5354" in texts
    assert f"inet {any_host.strip('[]')} port" in texts


def test_consoles_do_too(release: Release) -> None:
    found = objects(nova(context(NOVA, release=release, published=CONTRACTS, secrets=SHARED, is_ipv6=True)))
    assert "novncproxy_host = ::\n" in "".join(text(found, kind, name) for kind, name in found if kind == "Secret")


def test_pods_of_an_api_call_each_other_by_an_address_in_brackets(release: Release) -> None:
    for six, url in ((False, "http://$(POD_IP):9292"), (True, "http://[$(POD_IP)]:9292")):
        ctx = context(GLANCE, release=release, published=CONTRACTS, is_ipv6=six)
        assert front(ctx, "api", 9292, release["glance-api"], self_url_env="SELF").env["SELF"] == url


@FAMILIES
def test_databases_and_relays_of_ovn_do_too(release: Release, six: bool, any_host: str) -> None:
    spec: dict[str, Any] = {"replicas": 3, "relay": {"replicas": 1}}
    found = objects(ovnnetwork(context(OVN_NETWORK, spec, release=release, is_ipv6=six, owner="ovn")))
    for kind, name in (("StatefulSet", "ovn-nb"), ("StatefulSet", "ovn-sb"), ("Deployment", "ovn-relay")):
        [main, *_] = found[kind, name]["spec"]["template"]["spec"]["containers"]
        env = {each["name"]: each.get("value") for each in main["env"]}
        assert env.get("OVN_LISTEN") == (any_host if six else None), "nothing changes in a cluster of IPv4"


def test_an_ovn_of_kolla_listens_on_ipv4_alone_and_is_refused(release: Release) -> None:
    spec = {"imageProfile": "kolla"}
    with pytest.raises(UnsupportedError, match=r"^spec\.imageProfile: kolla's OVN supports only IPv4"):
        ovnnetwork(context(OVN_NETWORK, spec, release=release, is_ipv6=True))


def test_an_ovn_elsewhere_is_not(release: Release) -> None:
    spec = {"external": {"secretRef": {"name": "ovn"}}}
    with pytest.raises(SpecError, match=r"^spec\.external\.secretRef\.name: there is no Secret"):
        ovnnetwork(context(OVN_NETWORK, spec, release=release, is_ipv6=True))


# URLs


def test_an_address_has_brackets_before_a_port() -> None:
    assert [url_host(each) for each in (V6, "::", f"[{V6}]", "a.b", "192.0.2.1")] == [
        f"[{V6}]",
        "[::]",
        f"[{V6}]",
        "a.b",
        "192.0.2.1",
    ]
    assert [split_port(each) for each in (f"[{V6}]:5672", f"[{V6}]", "mq:5672", "mq")] == [
        (V6, "5672"),
        (V6, ""),
        ("mq", "5672"),
        ("mq", ""),
    ]


LOGIN = {"login": {"username": "u", "password": "p", "ca.crt": "x"}}


def test_databases_and_brokers_outside_may_have_addresses(release: Release) -> None:
    spec: dict[str, Any] = {
        "database": {"host": V6, "secretRef": {"name": "login"}},
        "messaging": {"hosts": [f"[{V6}]:5673", f"[{V6}]", "mq"], "secretRef": {"name": "login"}},
    }
    found = objects(neutron(context(NEUTRON, spec, release=release, published=CONTRACTS, secrets=LOGIN)))
    conf = text(found, "Secret", "neutron-config")
    assert f"mysql+pymysql://u:p@[{V6}]:3306/neutron" in conf
    assert f"rabbit://u:p@[{V6}]:5673,u:p@[{V6}]:5671,u:p@mq:5671/" in conf


def test_an_external_memcached_has_a_name(release: Release) -> None:
    spec = {"cache": {"servers": [f"[{V6}]:11211"]}}
    with pytest.raises(UnsupportedError, match=r"spec\.cache\.servers: .*DNS name or an IPv4 address"):
        keystone(context(KEYSTONE, {"cacheResults": spec["cache"], **spec}, release=release, published=CONTRACTS))


def test_pods_are_asked_by_an_address_in_brackets(release: Release) -> None:
    pod: Object = {"metadata": {"name": "mariadb-server-0"}, "status": {"podIP": V6}}
    members = ask_members(context(MARIADB, {"replicas": 3}, release=release, pods=[pod]))
    assert [url.rpartition(":")[0] for url in members.values()] == [f"http://[{V6}]"]
    ceph = ask_ceph(context(CEPH_STORAGE, release=release, pods=[pod]))
    assert [url.rpartition(":")[0] for url in ceph.values()] == [f"http://[{V6}]"]


@pytest.mark.parametrize("entry", [V6, f"[{V6}]", V6.upper()])
def test_a_secret_allows_an_address_however_it_is_written(entry: str) -> None:
    allowed = allowed_hosts({"openstack.k8s.io/allowed-hosts": entry})
    assert is_allowed(host_of(V6), allowed)
    assert is_allowed(host_of(f"https://[{V6}]:443/v3"), allowed)
    assert not is_allowed(host_of("2001:db8::11"), allowed)


@pytest.mark.parametrize("host", [V6, "::1", "192.0.2.10", "cloud.example.org", "cloud", "fd00::1:2"])
def test_a_host_is_a_name_or_an_address(host: str) -> None:
    assert wrong({"expose": {"type": "NodePort", "host": host}}) == []


@pytest.mark.parametrize("host", [f"[{V6}]", "2001:db8::g", "fe80::1%eth0", "a:80", "https://a", "-a", f"[{V6}]:5000"])
def test_another_host_is_refused_in_a_sentence(host: str) -> None:
    [message] = wrong({"expose": {"type": "NodePort", "host": host}})
    assert "neither a DNS name nor an address; write one such as" in message
    assert "2001:db8::10" in message


def wrong(spec: Object) -> list[str]:
    return [problem.message for problem in validate(flat_schema(KEYSTONE.spec), spec, evaluator())]
