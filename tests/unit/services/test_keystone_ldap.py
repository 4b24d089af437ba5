"""Domains of a Keystone whose users are in directories."""

from __future__ import annotations

from configparser import ConfigParser
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.api import ALLOWED_HOSTS, destinations
from openstack_operator.plan import Object, Plan, Release, SpecError
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan
from tests.planning import objects, planner
from tests.unit.runtime.test_permits import refusals, secret

CONTRACTS = {"MariaDB": {"host": "mariadb", "port": "3306"}, "Memcached": {"servers": "m:11211"}}
SECRETS = {"reader": {"password": "p$ss"}, "ca": {"ca.crt": "authority\n"}, "other-ca": {"ca.crt": "another"}}
LDAP: dict[str, Any] = {"url": "ldaps://ldap.example.org", "userTreeDN": "ou=people,dc=example,dc=org"}
LOGIN: dict[str, Any] = {"bindDN": "cn=a,dc=b", "bindPasswordSecretRef": {"name": "reader"}}

planned = planner(plan, KEYSTONE, published=CONTRACTS, secrets=SECRETS)


def domain(name: str = "Company", config: Any = None, **ldap: Any) -> dict[str, Any]:
    return {"name": name, "ldap": {**LDAP, **ldap}, "config": config or {}}


def domains(release: Release, *entries: dict[str, Any], **changes: Any) -> Plan:
    return planned(release, {"domains": list(entries)}, **changes)


def files(made: Plan) -> dict[str, str]:
    return kube.secret_data(objects(made)["Secret", "keystone-domains"])


def options(made: Plan, name: str = "Company") -> ConfigParser:
    conf = ConfigParser(interpolation=None)
    conf.read_string(files(made)[f"keystone.{name}.conf"])
    return conf


def api(made: Plan) -> Object:
    pod: Object = objects(made)["Deployment", "keystone-api"]["spec"]["template"]["spec"]
    return pod


def env(made: Plan) -> dict[str, str]:
    [main] = [each for each in api(made)["containers"] if each["name"] == "main"]
    return {each["name"]: each.get("value", "") for each in main["env"]}


def test_each_domain_has_a_file_that_the_api_alone_mounts(release: Release) -> None:
    made = domains(release, domain(**LOGIN), domain("b.example"))
    assert {"keystone.Company.conf", "keystone.b.example.conf"} < files(made).keys()
    mounting = {
        obj["metadata"]["name"].partition("-domains")[0]
        for obj in made.objects
        if "template" in obj.get("spec", {})
        for volume in obj["spec"]["template"]["spec"].get("volumes", ())
        if (volume.get("secret") or {}).get("secretName") == "keystone-domains"
    }
    assert mounting == {"keystone-api"}
    paths = [mount["mountPath"] for each in api(made)["containers"] for mount in each["volumeMounts"]]
    assert paths.count("/etc/keystone/domains/keystone.Company.conf") == 1


def test_keystone_reads_these_files(release: Release) -> None:
    conf = ConfigParser(interpolation=None)
    text = kube.secret_data(objects(domains(release, domain()))["Secret", "keystone-config"])["keystone.conf"]
    conf.read_string(text)
    assert conf["identity"]["domain_specific_drivers_enabled"] == "true"
    assert conf["identity"]["domain_config_dir"] == "/etc/keystone/domains"


def test_a_keystone_without_such_domains_is_as_before(release: Release) -> None:
    made = planned(release)
    assert not [name for kind, name in objects(made) if kind in ("Secret", "Job") and "domains" in name]
    assert "LDAPTIMEOUT" not in env(made)


def test_domains_are_made_before_the_api_reads_their_files(release: Release) -> None:
    """Keystone ignores the file of a domain that it does not know when it starts."""
    made = domains(release, domain(), domain("b.example"))
    steps = {step.name: step for step in made}
    assert steps["Domains"] in steps["API"].after
    assert steps["Bootstrap"] in steps["Domains"].after
    [job] = steps["Domains"].objects
    assert job["spec"]["template"]["spec"]["containers"][0]["command"][-2:] == ["Company", "b.example"]


def test_nothing_is_sent_before_tls(release: Release) -> None:
    for url, starts_tls in (("ldaps://a.example.org", "false"), ("ldap://a.example.org:3389", "true")):
        ldap = options(domains(release, domain(url=url)))["ldap"]
        assert (ldap["url"], ldap["use_tls"], ldap["tls_req_cert"]) == (url, starts_tls, "demand")


def test_authorities_of_all_directories_are_in_one_file(release: Release) -> None:
    """libldap has one for all connections of a process."""
    by = {name: {"name": name} for name in ("ca", "other-ca")}
    ours = domain(caSecretRef=by["ca"]), domain("c", caSecretRef=by["ca"])
    made = domains(release, ours[0], domain("b", caSecretRef=by["other-ca"]), ours[1])
    assert files(made)["ldap-ca.crt"] == "authority\nanother\n"
    assert {options(made, each)["ldap"]["tls_cacertfile"] for each in ("Company", "b", "c")} == {
        "/etc/keystone/domains/ldap-ca.crt"
    }
    made = domains(release, domain())
    assert options(made)["ldap"]["tls_cacertfile"] == "/etc/ssl/certs/ca-certificates.crt"


@pytest.mark.security
def test_the_password_is_in_a_secret_alone(release: Release) -> None:
    made = domains(release, domain(**LOGIN))
    assert options(made)["ldap"]["password"] == "p$$ss"
    readable = {obj["metadata"]["name"]: f"{obj} {kube.secret_data(obj)}" for obj in made.objects}
    assert [name for name, text in readable.items() if "p$$ss" in text or "p$ss" in text] == ["keystone-domains"]
    assert "p$ss" not in str(made.outcome.published)


def test_pods_follow_a_password_that_changed(release: Release) -> None:
    changed = {**SECRETS, "reader": {"password": "new"}}
    before, after = (domains(release, domain(**LOGIN), secrets=secrets) for secrets in (SECRETS, changed))
    assert env(before)["DOMAINS_DIGEST"] != env(after)["DOMAINS_DIGEST"]


def test_options_of_a_domain_win_over_those_the_operator_would_take(release: Release) -> None:
    config = {"ldap": {"query_scope": "sub", "connection_timeout": 9}, "identity": {"list_limit": 7}}
    conf = options(domains(release, domain(config=config)))
    assert (conf["ldap"]["query_scope"], conf["ldap"]["connection_timeout"]) == ("sub", "9")
    assert (conf["identity"]["list_limit"], conf["identity"]["driver"]) == ("7", "ldap")


@pytest.mark.parametrize(
    ("entries", "path", "words"),
    [
        ([domain("default")], "spec.domains[0].name", "choose another name"),
        ([domain("a"), domain("A")], "spec.domains[1].name", "entry 0"),
        ([domain(bindDN="cn=a")], "spec.domains[0].ldap.bindPasswordSecretRef", "bindDN"),
        ([domain(caSecretRef={"name": "reader"})], "spec.domains[0].ldap.caSecretRef", "'ca.crt'"),
        ([domain("a"), domain("b", caSecretRef={"name": "ca"})], "spec.domains[0].ldap.caSecretRef", "set it here"),
        ([domain(config={"DEFAULT": {"debug": True}})], "spec.domains[0].config.DEFAULT", "spec.config"),
        ([domain(config={"ldap": {"url": "ldap://a"}})], "spec.domains[0].config.ldap.url", "operator sets"),
        ([domain(config={"ldap": {"password": "a"}})], "spec.domains[0].config.ldap.password", "operator sets"),
        ([domain(config={"LDAP": {"url": "a"}})], "spec.domains[0].config.LDAP", "ldap and identity"),
        ([domain(config={"ldap": {"tls-req-cert": "never"}})], "spec.domains[0].config.ldap.tls-req-cert", "operator"),
    ],
)
def test_an_invalid_domain_is_refused_with_field_and_remedy(
    release: Release, entries: list[dict[str, Any]], path: str, words: str
) -> None:
    with pytest.raises(SpecError) as refusal:
        domains(release, *entries)
    assert refusal.value.path == path
    assert words in str(refusal.value)


@pytest.mark.security
@pytest.mark.parametrize("name", ["a/b", "../a", "a..b", ".a", "a b", "", "a" * 65, "a\n"])
def test_a_name_that_is_no_file_is_refused(release: Release, name: str) -> None:
    with pytest.raises(ValueError, match="domains"):
        domains(release, domain(name))


@pytest.mark.security
@pytest.mark.parametrize("url", ["http://a", "ldap://a,ldaps://b", "ldapi:///run", "ldaps://u@a", "ldaps://a/dc=b", ""])
def test_an_address_that_is_no_directory_is_refused(release: Release, url: str) -> None:
    with pytest.raises(ValueError, match="url"):
        domains(release, domain(url=url))


@pytest.mark.security
def test_the_password_goes_to_servers_that_its_secret_allows() -> None:
    spec = KEYSTONE.spec.model_validate({"domains": [domain(url="ldaps://a.example.org,ldaps://evil.org", **LOGIN)]})
    [found] = destinations(spec)
    assert found.field == "spec.domains[0].ldap.bindPasswordSecretRef"
    (text,) = refusals(spec, {"reader": secret("reader", {"password": "x"}, "*.example.org")})
    assert "evil.org" in text
    assert ALLOWED_HOSTS in text
    assert not list(refusals(spec, {"reader": secret("reader", {"password": "x"}, "*.example.org,evil.org")}))
