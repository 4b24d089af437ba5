"""The operator killed again and again while it restores a cloud: the cloud comes out the same."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from openstack_operator.kube import IRREPLACEABLE, conditions
from openstack_operator.runtime.kubernetes.kinds import SECRET
from openstack_operator.services.backup.model import RESTORE
from openstack_operator.services.controlplane.model import CONTROL_PLANE

from .crashing_operator import (
    MINIMAL,
    NO_CRASH,
    Cloud,
    changed_secrets,
    cloud,
    crash_points,
    crash_repeatedly,
    differences,
    empty,
)
from .harness import Cluster, eventually
from .test_backup_restore import CLAIM, MANIFEST, OURS, REPOSITORY, filling, holds

MOST = 40
"""Crash points at most: each takes a restore."""
Contents = list[dict[str, Any]]
RESTORED = ("ReaderReady", "VolumesReady", "DatabasesReady", "SecretsReady", "ResourcesReady", "Ready")


class Restored(Cloud):
    """A cloud that a restore makes."""

    async def is_ready(self) -> bool:
        """Return True if the restore says that it is complete, and the cloud that it is Ready."""
        status = (await self.cluster.get(RESTORE, "fire") or {}).get("status") or {}
        return bool(status.get("completed")) and await super().is_ready()


async def contents_of_backup(cluster: Cluster) -> Contents:
    """Return what a backup of the minimal cloud holds: its spec, and the Secrets that cannot be made again."""
    async with cloud(cluster, "backed-up", MINIMAL) as original:
        assert await original.life(NO_CRASH)
        plane = await original.cluster.get(CONTROL_PLANE, "cloud")
        assert plane
        objects = [{"apiVersion": OURS, "kind": "OpenStackControlPlane", "metadata": {"name": "cloud"}}]
        objects[0]["spec"] = plane["spec"]
        page = json.loads(await original.cluster.client.page(SECRET, original.cluster.namespace, {}))
        for live in page["items"]:
            metadata = live["metadata"]
            if (metadata.get("annotations") or {}).get(IRREPLACEABLE) == "true":
                fields = {name: metadata[name] for name in ("name", "labels", "annotations")}
                secret = {"type": live["type"], "data": live["data"], "metadata": fields}
                objects.append({"apiVersion": "v1", "kind": "Secret", **secret})
    await original.is_removed()
    assert len(objects) > 4
    return objects


@asynccontextmanager
async def restore(cluster: Cluster, name: str, objects: Contents) -> AsyncGenerator[Restored]:
    """A namespace in which a cloud is to be restored, of whose backup the operator has read the contents."""
    async with empty(cluster, name, Restored, lambda kind, name: kind == "Job" and name.startswith("fire-")) as found:
        own = found.cluster
        await holds(own, "repository", {"password": b"only for tests"})
        live = await own.create(RESTORE, "fire", repository=REPOSITORY)
        owner = {"apiVersion": OURS, "kind": "OpenStackRestore", "name": "fire", "uid": live["metadata"]["uid"]}
        labels = {**CLAIM["metadata"]["labels"], "app.kubernetes.io/instance": "fire"}
        labels["openstack.k8s.io/kind"] = "openstackrestore"
        content = gzip.compress(json.dumps({"format": 1, "objects": objects}).encode(), mtime=0)
        files = {"contents.json.gz": content, "manifest.json": json.dumps(MANIFEST).encode()}
        await holds(own, "fire-contents", files, owner | {"controller": True}, **labels)
        async with filling(own):
            yield found


def drawn_anew(found: Cloud, objects: Contents) -> list[str]:
    """Return the restored Secrets that have, or ever had, another value than the backup."""
    values = {
        (obj["metadata"]["name"], key): base64.b64decode(value)
        for obj in objects
        if obj["kind"] == "Secret"
        for key, value in obj["data"].items()
    }
    return [
        name
        for (name, key), value in values.items()
        if {base64.b64decode(each) for each in found.drawn.get((name, key), ())} != {value}
    ]


async def undisturbed(cluster: Cluster, objects: Contents) -> tuple[int, dict[str, Any]]:
    """Return the writes of a restore in which nothing happens, and the objects after it."""
    async with restore(cluster, "calm", objects) as calm:
        assert await calm.life(NO_CRASH)
        assert drawn_anew(calm, objects) == []
        live = await calm.cluster.get(RESTORE, "fire")
        assert live
        told = conditions(live)
        assert {type_: told[type_]["status"] for type_ in RESTORED} == dict.fromkeys(RESTORED, "True")
        return calm.writes, await calm.objects()


async def test_a_restore_is_killed_again_and_again(cluster: Cluster) -> None:
    """Each life makes some more writes, and dies before it hears the answer to the last."""
    objects = await contents_of_backup(cluster)
    calm_writes, expected = await undisturbed(cluster, objects)
    async with restore(cluster, "chain", objects) as chain:
        lives = await crash_repeatedly(chain, calm_writes)
        assert differences(await chain.objects(), expected) == []
        assert drawn_anew(chain, objects) == []
        assert changed_secrets(chain) == []
    print(f"{calm_writes} writes undisturbed; {chain.writes} in {lives} lives")


async def test_a_restore_is_killed_once_at_any_write(cluster: Cluster) -> None:
    """A restore for each crash point: one life that ends there, and one that finds what it left."""
    checks = 0
    objects = await contents_of_backup(cluster)
    calm_writes, expected = await undisturbed(cluster, objects)
    for point in crash_points(calm_writes, MOST):
        async with restore(cluster, f"at-{point}", objects) as crashed:
            await crashed.life(point)
            checks += 1
            assert await crashed.life(NO_CRASH)
            assert differences(await crashed.objects(), expected) == [], f"killed after write {point}"
            assert drawn_anew(crashed, objects) == []
            assert changed_secrets(crashed) == []
        await eventually(crashed.is_removed)
    assert checks
