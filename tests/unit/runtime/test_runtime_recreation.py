"""What comes back when it is deleted, as the plans of its owners say it."""

from __future__ import annotations

from typing import Any, cast

import pytest
from msgspec import structs

from openstack_operator.runtime.cache.entries import Cached, Meta, OwnerReference, Request
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import Catalog, Kind
from openstack_operator.runtime.reconcile.recreations import Recreations
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.placement.model import PLACEMENT

CLOUD, SERVICE, OTHER = Kind.of(CONTROL_PLANE), Kind.of(NOVA), Kind.of(PLACEMENT)
GOES = "2026-01-01T00:00:00Z"
THE_CLOUD, THE_SERVICE = Request(CLOUD.handle, "x", "cloud"), Request(SERVICE.handle, "x", "nova")


def meta(name: str, uid: str, owner: tuple[Kind, str, str] | None = None, **changes: Any) -> Meta:
    owners = [OwnerReference(owner[0].kind, owner[1], owner[2], owner[0].api_version, controller=True)] if owner else []
    return Meta(name, uid=uid, namespace="x", owner_references=tuple(owners), **changes)


def planned(kind: Kind, name: str) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}


@pytest.fixture
def world() -> World:
    """A cloud whose plan holds a Nova, whose plan holds a Placement: one of three generations."""
    found = World(cast("Client", None), Catalog([CONTROL_PLANE, NOVA, PLACEMENT]), [], lambda change: None)
    found.plans.kinds = (CLOUD, SERVICE)
    there(found, CLOUD, meta("cloud", "c1"))
    there(found, SERVICE, meta("nova", "n1", (CLOUD, "cloud", "c1")))
    found.plans.settle(THE_CLOUD, "c1", [planned(SERVICE, "nova")])
    found.plans.settle(THE_SERVICE, "n1", [planned(OTHER, "child")])
    return found


def there(world: World, kind: Kind, found: Meta) -> None:
    versions = [int(held.meta.resource_version or 0) for store in world.stores.values() for held in store]
    version = str(max(versions, default=0) + 1)
    world.stores[kind].put(Cached(structs.replace(found, resource_version=version), b"{}"))


CHILD = meta("child", "p1", (SERVICE, "nova", "n1"), deletion_timestamp=GOES)


def test_a_child_that_its_owner_wants_returns(world: World) -> None:
    assert world.plans.recreates(OTHER, CHILD) is True
    assert world.plans.recreates(OTHER, meta("another", "p2", (SERVICE, "nova", "n1"))) is False


def test_an_existing_object_created_again_counts_as_deleted_by_somebody() -> None:
    recreations, wanted = Recreations(), ["Deployment/api", "Service/api", "Job/sync"]
    created = [f"{name} created" for name in wanted]
    assert recreations.note("u", wanted, [], created) == [], "nothing was there before"
    assert recreations.note("u", wanted, wanted, []) == []
    assert recreations.note("u", wanted, ["Service/api", "Job/sync"], []) == [], "its turn has not come"
    assert recreations.note("u", wanted, ["Service/api", "Job/sync"], created[:1]) == ["Deployment/api"]
    assert recreations.note("u", wanted, wanted, []) == []
    assert recreations.note("other", wanted, [], created) == [], "another owner has its own"


def test_an_object_that_the_operator_deletes_was_not_deleted_by_somebody() -> None:
    recreations, wanted = Recreations(), ["Job/sync", "Domain/d"]
    recreations.note("u", wanted, wanted, [])
    assert recreations.note("u", wanted, wanted, ["Job/sync deleted", "Job/sync created"]) == []
    assert recreations.note("u", wanted, wanted, ["Job/sync deleted"]) == []
    assert recreations.note("u", wanted, ["Domain/d"], ["Job/sync created"]) == []
    recreations.give_up("u", "Domain/d")
    assert recreations.note("u", wanted, ["Job/sync"], ["Domain/d created"]) == []
    assert recreations.note("u", [], ["Job/sync"], []) == []
    assert recreations.note("u", wanted, [], ["Job/sync created"]) == [], "nobody wanted it meanwhile"
    recreations.forget("u")
    assert recreations.note("u", wanted, [], ["Job/sync created"]) == []


def test_a_child_without_owner_does_not_return(world: World) -> None:
    assert world.plans.recreates(OTHER, meta("child", "p1")) is False
    stranger = OwnerReference("Widget", "w", "w1", "example.org/v1", controller=True)
    assert world.plans.recreates(OTHER, Meta("child", namespace="x", owner_references=(stranger,))) is False


def test_recreation_is_unknown_before_the_owner_was_planned(world: World) -> None:
    there(world, SERVICE, meta("nova", "n2", (CLOUD, "cloud", "c1")))
    assert world.plans.recreates(OTHER, CHILD) is None, "one that was made anew has no plan yet"
    world.plans.settle(THE_SERVICE, "n2", [])
    assert world.plans.recreates(OTHER, CHILD) is False


@pytest.mark.parametrize("gone", [False, True])
def test_children_of_a_returning_owner_return_with_it(world: World, *, gone: bool) -> None:
    if gone:
        world.stores[SERVICE].remove(next(iter(world.stores[SERVICE])))
    else:
        there(world, SERVICE, meta("nova", "n1", (CLOUD, "cloud", "c1"), deletion_timestamp=GOES))
    assert world.plans.recreates(OTHER, CHILD) is True
    world.plans.forget(THE_SERVICE)
    assert world.plans.recreates(OTHER, meta("another", "p2", (SERVICE, "nova", "n1"))) is False, "it was kept in mind"
    world.plans.settle(THE_CLOUD, "c1", [])
    assert world.plans.recreates(OTHER, CHILD) is False, "the cloud has no use for its Nova any more"


def test_with_the_whole_cloud_everything_goes(world: World) -> None:
    there(world, CLOUD, meta("cloud", "c1", deletion_timestamp=GOES))
    there(world, SERVICE, meta("nova", "n1", (CLOUD, "cloud", "c1"), deletion_timestamp=GOES))
    assert world.plans.recreates(OTHER, CHILD) is False
    world.stores[SERVICE].remove(next(iter(world.stores[SERVICE])))
    assert world.plans.recreates(OTHER, CHILD) is False


def test_a_lost_owner_may_return_from_unplanned_parents(world: World) -> None:
    world.stores[SERVICE].remove(next(iter(world.stores[SERVICE])))
    fresh = World(cast("Client", None), Catalog([CONTROL_PLANE, NOVA, PLACEMENT]), [], lambda change: None)
    fresh.plans.kinds = (CLOUD, SERVICE)
    there(fresh, CLOUD, meta("cloud", "c1"))
    assert fresh.plans.recreates(OTHER, CHILD) is None
    fresh.plans.settle(THE_CLOUD, "c1", [planned(SERVICE, "nova")])
    assert fresh.plans.recreates(OTHER, CHILD) is True


def test_owners_in_a_circle_end(world: World) -> None:
    there(world, CLOUD, meta("cloud", "c1", (SERVICE, "nova", "n1"), deletion_timestamp=GOES))
    there(world, SERVICE, meta("nova", "n1", (CLOUD, "cloud", "c1"), deletion_timestamp=GOES))
    world.plans.settle(THE_SERVICE, "n1", [planned(OTHER, "child"), planned(CLOUD, "cloud")])
    assert world.plans.recreates(OTHER, CHILD) is False
