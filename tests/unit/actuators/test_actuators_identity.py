"""KeystoneUser and KeystoneService against an identity API in memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from threading import Lock
from typing import Any
from unicodedata import combining, normalize

import pytest

from openstack_operator.actuators import ACTUATORS
from openstack_operator.plan import Context, Drifted, SpecError, Transient
from tests.unit.fake_http import Answer, Request, context, http_server

USER, SERVICE, CREDENTIAL = *ACTUATORS[2:4], ACTUATORS[-1]
PASSWORD = "s3'c r&et%"
GONE = Answer(404, {"error": {"message": "Could not find it"}})
UNIQUE = {
    "domains": ("name",),
    "roles": ("name",),
    "projects": ("name", "domain_id"),
    "users": ("name", "domain_id"),
    "regions": ("id",),
}


class Identity:
    """What Keystone keeps, and how it answers."""

    def __init__(self) -> None:
        self.ids = (f"{number:032x}" for number in count(1))
        self.rows: dict[str, dict[str, Any]] = {
            name: {}
            for name in (
                "domains",
                "projects",
                "users",
                "roles",
                "services",
                "endpoints",
                "regions",
                "application_credentials",
                "access_rules",
            )
        }
        self.assigned: set[tuple[str, str, str]] = set()
        self.tokens: dict[str, str] = {}
        """Id of the user by token."""
        self.lock = Lock()
        self.asked: list[tuple[str, ...]] = []
        self.fault: Answer | None = None
        self.collation: Callable[[str], str] = str
        self.add("domains", id="default", name="Default")
        self.add("regions", id="RegionOne")
        for name in ("admin", "member", "service"):
            self.add("roles", name=name)
        admin = self.add("users", name="admin", domain_id="default", password="adminpw")
        project = self.add("projects", name="admin", domain_id="default")
        self.assigned.add((admin["id"], project["id"], self.one("roles", name="admin")["id"]))

    def add(self, collection: str, **values: Any) -> dict[str, Any]:
        row: dict[str, Any] = {"id": next(self.ids), "enabled": True, **values}
        self.rows[collection][row["id"]] = row
        return row

    def all(self, collection: str, **filters: Any) -> list[dict[str, Any]]:
        rows = self.rows[collection].values()
        return [row for row in rows if all(self.equal(name, row.get(name), value) for name, value in filters.items())]

    def equal(self, field: str, one: Any, other: Any) -> bool:
        """As MariaDB compares: names by a collation, identifiers byte by byte."""
        fold = self.collation if field == "name" else str
        return one == other or fold(str(one)) == fold(str(other))

    def one(self, collection: str, **filters: Any) -> dict[str, Any]:
        (row,) = self.all(collection, **filters)
        return row

    def roles(self, user: str, project: str = "service") -> set[str]:
        who, where = self.one("users", name=user)["id"], self.one("projects", name=project)["id"]
        return {self.rows["roles"][role]["name"] for u, p, role in self.assigned if (u, p) == (who, where)}

    def answer(self, request: Request) -> Answer:
        if request.path[0] != "v3":
            return Answer(404)
        with self.lock:
            self.asked.append((request.method, *request.path[1:]))
            if request.path == ("v3", "auth", "tokens"):
                auth = request.body["auth"]
                return self.by_credential(auth) if "application_credential" in auth["identity"] else self.token(auth)
            if request.headers.get("X-Auth-Token") not in self.tokens:
                return Answer(401, {"error": {"message": "The request you have made requires authentication."}})
            if self.fault and request.method != "GET":
                return self.fault
            return self.authorized(request)

    def token(self, auth: Any) -> Answer:
        claim = auth["identity"]["password"]["user"]
        domains = self.all("domains", name=claim["domain"]["name"])
        domain = domains[0]["id"] if domains else None
        users = self.all("users", name=claim["name"], domain_id=domain, password=claim["password"], enabled=True)
        token: dict[str, Any] = {}
        if users and domains:
            token = {"user": {"id": users[0]["id"], "name": users[0]["name"], "domain": {"name": domains[0]["name"]}}}
        if users and auth["scope"] != "unscoped":
            scope = auth["scope"]["project"]
            projects = self.all("projects", name=scope["name"], domain_id=domain, enabled=True)
            given = [a for a in self.assigned if projects and a[:2] == (users[0]["id"], projects[0]["id"])]
            token = {**token, "project": {name: projects[0][name] for name in ("id", "name")}} if given else {}
        if not token:
            return Answer(401, {"error": {"message": "The request you have made requires authentication."}})
        subject = next(self.ids)
        self.tokens[subject] = users[0]["id"]
        return Answer(201, {"token": token}, {"X-Subject-Token": subject})

    def by_credential(self, auth: Any) -> Answer:
        claim = auth["identity"]["application_credential"]
        domains = self.all("domains", name=claim["user"]["domain"]["name"])
        users = self.all("users", name=claim["user"]["name"], domain_id=domains[0]["id"]) if domains else []
        user = users[0]["id"] if users else ""
        known = self.all("application_credentials", user=user, name=claim["name"], secret=claim["secret"])
        if not known:
            return Answer(401)
        # Without rules, Keystone leaves the field out.
        rules = {"access_rules": known[0]["access_rules"]} if known[0]["access_rules"] else {}
        token = {"user": {"id": user}, "application_credential": {"name": claim["name"], **rules}}
        return Answer(201, {"token": token}, {"X-Subject-Token": "x"})

    def credentials(self, request: Request, user: str, row: str = "") -> Answer:
        mine = self.all("application_credentials", user=user, name=request.query.get("name", "")) if not row else []
        match request.method:
            case "GET":
                shown = [{name: each.get(name) for name in ("id", "name", "description")} for each in mine]
                return Answer(200, {"application_credentials": shown})
            case "POST":
                if self.tokens[request.headers["X-Auth-Token"]] != user:
                    return Answer(403, {"error": {"message": "Cannot create one for another user."}})
                values = request.body["application_credential"]
                if self.all("application_credentials", user=user, name=values["name"]):
                    return Answer(409, {"error": {"message": "Duplicate entry"}})
                rules = [self.rule(user, rule) for rule in values.get("access_rules", [])]
                self.add("application_credentials", user=user, **{**values, "access_rules": rules})
                return Answer(201, {})
            case _:
                del self.rows["application_credentials"][row]
                return Answer(204)

    def rule(self, user: str, rule: dict[str, str]) -> dict[str, Any]:
        """The user's rule: one that the database takes for the same stays as it is, also when no credential has it."""
        for row in self.all("access_rules", user=user, service=rule["service"], method=rule["method"]):
            if row["path"].lower() == rule["path"].lower():
                return row
        return self.add("access_rules", user=user, **rule)

    def authorized(self, request: Request) -> Answer:
        match request.path[1:]:
            case ("users", user, "application_credentials", *row):
                return self.credentials(request, user, *row)
            case ("role_assignments",):
                return self.assignments(request)
            case (collection,) if request.method == "GET":
                return Answer(200, {collection: self.all(collection, **request.query)})
            case (collection,):
                return self.create(collection, request.body[collection[:-1]])
            case (("projects" | "domains") as scope, target, "users", user, "roles", role):
                known = target in self.rows[scope] and user in self.rows["users"] and role in self.rows["roles"]
                if known:
                    change = self.assigned.add if request.method == "PUT" else self.assigned.discard
                    change((user, target, role))
                return Answer(204) if known else GONE
            case (collection, row) if row in self.rows[collection]:
                if request.method == "DELETE":
                    self.delete(collection, row)
                    return Answer(204)
                self.rows[collection][row].update(request.body[collection[:-1]])
                return Answer(200, {})
            case _:
                return GONE

    def assignments(self, request: Request) -> Answer:
        targets = [value for name, value in request.query.items() if name.startswith("scope.")]
        scope = (request.query["user.id"], *targets)
        roles = [{"role": self.rows["roles"][role]} for *at, role in sorted(self.assigned) if tuple(at) == scope]
        return Answer(200, {"role_assignments": roles})

    def create(self, collection: str, values: dict[str, Any]) -> Answer:
        keys = UNIQUE.get(collection, ())
        if keys and self.all(collection, **{key: values[key] for key in keys}):
            return Answer(409, {"error": {"message": "Conflict occurred attempting to store it"}})
        if collection == "endpoints" and values["region_id"] not in self.rows["regions"]:
            return Answer(400, {"error": {"message": "Region not found"}})
        return Answer(201, {collection[:-1]: self.add(collection, **values)})

    def delete(self, collection: str, row: str) -> None:
        del self.rows[collection][row]
        self.assigned = {entry for entry in self.assigned if row not in entry}
        for endpoint in self.all("endpoints", service_id=row):
            del self.rows["endpoints"][endpoint["id"]]


@pytest.fixture
def keystone() -> Identity:
    return Identity()


@pytest.fixture
def url(keystone: Identity) -> Generator[str]:
    with http_server(keystone) as address:
        yield f"{address}/v3"


def wanted_user(url: str, *, admin: str = "adminpw", **spec: Any) -> Context[Any]:
    return context(
        USER,
        {"user": "glance", "passwordSecretRef": {"name": "p", "key": "k"}} | spec,
        {"internalURL": url, "adminSecret": "a"},
        {"a": {"username": "admin", "password": admin}, "p": {"k": PASSWORD}},
    )


def wanted_service(url: str, **spec: Any) -> Context[Any]:
    endpoints = {"public": "http://public:9292", "internal": "http://internal:9292"}
    return context(
        SERVICE,
        {"type": "image", "name": "glance", "description": "Images", "endpoints": endpoints} | spec,
        {"internalURL": url, "adminSecret": "a"},
        {"a": {"username": "admin", "password": "adminpw"}},
    )


def can_work(keystone: Identity, password: str = PASSWORD) -> bool:
    user, project = keystone.one("users", name="glance"), keystone.one("projects", name="service")
    return (
        user["password"] == password
        and user["enabled"]
        and project["enabled"]
        and keystone.roles("glance") == {"admin", "service"}
    )


def test_a_user_is_made_with_project_and_roles_once(keystone: Identity, url: str) -> None:
    assert USER.ensure(wanted_user(url)) == [
        "project service created",
        "user glance created",
        "roles of glance repaired: admin, service",
    ]
    assert can_work(keystone)
    keystone.asked.clear()
    assert USER.ensure(wanted_user(url)) == []
    assert keystone.asked == [("POST", "auth", "tokens"), ("GET", "role_assignments")]


USER_DRIFTS: dict[str, Callable[[Identity], object]] = {
    "user gone": lambda k: k.delete("users", k.one("users", name="glance")["id"]),
    "project gone": lambda k: k.delete("projects", k.one("projects", name="service")["id"]),
    "password": lambda k: k.one("users", name="glance").update(password="other"),
    "disabled": lambda k: k.one("users", name="glance").update(enabled=False),
    "disabled with another password": lambda k: k.one("users", name="glance").update(enabled=False, password="x"),
    "project disabled": lambda k: k.one("projects", name="service").update(enabled=False),
    "a role less": lambda k: k.assigned.remove(
        next(a for a in k.assigned if a[2] == k.one("roles", name="service")["id"])
    ),
    "a role more": lambda k: k.assigned.add(
        (
            k.one("users", name="glance")["id"],
            k.one("projects", name="service")["id"],
            k.one("roles", name="member")["id"],
        )
    ),
}


@pytest.mark.parametrize("drift", USER_DRIFTS)
def test_drift_of_a_user_is_repaired(keystone: Identity, url: str, drift: str) -> None:
    USER.ensure(wanted_user(url))
    USER_DRIFTS[drift](keystone)
    assert USER.ensure(wanted_user(url))
    assert can_work(keystone)
    assert USER.ensure(wanted_user(url)) == []


def test_a_new_password_in_the_secret_reaches_keystone(keystone: Identity, url: str) -> None:
    USER.ensure(wanted_user(url))
    ctx = wanted_user(url)
    assert USER.ensure(replace(ctx, secrets={**ctx.secrets, "p": {"k": "new"}})) == ["user glance repaired: password"]
    assert can_work(keystone, "new")


def by_korc(keystone: Identity, password: str = PASSWORD) -> dict[str, Any]:
    """What K-ORC has made."""
    return keystone.add("users", name="glance", domain_id="default", password=password)


def test_roles_of_a_k_orc_user_are_repaired_once_the_user_exists(keystone: Identity, url: str) -> None:
    wanted = wanted_user(url, provider="k-orc")
    with pytest.raises(Drifted, match="user glance is not in Keystone, where K-ORC is to keep it"):
        USER.ensure(wanted)
    assert not keystone.all("users", name="glance")
    user = by_korc(keystone)
    assert USER.ensure(wanted) == ["roles of glance repaired: admin, service"]
    assert can_work(keystone)
    assert USER.ensure(wanted) == []
    # Whether it is enabled is K-ORC's.
    user["enabled"] = False
    with pytest.raises(Drifted, match="user glance is disabled"):
        USER.ensure(wanted)
    assert not user["enabled"]
    user["enabled"] = True
    USER.remove(wanted)
    assert not keystone.all("users", name="glance")


def test_a_user_that_k_orc_adopted_gets_the_password_of_its_secret(keystone: Identity, url: str) -> None:
    """K-ORC calls the first Secret it is given applied, without looking whether it is so."""
    by_korc(keystone, "one of another cloud")
    changes = USER.ensure(wanted_user(url, provider="k-orc"))
    assert "user glance repaired: password" in changes
    assert can_work(keystone)


def test_a_service_that_k_orc_keeps_has_our_endpoints(keystone: Identity, url: str) -> None:
    wanted = wanted_service(url, provider="k-orc")
    with pytest.raises(Drifted, match=r"service glance \(image\) is not in Keystone"):
        SERVICE.ensure(wanted)
    row = keystone.add("services", name="glance", type="image", description="its own words")
    assert SERVICE.ensure(wanted) == ["endpoints of glance in RegionOne created"]
    assert row["description"] == "its own words"
    assert endpoints(keystone) == WANTED
    row["enabled"] = False
    with pytest.raises(Drifted, match="is disabled"):
        SERVICE.ensure(wanted)
    row["enabled"] = True
    SERVICE.remove(wanted)
    assert not keystone.rows["services"]
    assert not keystone.rows["endpoints"]


def test_identity_service_is_created_before_k_orc_finds_it(keystone: Identity, url: str) -> None:
    wanted = wanted_service(url, provider="k-orc", type="identity")
    assert SERVICE.ensure(wanted) == [
        "service glance (identity) created",
        "endpoints of glance in RegionOne created",
    ]
    assert SERVICE.ensure(wanted) == []


def wanted_credential(url: str, secret: str = "drawn", name: str = "k-orc", **spec: Any) -> Context[Any]:
    return context(
        CREDENTIAL,
        {"credential": name, "passwordSecretRef": {"name": "p", "key": "k"}} | spec,
        {"internalURL": url, "adminSecret": "a"},
        {"a": {"username": "admin", "password": "adminpw"}, "p": {"k": secret}, "u": {"k": PASSWORD}},
    )


def test_the_administrator_has_an_application_credential(keystone: Identity, url: str) -> None:
    assert CREDENTIAL.ensure(wanted_credential(url)) == ["application credential k-orc created"]
    assert CREDENTIAL.ensure(wanted_credential(url)) == []
    CREDENTIAL.ensure(wanted_credential(url, name="k-orc_B"))
    admin = keystone.one("users", name="admin")["id"]
    held = {row["name"]: row["secret"] for row in keystone.all("application_credentials", user=admin)}
    assert held == {"k-orc": "drawn", "k-orc_B": "drawn"}
    # One with another secret cannot be changed.
    assert CREDENTIAL.ensure(wanted_credential(url, "other")) == ["application credential k-orc repaired: secret"]
    assert keystone.one("application_credentials", name="k-orc")["secret"] == "other"
    CREDENTIAL.remove(wanted_credential(url, "forgotten"))
    CREDENTIAL.remove(wanted_credential(url))
    assert [row["name"] for row in keystone.rows["application_credentials"].values()] == ["k-orc_B"]


READ = {"service": "compute", "method": "GET", "path": "/v2.1/servers/{server_id}"}
WRITE = {"service": "compute", "method": "POST", "path": "/v2.1/servers"}
OWNER: dict[str, Any] = {"owner": {"user": "glance", "passwordSecretRef": {"name": "u", "key": "k"}}}


def rules(keystone: Identity, name: str = "k-orc") -> list[dict[str, Any]]:
    found = keystone.one("application_credentials", name=name)["access_rules"]
    return [{field: row[field] for field in READ} for row in found]


def test_a_credential_has_the_access_rules_of_its_spec(keystone: Identity, url: str) -> None:
    CREDENTIAL.ensure(wanted_credential(url))
    wanted = wanted_credential(url, accessRules=[READ, WRITE])
    # Keystone changes no rules of a credential.
    assert CREDENTIAL.ensure(wanted) == ["application credential k-orc repaired: accessRules"]
    assert rules(keystone) == [READ, WRITE]
    assert keystone.one("application_credentials")["secret"] == "drawn"
    keystone.asked.clear()
    assert CREDENTIAL.ensure(wanted) == []
    assert keystone.asked == [("POST", "auth", "tokens")]
    # Their order is Keystone's.
    assert CREDENTIAL.ensure(wanted_credential(url, accessRules=[WRITE, READ])) == []
    assert CREDENTIAL.ensure(wanted_credential(url, accessRules=[READ]))
    assert rules(keystone) == [READ]
    assert CREDENTIAL.ensure(wanted_credential(url))
    assert rules(keystone) == []


def test_an_access_rule_in_another_case_is_not_replaced_again(keystone: Identity, url: str) -> None:
    CREDENTIAL.ensure(wanted_credential(url, accessRules=[READ | {"path": "/v2.1/Servers"}]))
    upper = rules(keystone)
    assert CREDENTIAL.ensure(wanted_credential(url, accessRules=[READ | {"path": "/v2.1/servers"}])) == []
    assert rules(keystone) == upper
    both = [READ | {"path": path} for path in ("/v2.1/servers", "/v2.1/Servers")]
    with pytest.raises(SpecError, match=r"spec\.accessRules: Keystone ignores case in paths"):
        CREDENTIAL.ensure(wanted_credential(url, accessRules=both))


def test_a_service_user_has_a_credential_of_its_own(keystone: Identity, url: str) -> None:
    wanted = wanted_credential(url, name="glance", accessRules=[READ], **OWNER)
    with pytest.raises(Transient, match="user 'glance' cannot log in to project 'service' of 'Default' yet"):
        CREDENTIAL.ensure(wanted)
    USER.ensure(wanted_user(url))
    assert CREDENTIAL.ensure(wanted) == ["application credential glance created"]
    assert CREDENTIAL.ensure(wanted) == []
    user = keystone.one("users", name="glance")["id"]
    assert keystone.one("application_credentials", name="glance")["user"] == user
    # The administrator's of the same name is another one.
    assert CREDENTIAL.ensure(wanted_credential(url, name="glance")) == ["application credential glance created"]
    CREDENTIAL.remove(wanted)
    assert [row["user"] for row in keystone.rows["application_credentials"].values()] != [user]
    assert len(keystone.rows["application_credentials"]) == 1


def test_a_credential_that_its_owner_could_not_make_again_stays(keystone: Identity, url: str) -> None:
    USER.ensure(wanted_user(url))
    CREDENTIAL.ensure(wanted_credential(url, **OWNER))
    changed = wanted_credential(url, accessRules=[READ], **OWNER)
    changed = replace(changed, secrets={**changed.secrets, "u": {"k": "wrong"}})
    with pytest.raises(Transient, match="cannot log in"):
        CREDENTIAL.ensure(changed)
    assert rules(keystone) == []


@pytest.mark.security
def test_a_credential_that_the_operator_did_not_make_is_not_removed(keystone: Identity, url: str) -> None:
    """A resource that never worked, with a wrong password of its owner, removes no credential of that name."""
    USER.ensure(wanted_user(url))
    CREDENTIAL.ensure(wanted_credential(url, **OWNER))
    keystone.one("application_credentials")["description"] = "of somebody else"
    CREDENTIAL.remove(wanted_credential(url, **OWNER))
    assert len(keystone.rows["application_credentials"]) == 1


def test_the_credential_of_a_user_that_is_gone_is_gone(keystone: Identity, url: str) -> None:
    USER.ensure(wanted_user(url))
    CREDENTIAL.ensure(wanted_credential(url, **OWNER))
    USER.remove(wanted_user(url))
    CREDENTIAL.remove(wanted_credential(url, **OWNER))


@pytest.mark.security
@pytest.mark.parametrize("name", ["admin", "Admin"])
def test_an_owner_is_not_the_administrator_by_another_door(url: str, name: str) -> None:
    owner: dict[str, Any] = {**OWNER["owner"], "user": name}
    with pytest.raises(SpecError, match=r"spec\.owner\.user: .* administers Keystone; remove spec\.owner"):
        CREDENTIAL.ensure(wanted_credential(url, owner=owner))


@pytest.mark.security
@pytest.mark.parametrize("name", ["K-ORC", "k-\xf6rc"])
def test_a_credential_that_keystone_takes_for_another_is_left_alone(keystone: Identity, url: str, name: str) -> None:
    keystone.collation = without_accents
    CREDENTIAL.ensure(wanted_credential(url))
    before = copy.deepcopy(keystone.rows)
    for work in (CREDENTIAL.ensure, CREDENTIAL.remove):
        with pytest.raises(SpecError, match=f"Keystone takes '{name}' for the name of a credential"):
            work(wanted_credential(url, "thief", name=name))
    assert keystone.rows == before


@pytest.mark.security
def test_the_credential_of_another_resource_is_kept_when_this_one_goes(keystone: Identity, url: str) -> None:
    CREDENTIAL.ensure(wanted_credential(url))
    before = copy.deepcopy(keystone.rows)
    thief = wanted_credential(url, "thief")
    CREDENTIAL.remove(replace(thief, conflicting_fields=frozenset({"spec.credential"})))
    assert keystone.rows == before


def test_removing_a_user_keeps_the_project(keystone: Identity, url: str) -> None:
    USER.ensure(wanted_user(url))
    USER.remove(wanted_user(url))
    USER.remove(wanted_user(url))
    USER.remove(wanted_user(url, domain="Nowhere"))
    assert [row["name"] for row in keystone.rows["users"].values()] == ["admin"]
    assert keystone.one("projects", name="service")


@pytest.mark.security
def test_a_retained_user_stays_the_same_one(keystone: Identity, url: str) -> None:
    user = wanted_user(url, deletionPolicy="Retain")
    USER.ensure(user)
    before = keystone.one("users", name="glance")["id"]
    USER.remove(user)
    assert keystone.one("users", name="glance")["id"] == before
    keystone.one("users", name="glance")["password"] = "of another Secret"
    assert USER.ensure(user) == ["user glance repaired: password"]
    assert keystone.one("users", name="glance")["id"] == before


def test_the_administrator_is_nobodys_user(keystone: Identity, url: str) -> None:
    with pytest.raises(SpecError, match=r"spec\.user: 'admin' administers"):
        USER.ensure(wanted_user(url, user="admin"))
    USER.remove(wanted_user(url, user="admin"))
    assert keystone.one("users", name="admin")


def test_users_that_need_the_same_project_at_once_share_it(keystone: Identity, url: str) -> None:
    users = [f"u{number}" for number in range(6)]
    with ThreadPoolExecutor(len(users)) as threads:
        list(threads.map(USER.ensure, [wanted_user(url, user=user) for user in users]))
    assert all(keystone.roles(user) == {"admin", "service"} for user in users)
    assert sum(asked == ("POST", "auth", "tokens") for asked in keystone.asked) == len(users) + 1


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"roles": ["amdin"]}, r"spec\.roles: there is no role 'amdin' in Keystone; see `openstack role list`"),
        ({"domain": "Nowhere"}, r"spec\.domain: Keystone has no domain 'Nowhere'"),
    ],
)
def test_a_missing_prerequisite_is_named(url: str, spec: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        USER.ensure(wanted_user(url, **spec))


@pytest.mark.security
def test_a_refusal_by_keystone_names_the_field_and_hides_the_password(keystone: Identity, url: str) -> None:
    keystone.add("projects", name="service", domain_id="default")
    keystone.fault = Answer(400, {"error": {"message": f"The password {PASSWORD} is too weak"}})
    with pytest.raises(SpecError, match=r"spec\.user: Keystone: POST /users: HTTP 400") as caught:
        USER.ensure(wanted_user(url))
    assert PASSWORD not in str(caught.value)
    keystone.fault = Answer(400, {"error": {"message": "Invalid input for field 'type'"}})
    with pytest.raises(SpecError, match=r"spec\.name: Keystone: POST /services: HTTP 400: it does not accept a value"):
        SERVICE.ensure(wanted_service(url))


def test_trouble_of_keystone_is_transient(keystone: Identity, url: str) -> None:
    for status in (403, 409, 500, 503):
        keystone.fault = Answer(status, {"error": {"message": "trouble"}})
        with pytest.raises(Transient, match=f"HTTP {status}: "):
            SERVICE.ensure(wanted_service(url))
    with pytest.raises(Transient, match="unreachable"):
        SERVICE.ensure(wanted_service("http://127.0.0.1:1/v3"))
    with pytest.raises(Transient, match="no identity API"):
        SERVICE.ensure(wanted_service(url.replace("/v3", "/v9")))


def test_an_administrator_who_cannot_log_in_yet_is_tried_again(url: str) -> None:
    with pytest.raises(Transient, match="401") as caught:
        USER.ensure(wanted_user(url, admin="wrong-secret"))
    assert "wrong-secret" not in str(caught.value)


def test_a_token_that_no_longer_works_is_replaced_once(keystone: Identity, url: str) -> None:
    SERVICE.ensure(wanted_service(url))
    keystone.tokens.clear()
    keystone.asked.clear()
    assert SERVICE.ensure(wanted_service(url)) == []
    assert keystone.asked.count(("POST", "auth", "tokens")) == 1


def endpoints(keystone: Identity, region: str = "RegionOne") -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in keystone.all("endpoints", region_id=region, enabled=True):
        found.setdefault(row["interface"], []).append(row["url"])
    return found


WANTED = {"public": ["http://public:9292"], "internal": ["http://internal:9292"]}


def test_a_service_is_made_with_its_endpoints_once(keystone: Identity, url: str) -> None:
    assert SERVICE.ensure(wanted_service(url)) == [
        "service glance (image) created",
        "endpoints of glance in RegionOne created",
    ]
    assert keystone.one("services", type="image")["description"] == "Images"
    assert endpoints(keystone) == WANTED
    keystone.asked.clear()
    assert SERVICE.ensure(wanted_service(url)) == []
    assert keystone.asked == [("GET", "services"), ("GET", "endpoints")]


def at(keystone: Identity, interface: str) -> dict[str, Any]:
    return keystone.one("endpoints", interface=interface)


def twin(keystone: Identity, interface: str) -> None:
    values = {name: value for name, value in at(keystone, "public").items() if name not in ("id", "interface")}
    keystone.add("endpoints", **values, interface=interface)


def service(keystone: Identity) -> dict[str, Any]:
    return keystone.one("services", type="image")


SERVICE_DRIFTS: dict[str, Callable[[Identity], object]] = {
    "endpoint gone": lambda k: k.delete("endpoints", at(k, "public")["id"]),
    "endpoints gone": lambda k: k.rows["endpoints"].clear(),
    "another address": lambda k: at(k, "internal").update(url="http://elsewhere"),
    "endpoint disabled": lambda k: at(k, "public").update(enabled=False),
    "endpoint twice": lambda k: twin(k, "public"),
    "unwanted interface": lambda k: twin(k, "admin"),
    "service gone": lambda k: k.delete("services", service(k)["id"]),
    "service disabled": lambda k: service(k).update(enabled=False),
    "description": lambda k: service(k).update(description=None),
    "service twice": lambda k: k.add("services", id="0", type="image", name="glance", description="Images"),
}


@pytest.mark.parametrize("drift", SERVICE_DRIFTS)
def test_drift_of_a_service_is_repaired(keystone: Identity, url: str, drift: str) -> None:
    SERVICE.ensure(wanted_service(url))
    SERVICE_DRIFTS[drift](keystone)
    assert SERVICE.ensure(wanted_service(url))
    assert endpoints(keystone) == WANTED
    entry = service(keystone)
    assert (entry["enabled"], entry["description"]) == (True, "Images")
    assert SERVICE.ensure(wanted_service(url)) == []


def test_of_two_services_the_one_with_endpoints_stays(keystone: Identity, url: str) -> None:
    SERVICE.ensure(wanted_service(url))
    kept = service(keystone)["id"]
    SERVICE_DRIFTS["service twice"](keystone)
    assert SERVICE.ensure(wanted_service(url)) == ["service glance (image) repaired: duplicates"]
    assert service(keystone)["id"] == kept


def test_regions_share_a_service_and_leave_each_other_alone(keystone: Identity, url: str) -> None:
    SERVICE.ensure(wanted_service(url))
    SERVICE.ensure(wanted_service(url, region="RegionTwo"))
    assert endpoints(keystone) == endpoints(keystone, "RegionTwo") == WANTED
    SERVICE.remove(wanted_service(url))
    assert endpoints(keystone) == {}
    assert endpoints(keystone, "RegionTwo") == WANTED
    SERVICE.remove(wanted_service(url, region="RegionTwo"))
    SERVICE.remove(wanted_service(url, region="RegionTwo"))
    assert keystone.all("services", type="image") == []


@pytest.mark.security
def test_an_entry_of_another_resource_is_kept_when_this_one_goes(keystone: Identity, url: str) -> None:
    SERVICE.ensure(wanted_service(url))
    before = copy.deepcopy(keystone.rows)
    SERVICE.remove(replace(wanted_service(url), conflicting_fields=frozenset({"spec.type"})))
    assert keystone.rows == before


@pytest.mark.security
def test_an_entry_that_keystone_takes_for_another_is_left_alone(keystone: Identity, url: str) -> None:
    keystone.collation = without_accents
    SERVICE.ensure(wanted_service(url))
    before = service(keystone), endpoints(keystone)
    similar = wanted_service(url, name="gl\xe1nce")
    SERVICE.ensure(similar)
    SERVICE.remove(similar)
    assert (service(keystone), endpoints(keystone)) == before


def test_an_admin_endpoint_is_made_where_wanted(keystone: Identity, url: str) -> None:
    wanted = {"public": "http://public:9292", "internal": "http://internal:9292", "admin": "http://admin:9292"}
    SERVICE.ensure(wanted_service(url, endpoints=wanted))
    assert endpoints(keystone) == {interface: [address] for interface, address in wanted.items()}


def without_accents(name: str) -> str:
    """As utf8mb3_general_ci compares."""
    return "".join(c for c in normalize("NFD", name.rstrip()) if not combining(c)).casefold()


@pytest.mark.security
@pytest.mark.parametrize("name", ["Admin", "ADMIN", "\xe1dmin"])
def test_a_name_that_keystone_takes_for_the_administrators_is_refused(keystone: Identity, url: str, name: str) -> None:
    keystone.collation = without_accents
    before = dict(keystone.one("users", name="admin"))
    with pytest.raises(SpecError, match=r"spec\.user: (Keystone takes|.* administers Keystone)"):
        USER.ensure(wanted_user(url, user=name))
    USER.remove(wanted_user(url, user=name))
    assert keystone.one("users", name="admin") == before


@pytest.mark.security
@pytest.mark.parametrize("password", [PASSWORD, "another"])
@pytest.mark.parametrize("name", ["Nova", "nov\xe1"])
def test_a_name_that_keystone_takes_for_another_users_is_refused(
    keystone: Identity, url: str, name: str, password: str
) -> None:
    keystone.collation = without_accents
    nova = keystone.add("users", name="nova", domain_id="default", password=password)
    before = dict(nova), set(keystone.assigned)
    with pytest.raises(SpecError, match=f"Keystone takes '{name}' for the name of a user"):
        USER.ensure(wanted_user(url, user=name))
    USER.remove(wanted_user(url, user=name))
    assert (keystone.one("users", name="nova"), keystone.assigned) == before


@pytest.mark.security
@pytest.mark.parametrize("password", [PASSWORD, "another"])
@pytest.mark.parametrize("domain", ["D\xe9fault", "default", "DEFAULT"])
def test_a_domain_that_keystone_takes_for_another_is_refused(
    keystone: Identity, url: str, domain: str, password: str
) -> None:
    """The attacker who knows the password of the user is let in by Keystone at once."""
    keystone.collation = without_accents
    USER.ensure(wanted_user(url))
    keystone.one("users", name="glance").update(password=password)
    before = copy.deepcopy(keystone.rows), set(keystone.assigned)
    thief = wanted_user(url, domain=domain, roles=["admin", "member"])
    with pytest.raises(SpecError, match=f"spec.domain: Keystone takes '{domain}' for the name of a domain"):
        USER.ensure(thief)
    USER.remove(thief)
    assert (keystone.rows, keystone.assigned) == before


@pytest.mark.security
@pytest.mark.parametrize("password", [PASSWORD, "another"])
def test_a_project_that_keystone_takes_for_another_is_refused(keystone: Identity, url: str, password: str) -> None:
    keystone.collation = without_accents
    USER.ensure(wanted_user(url))
    keystone.one("users", name="glance").update(password=password)
    before = copy.deepcopy(keystone.rows), set(keystone.assigned)
    with pytest.raises(SpecError, match=r"spec\.project: Keystone takes '.*' for the name of a project"):
        USER.ensure(wanted_user(url, project="s\xe9rvice"))
    assert (keystone.rows, keystone.assigned) == before


@pytest.mark.security
def test_a_user_of_another_resource_is_kept_when_this_one_goes(keystone: Identity, url: str) -> None:
    USER.ensure(wanted_user(url))
    USER.remove(replace(wanted_user(url), conflicting_fields=frozenset({"spec.user"})))
    assert can_work(keystone)
