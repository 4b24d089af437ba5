"""The cache: equal to the cluster whatever order news arrive in, and read only."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from openstack_operator.runtime.cache.entries import Cached, Change, cached
from openstack_operator.runtime.cache.store import Store
from openstack_operator.runtime.cache.trimmed_pods import trimmed
from openstack_operator.runtime.kubernetes.kinds import POD, SECRET

NAMES = st.sampled_from(["a", "b", "c"])
NAMESPACES = st.sampled_from(["x", "y"])


def item(namespace: str, name: str, version: int, uid: str = "u", **meta: Any) -> Cached:
    metadata = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(version), **meta}
    return cached(msgspec.json.encode({"metadata": metadata, "data": {"v": str(version)}}), SECRET)


class StoreMachine(RuleBasedStateMachine):
    """A cluster that changes, and a store that hears of it: late, twice, or only by a list after an outage."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        self.cluster: dict[tuple[str, str], Cached] = {}
        self.seen: dict[tuple[str, str], Cached] = {}
        self.store = Store(SECRET, self.notified)
        self.late: list[Cached] = []

    def notified(self, change: Change) -> None:
        """A reader that only follows changes must end up with what the store holds."""
        key = change.meta.namespace, change.meta.name
        assert self.seen.get(key) == change.old
        if change.new is None:
            del self.seen[key]
        else:
            self.seen[key] = change.new

    def write(self, namespace: str, name: str) -> Cached:
        self.version += 1
        old = self.cluster.get((namespace, name))
        uid = old.meta.uid if old else f"u{self.version}"
        new = self.cluster[namespace, name] = item(namespace, name, self.version, uid)
        return new

    @rule(namespace=NAMESPACES, name=NAMES)
    def watched(self, namespace: str, name: str) -> None:
        self.store.put(self.write(namespace, name))

    @rule(namespace=NAMESPACES, name=NAMES)
    def own_write_then_the_watch_tells_of_it_too(self, namespace: str, name: str) -> None:
        older = self.cluster.get((namespace, name))
        new = self.write(namespace, name)
        self.store.put(new)
        if older:
            self.store.put(older)
        self.store.put(new)

    @rule(namespace=NAMESPACES, name=NAMES)
    def deleted(self, namespace: str, name: str) -> None:
        if old := self.cluster.pop((namespace, name), None):
            self.version += 1
            self.store.remove(item(namespace, name, self.version, old.meta.uid))

    @rule(namespace=NAMESPACES, name=NAMES)
    def own_write_answered_after_the_watch_told_of_the_deletion(self, namespace: str, name: str) -> None:
        written = self.write(namespace, name)
        self.deleted(namespace, name)
        self.store.put(written)

    @rule(namespace=NAMESPACES, name=NAMES)
    def own_write_answered_after_a_list_without_it(self, namespace: str, name: str) -> None:
        written = self.write(namespace, name)
        del self.cluster[namespace, name]
        self.version += 1
        self.store.replace(None, list(self.cluster.values()), str(self.version))
        self.store.put(written)

    @rule(namespace=NAMESPACES, name=NAMES)
    def out_of_the_selector_and_back(self, namespace: str, name: str) -> None:
        if old := self.cluster.get((namespace, name)):
            self.version += 1
            self.store.remove(item(namespace, name, self.version, old.meta.uid))
            self.store.put(self.write(namespace, name))

    @rule(namespace=NAMESPACES, name=NAMES)
    def made_anew_before_the_watch_tells_of_the_deletion(self, namespace: str, name: str) -> None:
        if old := self.cluster.pop((namespace, name), None):
            self.version += 1
            last = item(namespace, name, self.version, old.meta.uid)
            self.store.put(self.write(namespace, name))
            self.store.remove(last)

    @rule(
        changes=st.lists(st.tuples(NAMESPACES, NAMES, st.booleans()), max_size=6),
        namespace=st.sampled_from([None, "x"]),
    )
    def outage(self, changes: list[tuple[str, str, bool]], namespace: str | None) -> None:
        for space, name, exists in changes:
            if namespace in (None, space):
                if exists:
                    self.write(space, name)
                else:
                    self.cluster.pop((space, name), None)
        listed = [i for (space, _), i in self.cluster.items() if namespace in (None, space)]
        self.store.replace(namespace, listed, str(self.version))

    @invariant()
    def equal(self) -> None:
        assert {(i.meta.namespace, i.meta.name): i for i in self.store} == self.cluster == self.seen


TestStore = StoreMachine.TestCase


def test_managed_fields_are_dropped_and_kinds_filled_in():
    entry = item("x", "a", 1, managedFields=[{"manager": "kubectl"}])
    assert b"managedFields" not in entry.raw
    assert entry.decode()["kind"] == "Secret"
    assert entry.decode()["data"] == {"v": "1"}


def test_readers_of_a_store_cannot_change_its_objects():
    store = Store(SECRET, lambda change: None)
    store.put(item("x", "a", 1))
    found = store.get("x", "a")
    assert found
    found.decode()["data"]["v"] = "changed"
    assert found.decode()["data"]["v"] == "1"


def test_objects_are_found_by_the_owner_their_labels_name():
    store = Store(SECRET, lambda change: None)
    labels = {"openstack.k8s.io/kind": "nova", "app.kubernetes.io/instance": "nova"}
    store.put(item("x", "a", 1, labels=labels))
    store.put(item("x", "b", 2))
    assert [found.meta.name for found in store.owned("x", "Nova", "nova")] == ["a"]
    assert store.owned("y", "Nova", "nova") == []
    store.put(item("x", "a", 3))
    assert store.owned("x", "Nova", "nova") == []


def test_irreplaceable_secrets_are_remembered_until_they_return():
    labels = {"openstack.k8s.io/kind": "mariadb", "app.kubernetes.io/instance": "mariadb"}
    kept = {"labels": labels, "annotations": {"openstack.k8s.io/irreplaceable": "true"}}
    store = Store(SECRET, lambda change: None)
    store.put(item("x", "a", 1, "u1", **kept))
    store.put(item("x", "b", 2, "u2", labels=labels))
    store.remove(item("x", "a", 3, "u1", **kept))
    store.remove(item("x", "b", 4, "u2", labels=labels))
    assert [found.decode()["data"] for found in store.deleted("MariaDB", "x", "mariadb")] == [{"v": "1"}]
    assert store.deleted("MariaDB", "y", "mariadb") == store.deleted("RabbitMQ", "x", "mariadb") == []
    store.put(item("x", "a", 5, "u3", **kept))
    assert store.deleted("MariaDB", "x", "mariadb") == []

    store.replace("x", [], "6")
    assert [found.meta.uid for found in store.deleted("MariaDB", "x", "mariadb")] == ["u3"]
    store.forget(("x", "mariadb", "mariadb"))
    assert store.deleted("MariaDB", "x", "mariadb") == []


def test_irreplaceable_secrets_removed_by_their_resource_are_not_remembered():
    kept = {
        "labels": {"openstack.k8s.io/kind": "pki", "app.kubernetes.io/instance": "pki"},
        "annotations": {"openstack.k8s.io/irreplaceable": "true"},
    }
    store = Store(SECRET, lambda change: None)
    for name in ("a", "b"):
        store.put(item("x", name, 1, name, **kept))
        store.remove(item("x", name, 2, name, **kept))
    store.give_up(item("x", "a", 1, "a", **kept))
    assert [found.meta.name for found in store.deleted("PKI", "x", "pki")] == ["b"]


def test_a_pod_is_trimmed_to_what_a_plan_may_see():
    def pod(version: str, **status: Any) -> Cached:
        condition = {"type": "Ready", "status": "True", "lastProbeTime": version}
        container = {"name": "main", "ready": True, "restartCount": 1, "image": "x", "state": {"running": {}}}
        live = {
            "metadata": {
                "name": "a",
                "namespace": "x",
                "uid": "u",
                "labels": {"openstack.k8s.io/watched": "true"},
                "resourceVersion": version,
                "managedFields": [{}],
            },
            "spec": {"nodeName": "node1", "containers": [{"env": [{"name": "PASSWORD", "value": "hunter2"}]}]},
            "status": {"phase": "Running", "conditions": [condition], "containerStatuses": [container], **status},
        }
        return trimmed(msgspec.json.encode(live), POD)

    seen = pod("1", podIP="192.0.2.1").decode()
    assert seen["metadata"] == {
        "name": "a",
        "namespace": "x",
        "uid": "u",
        "labels": {"openstack.k8s.io/watched": "true"},
    }
    assert seen["spec"] == {"nodeName": "node1"}
    assert seen["status"]["podIP"] == "192.0.2.1"
    assert seen["status"]["containerStatuses"] == [
        {"name": "main", "ready": True, "restartCount": 1, "state": {"running": {}}}
    ]
    assert (pod("1").raw, pod("1").meta.resource_version) == (pod("2", hostIP="192.0.2.9").raw, "1")
    assert pod("1").raw != pod("1", phase="Failed").raw


def test_a_pod_without_room_keeps_what_names_its_node():
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    metadata = {"name": "a", "namespace": "x", "uid": "u", "labels": {"openstack.k8s.io/watched": "true"}}
    live = {"metadata": metadata, "spec": {"affinity": {**affinity, "podAntiAffinity": {}}, "containers": []}}
    assert trimmed(msgspec.json.encode(live), POD).decode()["spec"] == {"affinity": affinity}


def test_a_list_keeps_what_was_written_while_it_was_under_way() -> None:
    store = Store(SECRET, lambda _: None)
    for name in "abc":
        store.put(item("x", name, 90, uid=name))
    before = store.versions()
    store.put(item("x", "a", 120, uid="a"))
    store.put(item("x", "d", 121, uid="d"))
    store.replace(None, [item("x", name, 90, uid=name) for name in "ab"], "100", before=before)
    assert store.versions() == {("x", "a"): 120, ("x", "b"): 90, ("x", "d"): 121}
    store.replace(None, [item("x", "a", 90, uid="a")], "100", before=store.versions())
    assert store.versions() == {("x", "a"): 90}, "later versions from before the list are of a state that was put back"
