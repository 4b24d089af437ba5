"""When the finalizer of another operator is taken off, and how what a teardown deletes goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from openstack_operator.plan import Object
from openstack_operator.registry import EXTERNAL_KINDS
from openstack_operator.runtime.cache.entries import Cached, Request, entry
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import STATEFUL_SET, Catalog, Kind
from openstack_operator.runtime.reconcile.finalizers import remove_stuck_finalizer
from openstack_operator.runtime.reconcile.teardown import (
    FINALIZER,
    _needs_delete,  # pyright: ignore[reportPrivateUsage]
    _policy,  # pyright: ignore[reportPrivateUsage]
)
from openstack_operator.services.memcached.model import MEMCACHED

FOREIGN = next(kind for kind in EXTERNAL_KINDS if kind.finalizer)
RECREATING = Kind("example.org/v1", "Cluster", "clusters", recreates_children=True)
REQUEST = Request(Kind.of(MEMCACHED).handle, "x", "cache")


class Patched:
    """A client that takes the finalizers that are left of an object."""

    def __init__(self) -> None:
        self.left: list[list[str]] = []

    async def patch_json(self, kind: Kind, namespace: str, name: str, operations: list[Object]) -> Object:
        self.left.append(operations[-1]["value"])
        meta: Object = {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "2"}
        return {"metadata": {**meta, "finalizers": self.left[-1]}}


def ago(**time: float) -> str:
    return (datetime.now(UTC) - timedelta(**time)).isoformat()


def child(kind: Kind, deleted: str | None, *finalizers: str) -> Cached:
    meta: dict[str, Any] = {"name": "a", "namespace": "x", "uid": "u", "resourceVersion": "1"}
    meta |= {"finalizers": finalizers} | ({"deletionTimestamp": deleted} if deleted else {})
    return entry({"metadata": meta}, kind)


@pytest.mark.parametrize(
    ("deletion", "released_before", "is_released"),
    [
        # Between 2 and 20 s: only an operator that did not answer a moment ago has less time.
        ({"seconds": 5}, None, False),
        ({"seconds": 5}, {"seconds": 30}, True),
        ({"seconds": 5}, {"hours": 1}, False),
        ({"seconds": -60}, {"seconds": 30}, False),
        ({"hours": 1}, None, True),
    ],
)
async def test_another_operator_has_time_to_clean_up(
    deletion: dict[str, float],
    released_before: dict[str, float] | None,
    is_released: bool,
) -> None:
    client = Patched()
    world = World(cast("Client", client), Catalog([MEMCACHED], [FOREIGN]), [], lambda change: None)
    if released_before:
        world.finalizer_removals["x", FOREIGN.operator] = datetime.now(UTC) - timedelta(**released_before)
    await remove_stuck_finalizer(
        world, REQUEST, FOREIGN, child(FOREIGN, ago(**deletion), FOREIGN.finalizer, "of.somebody/else")
    )
    assert client.left == ([["of.somebody/else"]] if is_released else [])


@pytest.mark.parametrize(
    ("kind", "finalizers", "policy"),
    [
        (STATEFUL_SET, (), "Foreground"),
        (STATEFUL_SET, ("of.somebody/else",), "Foreground"),
        # Its own teardown deletes its children in order; the collector would delete all at once.
        (Kind.of(MEMCACHED), (FINALIZER,), "Background"),
        # As long as the object is there its operator makes its children again.
        (RECREATING, (), "Background"),
    ],
)
def test_an_object_goes_after_its_children_where_that_ends(kind: Kind, finalizers: tuple[str, ...], policy: str):
    assert _policy(kind, child(kind, None, *finalizers)) == policy


@pytest.mark.parametrize(
    ("kind", "deleted", "finalizers", "needs"),
    [
        (STATEFUL_SET, None, (), True),
        (STATEFUL_SET, "2026-01-01T00:00:00Z", ("foregroundDeletion",), False),
        (RECREATING, None, (), True),
        (RECREATING, "2026-01-01T00:00:00Z", (), False),
        # A user deleted its owner with Foreground, which Kubernetes passed on.
        (RECREATING, "2026-01-01T00:00:00Z", ("foregroundDeletion",), True),
    ],
)
def test_an_object_already_being_deleted_is_not_deleted_again(
    kind: Kind, deleted: str | None, finalizers: tuple[str, ...], needs: bool
):
    assert _needs_delete(kind, child(kind, deleted, *finalizers)) is needs
