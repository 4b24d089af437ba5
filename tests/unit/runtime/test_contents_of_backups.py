"""What the operator reads of a namespace for a backup."""

from __future__ import annotations

import json
from typing import Any, cast

from openstack_operator.kube import COMPONENT, INSTANCE, KIND
from openstack_operator.plan import CloudContents
from openstack_operator.registry import RESOURCES
from openstack_operator.runtime.cache.entries import cached
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, POD, Catalog, Kind
from openstack_operator.runtime.reconcile.contents import CloudReader
from openstack_operator.services.backup import SERVICE

KINDS = {resource.handle: resource for resource in RESOURCES}
SPECS: dict[str, dict[str, Any]] = {
    "OpenStackBackupSchedule": {
        "schedule": "0 1 * * *",
        "repository": {"nfs": "a:/b", "passwordRef": {"name": "password-of-backups"}},
    },
    "OpenStackBackup": {"repository": {"nfs": "a:/b", "passwordRef": {"name": "password-of-a-backup"}}},
    "SecretAggregate.c5c3.io": {"sources": [{"secretRef": {"name": "source"}}]},
}


class Asked(World):
    """A cluster without Secrets."""

    def __init__(self) -> None:
        super().__init__(cast("Client", None), Catalog(list(RESOURCES)), [], lambda change: None)
        self.names: list[str] = []

    async def secret(self, namespace: str, name: str) -> None:
        """Remember the name."""
        self.names.append(name)


async def test_a_cloud_in_an_upgrade_is_stored_with_its_running_release() -> None:
    """An earlier release can follow its databases, a later one perhaps not."""
    world, resource = Asked(), KINDS["OpenStackControlPlane"]
    for number, (name, release, running) in enumerate(
        [("upgraded", "2026.1", "2025.1"), ("new", "2026.1", None), ("done", "2026.1", "2026.1")], 1
    ):
        metadata = {"name": name, "namespace": "openstack", "uid": name, "resourceVersion": str(number)}
        spec = {"release": release, "upgrade": {"complete": False}}
        status = {"release": running} if running else {}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        body |= {"spec": spec, "status": status}
        world.stores[Kind.of(resource)].put(cached(json.dumps(body).encode(), Kind.of(resource)))
    order = SERVICE.observes
    assert isinstance(order, CloudContents)
    facts = await CloudReader(world, RESOURCES).contents("openstack", order)
    releases = {obj["metadata"]["name"]: obj["spec"]["release"] for obj in facts["objects"]}
    assert releases == {"upgraded": "2025.1", "new": "2026.1", "done": "2026.1"}


async def test_resources_that_are_being_deleted_are_not_in_use() -> None:
    world, resource = Asked(), KINDS["OpenStackBackupSchedule"]
    for number, (name, more) in enumerate(
        [("nightly", {}), ("gone", {"deletionTimestamp": "2026-11-30T08:15:00Z", "finalizers": ["a/b"]})], 1
    ):
        metadata = {"name": name, "namespace": "openstack", "uid": name, "resourceVersion": str(number), **more}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        body |= {"spec": SPECS["OpenStackBackupSchedule"]}
        world.stores[Kind.of(resource)].put(cached(json.dumps(body).encode(), Kind.of(resource)))
    reader = CloudReader(world, RESOURCES)
    assert [each["metadata"]["name"] for each in reader.resources("openstack", [resource.kind])] == ["nightly"]
    assert reader.resources("elsewhere", [resource.kind]) == []
    assert reader.resources("openstack", ["OpenStackBackup"]) == []


async def test_a_schedule_is_in_a_backup_and_its_secrets_are_not() -> None:
    world = Asked()
    for number, (handle, spec) in enumerate(SPECS.items(), 1):
        metadata = {"name": "own", "namespace": "openstack", "uid": handle, "resourceVersion": str(number)}
        resource = KINDS[handle]
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
        world.stores[Kind.of(resource)].put(cached(json.dumps(body).encode(), Kind.of(resource)))
    order = SERVICE.observes
    assert isinstance(order, CloudContents)
    facts = await CloudReader(world, RESOURCES).contents("openstack", order)
    assert sorted(obj["kind"] for obj in facts["objects"]) == ["OpenStackBackupSchedule", "SecretAggregate"]
    assert world.names == ["source"]


def put(world: World, kind: Kind, name: str, labels: dict[str, str] | None = None, **fields: Any) -> None:
    """Let the cluster have an object."""
    metadata = {"name": name, "namespace": "openstack", "uid": name, "resourceVersion": "1", "labels": labels or {}}
    store = world.pods if kind is POD else world.stores[kind]
    body = {"spec": {}, **fields, "metadata": metadata | fields.get("metadata", {})}
    store.put(cached(json.dumps(body).encode(), kind))


async def test_schedules_of_a_namespace_are_known_with_their_programs() -> None:
    world, resource = Asked(), KINDS["OpenStackBackupSchedule"]
    created = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    put(world, Kind.of(resource), "nightly", spec={"archive": True}, metadata=created)
    put(world, Kind.of(resource), "hourly", metadata=created | {"deletionTimestamp": "2026-01-02T00:00:00Z"})

    def labels(name: str, component: str, kind: str = "openstackbackupschedule") -> dict[str, str]:
        return {KIND: kind, INSTANCE: name, COMPONENT: component}

    put(world, DEPLOYMENT, "nightly-archive-a", labels("nightly", "archive-a"))
    put(world, POD, "nightly-archive-a-x", labels("nightly", "archive-a"))
    put(world, POD, "weekly-archive-a-x", labels("weekly", "archive-a"))
    put(world, POD, "other", labels("hourly", "archive-a", "mariadb"))
    programs = {each["name"]: (each["deleted"], each["programs"]) for each in known(world, "openstack")}
    assert programs == {
        "nightly": (False, ["archive-a"]),
        "hourly": (True, []),
        # Its programs outlive it for some seconds.
        "weekly": (True, ["archive-a"]),
    }
    [nightly] = [each for each in known(world, "openstack") if each["name"] == "nightly"]
    assert (nightly["created"], nightly["spec"]) == (created["creationTimestamp"], {"archive": True})
    assert known(world, "elsewhere") == []


def known(world: World, namespace: str) -> list[dict[str, Any]]:
    """The schedules of a namespace."""
    return CloudReader(world, RESOURCES).siblings(namespace, "OpenStackBackupSchedule")
