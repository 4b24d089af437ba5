"""Whom a Warning Event concerns, and how little of them is kept."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from openstack_operator.runtime.cache.entries import Cached, Change, Request, cached
from openstack_operator.runtime.cache.trimmed_pods import trimmed
from openstack_operator.runtime.cache.warnings import is_repetition, warning
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import POD, STATEFUL_SET, WARNING, Catalog, Kind
from openstack_operator.services.mariadb.model import MARIADB

KIND = Kind.of(MARIADB)
LABELS = {
    "app.kubernetes.io/managed-by": "openstack-operator",
    "openstack.k8s.io/kind": "mariadb",
    "app.kubernetes.io/instance": "db",
}
OURS = Request(KIND.handle, "x", "db")


def put(world: World, kind: Kind, name: str, version: int, **meta: Any) -> None:
    known = {"name": name, "namespace": "x", "uid": name, "resourceVersion": str(version), **meta}
    store = world.pods if kind is POD else world.stores[kind]
    read = trimmed if kind is POD else cached
    store.put(read(json.dumps({"metadata": known}).encode(), kind))


@pytest.fixture
def world() -> World:
    """A MariaDB with its StatefulSet and a pod."""
    found = World(cast("Client", None), Catalog([MARIADB]), [], lambda change: None)
    put(found, KIND, "db", 1)
    owner = {"apiVersion": KIND.api_version, "kind": "MariaDB", "name": "db", "uid": "db", "controller": True}
    put(found, STATEFUL_SET, "db-server", 2, labels=LABELS, ownerReferences=[owner])
    put(found, POD, "db-server-0", 3, labels=LABELS)
    return found


def event(kind: str, name: str, *, version: int = 9, text: str = "no", namespace: str = "x", **times: Any) -> Cached:
    meta = {"name": f"{name}.1", "namespace": namespace, "uid": "e", "resourceVersion": str(version)}
    about = {"kind": kind, "name": name, "uid": "u"}
    body = {"metadata": meta, "involvedObject": about, "reason": "Failed", "message": text, **times}
    return warning(json.dumps(body).encode(), WARNING)


@pytest.mark.parametrize(
    ("kind", "name", "whom"),
    [
        ("Pod", "db-server-0", OURS),
        ("StatefulSet", "db-server", OURS),
        ("PersistentVolumeClaim", "data-db-server-0", OURS),
        ("Pod", "another-0", None),
        ("StatefulSet", "another", None),
        ("PersistentVolumeClaim", "data-another-0", None),
    ],
)
def test_an_event_concerns_the_owner_of_its_object(world: World, kind: str, name: str, whom: Request | None):
    assert world.event_subject(Change(WARNING, None, event(kind, name))) == whom


def test_of_two_names_the_longer_one_counts(world: World):
    put(world, KIND, "my-db", 4)
    owner = {"apiVersion": KIND.api_version, "kind": "MariaDB", "name": "my-db", "uid": "my-db", "controller": True}
    labels = LABELS | {"app.kubernetes.io/instance": "my-db"}
    put(world, STATEFUL_SET, "my-db-server", 5, labels=labels, ownerReferences=[owner])
    for name in ("data-db-server-0", "data-my-db-server-0"):
        found = world.event_subject(Change(WARNING, None, event("PersistentVolumeClaim", name)))
        assert found
        assert f"data-{found.name}-server-0" == name


def test_only_what_may_be_ours_is_kept(world: World):
    for item in (event("Pod", "a"), event("Node", "n"), event("ReplicaSet", "r"), event("Pod", "b", namespace="y")):
        world.warnings.put(item)
    assert [item.meta.name for item in world.warnings] == ["a.1"]
    world.warnings.replace(None, [event("Node", "n"), event("StatefulSet", "db-server")], "20")
    assert [item.meta.name for item in world.warnings] == ["db-server.1"]


def test_an_event_is_found_by_its_object_and_not_by_a_namesake(world: World):
    long = f"{'a' * 80}-0"
    for item in (event("Pod", long), event("StatefulSet", "db-server"), event("Pod", f"{'a' * 80}-1")):
        world.warnings.put(item)
    assert [found["name"] for found in world.warnings.about("x", "Pod", long)] == [long]
    assert world.warnings.about("x", "Pod", "db-server") == []
    assert len(world.warnings.about("x", "StatefulSet", "db-server", "u")) == 1
    assert world.warnings.about("x", "StatefulSet", "db-server", "an earlier one") == []


def test_times_are_read_however_they_are_written():
    old = event("Pod", "a", firstTimestamp="2026-01-01T00:00:00Z", lastTimestamp="2026-01-01T00:01:00Z").decode()
    assert (old["first"], old["last"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z")
    new = event("Pod", "a", eventTime="2026-01-01T00:00:00.123456Z").decode()
    assert new["first"] == new["last"] == "2026-01-01T00:00:00.123456Z"
    # The API server takes a series without a time, and shows it as null.
    series = event("Pod", "a", eventTime="2026-01-01T00:00:00Z", series={"count": 2, "lastObservedTime": None})
    assert series.decode()["last"] == "2026-01-01T00:00:00Z"


def test_repeated_events_wake_no_resource():
    one, again, other = event("Pod", "a"), event("Pod", "a", version=10), event("Pod", "a", version=11, text="yes")
    assert not is_repetition(Change(WARNING, None, one))
    assert is_repetition(Change(WARNING, one, again))
    assert not is_repetition(Change(WARNING, again, other))
    assert is_repetition(Change(WARNING, other, None))


def test_an_event_is_cut_without_its_passwords() -> None:
    text = f"{'x' * 1000} mysql://nova:hunter2@mariadb"
    message = event("Pod", "db-server-0", text=text).decode()["message"]
    assert len(message) == 1024
    assert "hunt" not in message
