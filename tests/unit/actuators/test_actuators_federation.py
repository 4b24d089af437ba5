"""KeystoneIdentityProvider against an identity API in memory."""

from __future__ import annotations

import copy
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from openstack_operator.actuators import ACTUATORS, IDENTITY_PROVIDER
from openstack_operator.plan import Context, SpecError
from tests.unit.actuators.test_actuators_identity import GONE, Identity, without_accents
from tests.unit.fake_http import Answer, Request, context, http_server

ENTRY = next(entry for entry in ACTUATORS if entry.resource is IDENTITY_PROVIDER)
RULES = [{"remote": [{"type": "OIDC-email"}], "local": [{"user": {"name": "{0}"}}]}]
SPEC: dict[str, Any] = {
    "name": "sso",
    "remoteIDs": ["https://sso.example.org"],
    "protocol": "openid",
    "mapping": RULES,
}


class Federation(Identity):
    """Keystone's federation API: things are made under paths of their own, and go with what they belong to."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[tuple[str, ...], dict[str, Any]] = {}
        self.filters = True
        self.has_directories = False
        """Whether it lists users of one domain only, by default that of the login."""

    def authorized(self, request: Request) -> Answer:
        match request.path[1:]:
            case ("OS-FEDERATION", *at):
                return self.federated(request, tuple(at))
            case ("users",) if request.method == "GET" and "idp_id" in request.query:
                idp, users = request.query["idp_id"], list(self.rows["users"].values())
                if self.has_directories:
                    domain = request.query.get("domain_id", "default")
                    users = [row for row in users if row.get("domain_id") == domain]
                return Answer(200, {"users": [row for row in users if row.get("idp") == idp or not self.filters]})
            case ("users", user) if request.method == "GET" and user in self.rows["users"]:
                row = self.rows["users"][user]
                return Answer(200, {"user": {**row, "federated": [{"idp_id": row.get("idp", "")}]}})
            case _:
                return super().authorized(request)

    def same(self, one: tuple[str, ...], other: tuple[str, ...]) -> bool:
        """As the database compares identifiers of the federation API."""
        return [self.collation(part) for part in one] == [self.collation(part) for part in other]

    def federated(self, request: Request, at: tuple[str, ...]) -> Answer:
        kind = {"identity_providers": "identity_provider", "protocols": "protocol", "mappings": "mapping"}[at[-2]]
        if request.method == "PUT":
            values: dict[str, Any] = {"description": None, **request.body[kind]}
            if kind == "mapping" and "local" not in values["rules"][0]:
                return Answer(400, {"error": {"message": "'local' is a required property"}})
            if at in self.held:
                return Answer(409, {"error": {"message": "Conflict"}})
            self.held[at] = {"id": at[-1], **values}
            return Answer(201, {kind: self.held[at]})
        at = next((each for each in self.held if self.same(each, at)), at)
        if at not in self.held:
            return GONE
        if request.method == "GET":
            return Answer(200, {kind: self.held[at]})
        if request.method == "DELETE":
            self.held = {path: row for path, row in self.held.items() if path[: len(at)] != at}
            return Answer(204)
        if "domain_id" in request.body[kind]:
            return Answer(400, {"error": {"message": "domain_id is not allowed"}})
        self.held[at].update(request.body[kind])
        return Answer(200, {kind: self.held[at]})


@pytest.fixture
def remote() -> Federation:
    return Federation()


@pytest.fixture
def url(remote: Federation) -> Generator[str]:
    with http_server(remote) as url:
        yield f"{url}/v3"


def asked(url: str, **spec: Any) -> Context[Any]:
    published = {"internalURL": url, "adminSecret": "admin"}
    return context(ENTRY, {**SPEC, **spec}, published, {"admin": {"username": "admin", "password": "adminpw"}})


PROVIDER, MAPPING = ("identity_providers", "sso"), ("mappings", "sso")
PROTOCOL = (*PROVIDER, "protocols", "openid")


def test_a_provider_is_made_once(remote: Federation, url: str) -> None:
    assert ENTRY.ensure(asked(url)) == [
        "mapping sso created",
        "identity provider sso created",
        "protocol openid of sso created",
    ]
    assert remote.held[PROVIDER]["remote_ids"] == ["https://sso.example.org"]
    assert "domain_id" not in remote.held[PROVIDER]
    assert remote.held[MAPPING]["rules"] == RULES
    assert remote.held[PROTOCOL]["mapping_id"] == "sso"
    remote.asked.clear()
    assert ENTRY.ensure(asked(url)) == []
    assert {method for method, *_ in remote.asked} == {"GET"}


def test_federated_users_belong_to_the_named_domain(remote: Federation, url: str) -> None:
    assert "domain federated created" in ENTRY.ensure(asked(url, domain="federated"))
    assert remote.held[PROVIDER]["domain_id"] == remote.one("domains", name="federated")["id"]
    assert ENTRY.ensure(asked(url, domain="federated")) == []


@pytest.mark.security
def test_a_domain_that_keystone_takes_for_another_is_refused(remote: Federation, url: str) -> None:
    remote.collation = without_accents
    with pytest.raises(SpecError, match=r"spec\.domain: Keystone takes '.*' for the name of a domain"):
        ENTRY.ensure(asked(url, domain="D\xe9fault"))
    assert remote.held == {}


@pytest.mark.security
@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_a_provider_that_keystone_takes_for_another_is_left_alone(remote: Federation, url: str, policy: str) -> None:
    remote.collation = without_accents
    ENTRY.ensure(asked(url))
    # Somebody made it by hand: a resource has lower case alone.
    remote.held = {
        tuple(part.replace("sso", "SSO") for part in at): {**row, "id": row["id"].replace("sso", "SSO")}
        for at, row in remote.held.items()
    }
    before = copy.deepcopy(remote.held)
    thief = asked(url, remoteIDs=["https://evil.example.org"], deletionPolicy=policy)
    for work in (ENTRY.ensure, ENTRY.remove):
        with pytest.raises(SpecError, match="Keystone takes 'sso' for the name of a"):
            work(thief)
    assert remote.held == before


@pytest.mark.security
@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_the_provider_of_another_resource_is_kept_when_this_one_goes(remote: Federation, url: str, policy: str) -> None:
    ENTRY.ensure(asked(url))
    remote.add("users", name="ada", idp="sso")
    before = copy.deepcopy((remote.held, remote.rows))
    thief = asked(url, remoteIDs=["https://evil.example.org"], deletionPolicy=policy)
    ENTRY.remove(replace(thief, conflicting_fields=frozenset({"spec.name"})))
    assert (remote.held, remote.rows) == before


def test_drift_of_federation_is_repaired(remote: Federation, url: str) -> None:
    ENTRY.ensure(asked(url))
    remote.held[PROVIDER].update(enabled=False, remote_ids=["https://evil.example.org"])
    remote.held[MAPPING]["rules"] = [{"remote": [], "local": [{"user": {"name": "admin"}}]}]
    remote.held[PROTOCOL]["mapping_id"] = "another"
    assert ENTRY.ensure(asked(url)) == [
        "mapping sso repaired: rules",
        "identity provider sso repaired: enabled, remote_ids",
        "protocol openid of sso repaired: mapping_id",
    ]
    assert remote.held[PROVIDER]["enabled"]
    assert remote.held[MAPPING]["rules"] == RULES


def test_a_mapping_that_keystone_refuses_names_the_field_and_the_reason(remote: Federation, url: str) -> None:
    with pytest.raises(SpecError, match=r"spec\.mapping: .* HTTP 400: it does not accept a value"):
        ENTRY.ensure(asked(url, mapping=[{"remote": []}]))


def test_a_removed_provider_is_disabled_and_returns_with_its_users(remote: Federation, url: str) -> None:
    ENTRY.ensure(asked(url))
    user = remote.add("users", name="ada", idp="sso")
    ENTRY.remove(asked(url))
    assert not remote.held[PROVIDER]["enabled"]
    assert user["id"] in remote.rows["users"]
    assert ENTRY.ensure(asked(url)) == ["identity provider sso repaired: enabled"]


def test_a_deleted_provider_goes_with_its_own_users_only(remote: Federation, url: str) -> None:
    ENTRY.ensure(asked(url))
    own, other = remote.add("users", name="ada", idp="sso"), remote.add("users", name="bob", idp="another")
    ENTRY.remove(asked(url, deletionPolicy="Delete"))
    assert remote.held == {}
    assert own["id"] not in remote.rows["users"]
    assert other["id"] in remote.rows["users"]
    ENTRY.remove(asked(url, deletionPolicy="Delete"))
    ENTRY.remove(asked(url))


def test_users_are_deleted_where_domains_have_directories(remote: Federation, url: str) -> None:
    remote.has_directories = True
    ENTRY.ensure(asked(url, domain="people"))
    [domain] = [row["id"] for row in remote.rows["domains"].values() if row["name"] == "people"]
    user = remote.add("users", name="ada", idp="sso", domain_id=domain)
    ENTRY.remove(asked(url, domain="people", deletionPolicy="Delete"))
    assert user["id"] not in remote.rows["users"]


def test_a_keystone_that_lists_everybody_loses_nobody(remote: Federation, url: str) -> None:
    """One whose driver knows no such filter would answer so."""
    remote.filters = False
    ENTRY.ensure(asked(url))
    own = remote.add("users", name="ada", idp="sso")
    everybody = set(remote.rows["users"])
    ENTRY.remove(asked(url, deletionPolicy="Delete"))
    assert everybody - set(remote.rows["users"]) == {own["id"]}
