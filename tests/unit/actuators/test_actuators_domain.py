"""KeystoneDomain against an identity API in memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from openstack_operator.actuators import ACTUATORS, DOMAIN
from openstack_operator.actuators.domain import MARK
from openstack_operator.plan import Context, MissingReference, SpecError
from tests.unit.actuators.test_actuators_identity import Identity, without_accents
from tests.unit.fake_http import Answer, Request, context, http_server

ENTRY = next(entry for entry in ACTUATORS if entry.resource is DOMAIN)
PASSWORD = "dr4wn"
ROLES = ["heat_stack_owner", "heat_stack_user"]


class Domains(Identity):
    """As Keystone is with domains: users of a disabled one cannot log in, and only such a one may be deleted."""

    def token(self, auth: Any) -> Answer:
        called = auth["identity"]["password"]["user"]["domain"]["name"]
        disabled = any(not row["enabled"] for row in self.all("domains", name=called))
        return Answer(401, {"error": {"message": "no"}}) if disabled else super().token(auth)

    def authorized(self, request: Request) -> Answer:
        match request.method, request.path[1:]:
            case "DELETE", ("domains", row) if self.rows["domains"][row]["enabled"]:
                return Answer(403, {"error": {"message": "Cannot delete a domain that is enabled"}})
            case "DELETE", ("domains", row):
                for collection in ("users", "projects"):
                    for each in self.all(collection, domain_id=row):
                        self.delete(collection, each["id"])
            case _:
                pass
        return super().authorized(request)

    def administers(self, user: str = "heat_domain_admin") -> set[str]:
        """Names of the roles of that user on the domain."""
        domain = self.one("domains", name="heat")["id"]
        row = self.one("users", name=user, domain_id=domain)
        return {
            self.rows["roles"][role]["name"]
            for who, where, role in self.assigned
            if (who, where) == (row["id"], domain)
        }


@pytest.fixture
def keystone() -> Domains:
    return Domains()


@pytest.fixture
def url(keystone: Domains) -> Generator[str]:
    with http_server(keystone) as address:
        yield f"{address}/v3"


def wanted(url: str, password: str = PASSWORD, **spec: Any) -> Context[Any]:
    usual = {
        "domain": "heat",
        "description": "Stacks",
        "administrator": "heat_domain_admin",
        "passwordSecretRef": {"name": "p", "key": "k"},
        "roles": ROLES,
    }
    return context(
        ENTRY,
        usual | spec,
        {"internalURL": url, "adminSecret": "a"},
        {"a": {"username": "admin", "password": "adminpw"}, "p": {"k": password}},
    )


def is_right(keystone: Domains, password: str = PASSWORD) -> bool:
    domain = keystone.one("domains", name="heat")
    user = keystone.one("users", name="heat_domain_admin", domain_id=domain["id"])
    return (
        (domain["enabled"], domain["description"]) == (True, f"Stacks ({MARK})")
        and (user["enabled"], user["password"]) == (True, password)
        and keystone.administers() == {"admin"}
        and all(keystone.all("roles", name=role) for role in ROLES)
    )


def test_a_domain_is_made_with_its_administrator_and_roles_once(keystone: Domains, url: str) -> None:
    assert ENTRY.ensure(wanted(url)) == [
        "domain heat created",
        "role heat_stack_owner created",
        "role heat_stack_user created",
        "user heat_domain_admin created",
        "roles of heat_domain_admin repaired: admin",
    ]
    assert is_right(keystone)
    keystone.asked.clear()
    assert ENTRY.ensure(wanted(url)) == []
    assert {asked[0] for asked in keystone.asked} == {"GET", "POST"}
    assert [asked for asked in keystone.asked if asked[0] == "POST"] == [("POST", "auth", "tokens")]


def in_domain(keystone: Domains, name: str = "heat_domain_admin") -> dict[str, Any]:
    return keystone.one("users", name=name, domain_id=keystone.one("domains", name="heat")["id"])


def assign(keystone: Domains, role: str) -> None:
    domain = keystone.one("domains", name="heat")["id"]
    keystone.assigned.add((in_domain(keystone)["id"], domain, keystone.one("roles", name=role)["id"]))


DRIFTS: dict[str, Callable[[Domains], object]] = {
    "domain disabled": lambda k: k.one("domains", name="heat").update(enabled=False),
    "other text before the mark": lambda k: k.one("domains", name="heat").update(description=f"x ({MARK})"),
    "administrator gone": lambda k: k.delete("users", in_domain(k)["id"]),
    "administrator disabled": lambda k: in_domain(k).update(enabled=False),
    "password": lambda k: in_domain(k).update(password="another"),
    "role of the administrator gone": lambda k: k.assigned.clear(),
    "a role more": lambda k: assign(k, "member"),
    "a role of stacks gone": lambda k: k.delete("roles", k.one("roles", name="heat_stack_user")["id"]),
    "domain gone": lambda k: (k.delete("users", in_domain(k)["id"]), k.rows["domains"].clear()),
}


@pytest.mark.parametrize("drift", DRIFTS)
def test_drift_is_repaired(keystone: Domains, url: str, drift: str) -> None:
    ENTRY.ensure(wanted(url))
    admin = keystone.one("domains", name="Default")
    DRIFTS[drift](keystone)
    keystone.rows["domains"][admin["id"]] = admin
    assert ENTRY.ensure(wanted(url))
    assert is_right(keystone)
    assert ENTRY.ensure(wanted(url)) == []


def test_a_new_password_in_the_secret_reaches_keystone(keystone: Domains, url: str) -> None:
    ENTRY.ensure(wanted(url))
    assert ENTRY.ensure(wanted(url, "new")) == ["user heat_domain_admin repaired: password"]
    assert is_right(keystone, "new")


def test_two_administrators_share_a_domain_while_one_replaces_the_other(keystone: Domains, url: str) -> None:
    ENTRY.ensure(wanted(url))
    second = wanted(url, "second", administrator="heat_domain_admin_B")
    assert ENTRY.ensure(second) == [
        "user heat_domain_admin_B created",
        "roles of heat_domain_admin_B repaired: admin",
    ]
    ENTRY.remove(wanted(url))
    assert keystone.administers("heat_domain_admin_B") == {"admin"}
    assert keystone.all("users", name="heat_domain_admin") == []


def test_the_domain_stays_unless_the_spec_deletes_it(keystone: Domains, url: str) -> None:
    ENTRY.ensure(wanted(url))
    domain = keystone.one("domains", name="heat")
    keystone.add("users", name="of a stack", domain_id=domain["id"])
    ENTRY.remove(wanted(url))
    assert keystone.all("users", name="heat_domain_admin") == []
    assert keystone.one("users", name="of a stack")
    ENTRY.ensure(wanted(url))
    assert is_right(keystone)
    for _ in range(2):
        ENTRY.remove(wanted(url, deletionPolicy="Delete"))
        assert keystone.all("domains", name="heat") == []
        assert keystone.all("users", name="of a stack") == []
    assert keystone.one("roles", name="heat_stack_owner")


@pytest.mark.security
@pytest.mark.parametrize("policy", ["Retain", "Delete"])
@pytest.mark.parametrize("description", ["Customers", "", None])
def test_a_domain_of_others_is_left_alone(keystone: Domains, url: str, policy: str, description: str | None) -> None:
    theirs = keystone.add("domains", name="heat", description=description)
    keystone.add("users", name="heat_domain_admin", domain_id=theirs["id"], password="theirs")
    before = copy.deepcopy(keystone.rows), set(keystone.assigned)
    with pytest.raises(
        SpecError, match=r"spec\.domain: domain 'heat' is not managed by this operator: .* choose another name"
    ):
        ENTRY.ensure(wanted(url))
    ENTRY.remove(wanted(url, deletionPolicy=policy))
    assert (keystone.rows, keystone.assigned) == before


@pytest.mark.security
@pytest.mark.parametrize("name", ["DEFAULT", "d\xe9fault", "Default"])
def test_the_domain_of_services_is_no_domain_of_a_resource(keystone: Domains, url: str, name: str) -> None:
    keystone.collation = without_accents
    keystone.rows["domains"]["default"]["description"] = ""
    before = dict(keystone.rows["domains"]["default"])
    if name != "Default":
        with pytest.raises(SpecError, match=r"spec\.domain: Keystone takes"):
            ENTRY.ensure(wanted(url, domain=name))
    ENTRY.remove(wanted(url, domain=name, deletionPolicy="Delete"))
    assert keystone.rows["domains"]["default"] == before


@pytest.mark.security
def test_an_administrator_of_another_resource_is_kept_when_this_one_goes(keystone: Domains, url: str) -> None:
    ENTRY.ensure(wanted(url))
    ENTRY.remove(replace(wanted(url), conflicting_fields=frozenset({"spec.administrator"})))
    assert is_right(keystone)


@pytest.mark.security
@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_a_domain_of_another_resource_stays_whole_when_this_one_goes(keystone: Domains, url: str, policy: str) -> None:
    ENTRY.ensure(wanted(url))
    domain = keystone.one("domains", name="heat")["id"]
    keystone.add("users", name="of a stack", domain_id=domain)
    keystone.add("users", name="thief", domain_id=domain, password="thief")
    before = copy.deepcopy(keystone.rows)
    thief = wanted(url, administrator="thief", deletionPolicy=policy)
    ENTRY.remove(replace(thief, conflicting_fields=frozenset({"spec.domain"})))
    assert keystone.rows == before


@pytest.mark.security
@pytest.mark.parametrize("name", ["heat", "Heat", "he\xe1t"])
def test_a_domain_is_claimed_under_its_normalized_name(name: str) -> None:
    assert ENTRY.claims
    mine, others = (ENTRY.claims({"domain": each, "administrator": each + "_admin"})[0] for each in ("heat", name))
    assert (others.field, others.subject) == ("spec.domain", f"domain {name!r}")
    assert mine.key == others.key


def test_administrator_of_a_domain_is_claimed_like_a_keystone_user() -> None:
    assert ENTRY.claims
    _, claim = ENTRY.claims({"domain": "Heat", "administrator": "Admin "})
    user = next(entry for entry in ACTUATORS if entry.resource.kind == "KeystoneUser")
    assert user.claims
    (same,) = user.claims({"domain": "heat", "user": "admin"})
    assert (claim.field, claim.key) == ("spec.administrator", same.key)


def test_bad_input_names_its_field(keystone: Domains, url: str) -> None:
    with pytest.raises(MissingReference, match=r"there is no Secret 'other'"):
        ENTRY.ensure(wanted(url, passwordSecretRef={"name": "other", "key": "k"}))
    with pytest.raises(SpecError, match="is empty or has more than one line"):
        ENTRY.ensure(wanted(url, ""))
    with pytest.raises(ValidationError, match="domain"):
        wanted(url, domain="")
    assert keystone.all("domains", name="heat") == []
