"""Of several resources that claim one name on a server, the first has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from openstack_operator.actuators import (
    APPLICATION_CREDENTIAL,
    BACKEND,
    CHASSIS,
    DATABASE,
    DOMAIN,
    IDENTITY_PROVIDER,
    QUOTA,
    USER,
    VHOST,
    VOLUME_TYPE,
    name_claims,
)
from openstack_operator.actuators import SERVICE as SERVICE_ENTRY
from openstack_operator.plan import Context, NameClaims, Release
from openstack_operator.registry import ACTUATORS
from openstack_operator.runtime.cache.entries import Cached, Meta, OwnerReference, Request
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.guards.name_claims import Ownership
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import Catalog, Kind
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.glance.model import GLANCE

pytestmark = pytest.mark.security

CLOUD, SERVICE, SCHEMA = Kind.of(CONTROL_PLANE), Kind.of(GLANCE), Kind.of(DATABASE)
EARLY, BEFORE, LATE, LATER = (f"2026-01-01T00:00:0{second}Z" for second in range(4))


class Scene:
    """A namespace with resources of one kind."""

    def __init__(
        self, kind: Kind = SCHEMA, of: NameClaims = name_claims.database, others: Mapping[Kind, NameClaims] = {}
    ) -> None:
        catalog = Catalog([CONTROL_PLANE, GLANCE, *(each.resource for each in ACTUATORS)])
        self.world = World(cast("Client", None), catalog, [], lambda change: None)
        self.world.plans.kinds = (CLOUD, SERVICE)
        self.kind = kind
        self.ownership = Ownership(self.world, kind, {kind: of, **others})
        self.version = 0

    def put(
        self,
        kind: Kind,
        name: str,
        at: str,
        owner: tuple[Kind, str] | None = None,
        spec: dict[str, Any] | None = None,
    ) -> Cached:
        self.version += 1
        references = (
            (OwnerReference(owner[0].kind, owner[1], f"{owner[1]}-1", owner[0].api_version, controller=True),)
            if owner
            else ()
        )
        meta = Meta(
            name,
            namespace="x",
            uid=f"{name}-1",
            resource_version=str(self.version),
            generation=self.version,
            creation_timestamp=at,
            owner_references=references,
        )
        made = Cached(meta, json.dumps({"metadata": {"name": name}, "spec": spec or {}}).encode())
        self.world.stores[kind].put(made)
        return made

    def add(self, name: str, at: str, owner: tuple[Kind, str] | None = None, **spec: Any) -> Cached:
        return self.put(self.kind, name, at, owner, spec)

    def taken(self, held: Cached) -> set[str]:
        return set(self.ownership.conflicts(held).problems)

    def plans(self, *names: str) -> None:
        """A Glance that makes those."""
        self.makes("glance", *names)

    def makes(self, service: str, *names: str) -> None:
        """A service of that name that makes those."""
        kind = self.kind
        wanted = [{"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}} for name in names]
        self.world.plans.settle(Request(SERVICE.handle, "x", service), f"{service}-1", wanted)


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize("name", ["glance", "Glance", "GLANCE"])
def test_the_schema_of_an_older_resource_is_its_own(scene: Scene, name: str) -> None:
    mine = scene.add("glance-db", EARLY, database="glance", user="glance")
    thief = scene.add("a-thief", LATE, database=name, user="thief")
    assert scene.ownership.conflicts(thief).problems == {
        "spec.database": f"schema {name!r} of MariaDB/mariadb belongs to the older"
        " MariaDBDatabase/glance-db; choose another name, or delete this resource"
    }
    assert scene.taken(mine) == set()
    assert scene.taken(scene.add("b-thief", LATE, database="other", user=name)) == {"spec.user"}


def test_of_one_second_the_first_name_has_it(scene: Scene) -> None:
    one, two = (scene.add(name, EARLY, database="glance", user=name) for name in ("one", "two"))
    assert (scene.taken(one), scene.taken(two)) == (set(), {"spec.database"})


def test_other_servers_and_namespaces_are_no_rivals(scene: Scene) -> None:
    scene.add("glance-db", EARLY, database="glance", user="glance")
    other = scene.add("other", LATE, database="glance", user="glance", mariadbRef={"name": "another"})
    assert scene.taken(other) == set()


def test_a_name_is_free_when_its_owner_is_gone_or_names_another(scene: Scene) -> None:
    mine = scene.add("glance-db", EARLY, database="glance", user="glance")
    late = scene.add("late", LATE, database="glance", user="late")
    assert scene.taken(late)
    mine = scene.add("glance-db", EARLY, database="renamed", user="glance")
    assert not scene.taken(late)
    scene.add("glance-db", EARLY, database="glance", user="glance")
    assert scene.taken(late)
    scene.world.stores[SCHEMA].remove(mine)
    scene.world.stores[SCHEMA].replace(None, [late])
    assert not scene.taken(late)


def test_a_resource_that_is_refused_by_now_keeps_its_names(scene: Scene) -> None:
    scene.add("glance-db", EARLY, database="glance", user="glance", passwordSecretRef=3, unknown=True)
    assert scene.taken(scene.add("thief", LATE, database="glance", user="x"))


def test_two_accounts_of_one_schema_are_there_while_a_password_is_replaced(scene: Scene) -> None:
    scene.put(SERVICE, "glance", EARLY)
    scene.plans("glance-db", "glance-db--b")
    first = scene.add("glance-db", EARLY, (SERVICE, "glance"), database="glance", user="glance")
    second = scene.add("glance-db--b", LATER, (SERVICE, "glance"), database="glance", user="glance_B")
    thief = scene.add("thief", LATE, (SERVICE, "glance"), database="glance", user="thief")
    assert (scene.taken(first), scene.taken(second), scene.taken(thief)) == (set(), set(), {"spec.database"})
    # Whoever waits for the first account to go does not get the schema of the second one.
    scene.world.stores[SCHEMA].replace(None, [second, thief])
    scene.plans("glance-db--b")
    assert (scene.taken(second), scene.taken(thief)) == (set(), {"spec.database"})


def test_reading_tables_of_another_resources_schema_is_refused(scene: Scene) -> None:
    scene.put(SERVICE, "glance", EARLY)
    scene.plans("glance-db", "glance-db--console")
    tables, owner = ["images"], (SERVICE, "glance")
    whole = scene.add("glance-db", EARLY, owner, database="glance", user="glance")
    reader = scene.add(
        "glance-db--console", LATER, owner, database="glance", user="glance_LIMITED", readableTables=tables
    )
    thief = scene.add("thief", LATE, database="glance", user="thief", readableTables=tables)
    assert (scene.taken(whole), scene.taken(reader), scene.taken(thief)) == (set(), set(), {"spec.database"})


def test_a_domain_belongs_to_its_service_and_both_administrators_share_it() -> None:
    scene = Scene(Kind.of(DOMAIN), name_claims.domain)
    scene.put(SERVICE, "heat", EARLY)
    scene.makes("heat", "a", "a--b")
    thief = scene.add("thief", BEFORE, domain="Heat", administrator="thief", deletionPolicy="Delete")
    first = scene.add("a", LATE, (SERVICE, "heat"), domain="heat", administrator="heat")
    second = scene.add("a--b", LATER, (SERVICE, "heat"), domain="heat", administrator="heat_B")
    assert (scene.taken(first), scene.taken(second)) == (set(), set())
    assert scene.ownership.conflicts(thief).problems == {
        "spec.domain": "domain 'Heat' of Keystone/keystone belongs to the"
        " older KeystoneDomain/a; choose another name, or delete this resource"
    }


@pytest.mark.parametrize(
    ("entry", "is_taken"),
    [
        ({"name": "heat", "type": "orchestration"}, True),
        ({"name": "other", "type": "orchestration"}, True),
        ({"name": "heat", "type": "orchestration", "region": "regionone"}, True),
        ({"name": "heat", "type": "orchestration", "region": "RegionTwo"}, False),
        ({"name": "heat", "type": "orchestration", "keystoneRef": {"name": "another"}}, False),
    ],
)
def test_an_entry_of_the_catalog_belongs_to_the_service_that_made_it(entry: dict[str, Any], *, is_taken: bool) -> None:
    scene = Scene(Kind.of(SERVICE_ENTRY), name_claims.service)
    scene.put(SERVICE, "heat", EARLY)
    scene.makes("heat", "heat-catalog", "heat-catalog-cfn")
    urls = dict.fromkeys(("public", "internal"), "http://attacker.example.org")
    thief = scene.put(scene.kind, "a-thief", BEFORE, spec={**entry, "endpoints": urls})
    owner = SERVICE, "heat"
    mine = scene.put(scene.kind, "heat-catalog", LATER, owner, spec={"name": "heat", "type": "orchestration"})
    assert (scene.taken(mine), scene.taken(thief)) == (set(), {"spec.type"} if is_taken else set())
    # A service that goes takes both of its entries along.
    second = scene.put(scene.kind, "heat-catalog-cfn", LATER, spec={"name": "heat", "type": "cloudformation"})
    assert scene.taken(second) == set()


def test_a_refusal_of_an_entry_of_the_catalog_says_where_it_is() -> None:
    scene = Scene(Kind.of(SERVICE_ENTRY), name_claims.service)
    _, thief = (
        scene.put(scene.kind, name, at, spec={"name": "keystone", "type": "identity"})
        for name, at in (("keystone-catalog", EARLY), ("thief", LATE))
    )
    assert scene.ownership.conflicts(thief).problems == {
        "spec.type": "service type 'identity' in RegionOne of Keystone/keystone"
        " belongs to the older KeystoneService/keystone-catalog; choose another name, or delete this resource"
    }


def test_the_administrator_of_a_domain_is_no_user_of_a_younger_resource() -> None:
    domains = Kind.of(DOMAIN)
    scene = Scene(Kind.of(USER), name_claims.user, {domains: name_claims.domain})
    scene.put(domains, "heat-domain", EARLY, spec={"domain": "heat", "administrator": "heat_domain_admin"})
    thief = scene.add("thief", LATE, domain="Heat", user="heat_domain_admin")
    assert scene.ownership.conflicts(thief).problems == {
        "spec.user": "user 'heat_domain_admin' of Keystone/keystone belongs to the older"
        " KeystoneDomain/heat-domain; choose another name, or delete this resource"
    }


def test_a_user_is_no_administrator_of_a_younger_domain() -> None:
    users = Kind.of(USER)
    scene = Scene(Kind.of(DOMAIN), name_claims.domain, {users: name_claims.user})
    scene.put(users, "mine", EARLY, spec={"domain": "customers", "user": "ada"})
    assert scene.taken(scene.add("thief", LATE, domain="customers", administrator="Ada")) == {"spec.administrator"}
    assert scene.taken(scene.add("other", LATE, domain="partners", administrator="ada")) == set()


def test_kinds_that_claim_names_of_each_other_know_it() -> None:
    rivals = {each.resource.kind: {rival.kind for rival in each.rivals} for each in ACTUATORS if each.rivals}
    assert rivals == {"KeystoneUser": {"KeystoneDomain"}, "KeystoneDomain": {"KeystoneUser"}}


def test_an_account_that_comes_back_is_as_old_as_its_cloud(scene: Scene) -> None:
    scene.put(CLOUD, "cloud", EARLY)
    glance = {"apiVersion": SERVICE.api_version, "kind": SERVICE.kind, "metadata": {"name": "glance"}}
    scene.world.plans.settle(Request(CLOUD.handle, "x", "cloud"), "cloud-1", [glance])
    scene.put(SERVICE, "glance", LATER, (CLOUD, "cloud"))
    scene.plans("glance-db")
    thief = scene.add("thief", BEFORE, database="glance", user="thief")
    mine = scene.add("glance-db", LATER, (SERVICE, "glance"), database="glance", user="glance")
    assert (scene.taken(mine), scene.taken(thief)) == (set(), {"spec.database"})


def test_names_are_free_after_a_start_only_once_owners_were_planned(scene: Scene) -> None:
    scene.put(SERVICE, "glance", EARLY)
    thief = scene.add("thief", BEFORE, database="glance", user="thief")
    mine = scene.add("glance-db--b", LATER, (SERVICE, "glance"), database="glance", user="glance_B")
    assert scene.taken(thief), "the owner may be as old as it says"
    assert scene.ownership.conflicts(mine).unknown
    assert not scene.ownership.conflicts(thief).unknown
    scene.plans("glance-db--b")
    assert not scene.taken(mine)


def test_an_owner_that_somebody_wrote_makes_nothing_older(scene: Scene) -> None:
    scene.put(SERVICE, "glance", EARLY)
    mine = scene.add("mine", BEFORE, database="app", user="app")
    thief = scene.add("thief", LATE, (SERVICE, "glance"), database="app", user="thief")
    assert scene.ownership.conflicts(thief).unknown
    scene.plans("glance-db")
    assert (scene.taken(mine), scene.taken(thief)) == (set(), {"spec.database"})
    assert not scene.ownership.conflicts(thief).unknown


UNCLAIMED = {
    BACKEND.kind: "it only reads",
    CHASSIS.kind: "the name of the resource is that of the node in OVN",
}
"""Reasons why resources of a kind have no name on a server to themselves."""


def test_each_kind_claims_its_names_or_has_a_reason_not_to() -> None:
    assert {each.resource.kind for each in ACTUATORS if not each.claims} == UNCLAIMED.keys()


def test_no_claim_is_removed_by_the_resource_that_does_not_have_it() -> None:
    """What no server is asked for cannot be removed there."""
    for actuator in ACTUATORS:
        if actuator.claims and actuator.resource not in (DATABASE, VHOST):
            ctx = Context[Any](
                kind=actuator.resource.kind,
                owner="x",
                namespace="x",
                spec=None,
                release=Release("2025.1", "debian", {}),
                conflicting_fields=frozenset({"spec.name"}),
            )
            actuator.remove(ctx)


@pytest.mark.parametrize(
    ("kind", "of", "mine", "same", "other"),
    [
        (VHOST, name_claims.vhost, {"vhost": "nova", "user": "nova"}, {"vhost": "nova"}, {"vhost": "Nova"}),
        (VHOST, name_claims.vhost, {"vhost": "nova", "user": "nova"}, {"user": "nova"}, {"user": "Nova"}),
        (USER, name_claims.user, {"user": "nova"}, {"user": "Nova"}, {"user": "nova", "domain": "other"}),
        (USER, name_claims.user, {"user": "nova"}, {"user": "NOVA", "domain": "default"}, {"user": "nov"}),
        (USER, name_claims.user, {"user": "nova"}, {"user": "nov\xe1", "domain": "D\xe9fault"}, {"user": "n\xf8va"}),
        (USER, name_claims.user, {"user": "nova"}, {"user": "nova\u200b"}, {"user": "no va"}),
        (IDENTITY_PROVIDER, name_claims.identity_provider, {"name": "sso"}, {"name": "SSO"}, {"name": "sso2"}),
        (
            APPLICATION_CREDENTIAL,
            name_claims.application_credential,
            {"credential": "k-orc"},
            {"credential": "K-ORC"},
            {"credential": "k-orc_B"},
        ),
        (
            APPLICATION_CREDENTIAL,
            name_claims.application_credential,
            {"credential": "a", "owner": {"user": "nova"}},
            {"credential": "A", "owner": {"user": "Nova", "domain": "default"}},
            {"credential": "a"},
        ),
        (VOLUME_TYPE, name_claims.volume_type, {"name": "gold"}, {"name": "g\xf6ld"}, {"name": "silver"}),
        (VOLUME_TYPE, name_claims.volume_type, {"name": "a"}, {"name": "a"}, {"name": "a", "cinderRef": {"name": "b"}}),
        (QUOTA, name_claims.quota, {"project": "team"}, {"project": "Team", "domain": "default"}, {"project": "other"}),
        (QUOTA, name_claims.quota, {"project": "team"}, {"project": "team"}, {"project": "team", "domain": "other"}),
        (QUOTA, name_claims.quota, {"limits": {"volumes": 1}}, {"project": None}, {"project": "team"}),
    ],
)
def test_names_are_compared_as_their_servers_do(
    kind: Any, of: NameClaims, mine: dict[str, Any], same: dict[str, Any], other: dict[str, Any]
) -> None:
    scene = Scene(Kind.of(kind), of)
    scene.put(scene.kind, "mine", EARLY, spec=mine)
    assert scene.taken(scene.put(scene.kind, "same", LATE, spec=same)) == {f"spec.{next(iter(same))}"}
    assert not scene.taken(scene.put(scene.kind, "other", LATE, spec=other))


def test_a_generation_of_another_history_says_nothing_of_the_spec(scene: Scene) -> None:
    """After the API server was put back, the same resource of the same generation may claim another name."""
    scene.add("mine", EARLY, database="glance", user="glance")
    other = scene.add("other", LATE, database="nova", user="nova")
    assert scene.taken(other) == set()
    changed = Cached(other.meta, json.dumps({"spec": {"database": "glance", "user": "nova"}}).encode())
    scene.world.stores[SCHEMA].replace(None, [*(each for each in scene.world.stores[SCHEMA] if each != other), changed])
    scene.world.forget_all()
    assert scene.taken(changed) == {"spec.database"}
