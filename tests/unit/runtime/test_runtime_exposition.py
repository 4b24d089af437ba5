"""What the metrics say of resources."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from openstack_operator import pki
from openstack_operator.kube import MANAGED_BY
from openstack_operator.runtime.cache.entries import cached
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import DAEMON_SET, DEPLOYMENT, SECRET, STATEFUL_SET, Catalog, Kind
from openstack_operator.runtime.serve.exposition import ResourceCollector
from openstack_operator.services.backup.model import SCHEDULE
from openstack_operator.services.pki.model import PKI

AUTHORITY = Kind.of(PKI)
CONTROLLER = {"apiVersion": AUTHORITY.api_version, "kind": "PKI", "name": "internal", "uid": "u", "controller": True}


def put(world: World, kind: Kind, name: str, version: int, metadata: dict[str, Any] | None = None, **body: Any) -> None:
    meta = {"name": name, "namespace": "x", "uid": name, "resourceVersion": str(version), **(metadata or {})}
    world.stores[kind].put(cached(json.dumps({"metadata": meta, **body}).encode(), kind))


@pytest.fixture
def world() -> World:
    return World(cast("Client", None), Catalog([PKI]), [], lambda change: None)


def samples(world: World, *, active: bool = True) -> dict[tuple[str, ...], float]:
    collector = ResourceCollector(world, lambda: active)
    return read(collector)


def read(collector: ResourceCollector) -> dict[tuple[str, ...], float]:
    return {
        (sample.name.removeprefix("openstack_operator_"), *sample.labels.values()): sample.value
        for family in collector.collect()
        for sample in family.samples
    }


def test_a_resource_is_told_of_as_long_as_it_is_there(world: World):
    where = "PKI", "x", "internal"
    put(world, AUTHORITY, "internal", 1)
    assert samples(world) == {("resource_ready", *where): 0}
    ready = {"type": "Ready", "status": "True", "reason": "Ready"}
    put(world, AUTHORITY, "internal", 2, status={"conditions": [ready, {"type": "BundleReady", "status": "False"}]})
    assert samples(world) == {
        ("resource_ready", *where): 1,
        ("resource_condition", *where, "Ready", "True"): 1,
        ("resource_condition", *where, "BundleReady", "False"): 1,
    }
    assert samples(world, active=False) == {}
    held = world.stores[AUTHORITY].get("x", "internal")
    assert held
    world.stores[AUTHORITY].remove(held)
    assert samples(world) == {}


@pytest.mark.parametrize(("reason", "is_held"), [("Held", True), ("RolloutPaused", True), ("Progressing", False)])
def test_resources_held_by_a_user_are_not_counted_as_failing(world: World, reason: str, *, is_held: bool):
    condition = {"type": "Ready", "status": "False", "reason": reason}
    put(world, AUTHORITY, "internal", 1, status={"conditions": [condition]})
    assert (("resource_held", "PKI", "x", "internal") in samples(world)) == is_held


def test_the_age_of_backups_is_told_once_there_is_one():
    world = World(cast("Client", None), Catalog([SCHEDULE]), [], lambda change: None)
    kind, where = Kind.of(SCHEDULE), ("OpenStackBackupSchedule", "x", "nightly")
    put(world, kind, "nightly", 1, status={"lastSuccessfulTime": None, "lastRecoverableTime": "yesterday"})
    assert samples(world) == {("resource_ready", *where): 0}
    put(world, kind, "nightly", 2, status={"lastSuccessfulTime": "2026-01-02T01:10:00Z"})
    completed = datetime(2026, 1, 2, 1, 10, tzinfo=UTC).timestamp()
    assert samples(world)["backup_last_success_timestamp_seconds", *where] == completed
    put(world, kind, "nightly", 3, status={"lastRecoverableTime": "2026-01-02T01:10:00Z"})
    assert samples(world)["backup_last_recoverable_timestamp_seconds", *where] == completed


@pytest.mark.parametrize(
    ("kind", "body", "counts"),
    [
        (DEPLOYMENT, {"spec": {"replicas": 2}, "status": {"readyReplicas": 1}}, (2, 1)),
        (STATEFUL_SET, {"spec": {}}, (1, 0)),
        (DAEMON_SET, {"spec": {}, "status": {"desiredNumberScheduled": 3, "numberReady": 2}}, (3, 2)),
    ],
    ids=lambda value: value.kind if isinstance(value, Kind) else "",
)
def test_pods_of_a_workload_are_counted_with_its_resource(
    world: World, kind: Kind, body: dict[str, Any], counts: tuple[int, int]
):
    put(world, kind, "stranger", 1, **body)
    assert samples(world) == {}
    put(world, kind, "internal-server", 2, {"ownerReferences": [CONTROLLER]}, **body)
    where = "PKI", "x", "internal", kind.kind, "internal-server"
    assert samples(world) == {
        ("workload_pods_desired", *where): counts[0],
        ("workload_pods_ready", *where): counts[1],
    }


def test_certificates_expire_when_they_say(world: World):
    began = datetime(2026, 1, 1, tzinfo=UTC)
    pair = pki.authority("drawn", "test", began, timedelta(days=30))
    text = base64.b64encode(pair.cert.encode()).decode()
    collector = ResourceCollector(world, lambda: True)
    put(world, SECRET, "front", 1, data={"tls.crt": text, "tls.key": "eA==", "nonsense.crt": "eA=="})
    put(world, SECRET, "password", 2, data={"password": "eA=="})
    found, where = read(collector), ("", "x", "", "front", "tls.crt")
    # One that is valid an hour before it is made is accepted where clocks differ.
    assert found == {
        ("certificate_start_timestamp_seconds", *where): (began - timedelta(hours=1)).timestamp(),
        ("certificate_expiry_timestamp_seconds", *where): (began + timedelta(days=30)).timestamp(),
    }
    put(world, SECRET, "front", 3, data={"password": "eA=="})
    assert read(collector) == {}


@pytest.mark.parametrize("is_there", [True, False], ids=["resource", "gone"])
@pytest.mark.parametrize("owners", [[CONTROLLER], [CONTROLLER | {"kind": "Certificate", "apiVersion": "c/v1"}], []])
def test_a_certificate_is_told_with_its_resource(world: World, owners: list[Any], is_there: bool):
    """Of one that cert-manager made, or that stays when its resource is deleted, the labels name it."""
    text = base64.b64encode(pki.authority("drawn", "test", datetime(2026, 1, 1, tzinfo=UTC)).cert.encode()).decode()
    if is_there:
        put(world, AUTHORITY, "internal", 1)
    labels = {"openstack.k8s.io/kind": "pki", "app.kubernetes.io/instance": "internal"}
    metadata = {"labels": {"app.kubernetes.io/managed-by": MANAGED_BY, **labels}, "ownerReferences": owners}
    put(world, SECRET, "internal-authority", 2, metadata, data={"ca.crt": text})
    found = [labels[1:] for labels in samples(world) if labels[0] == "certificate_expiry_timestamp_seconds"]
    assert found == [("PKI", "x", "internal", "internal-authority", "ca.crt")]
