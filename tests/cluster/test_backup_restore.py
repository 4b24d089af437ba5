"""A cloud that is made again from a backup, on a real API server: who owns what, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.kube import IRREPLACEABLE, conditions, secret_data
from openstack_operator.plan import SpecError
from openstack_operator.runtime.cache.entries import Change
from openstack_operator.runtime.cache.informer import Informer
from openstack_operator.runtime.cache.store import Store
from openstack_operator.runtime.kubernetes.kinds import JOB, POD, SECRET, VOLUME_CLAIM, Kind
from openstack_operator.services.backup.model import RESTORE
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.testing import granted_status

from .harness import Cluster, eventually, running
from .test_controlplane import operator

ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
OURS = "openstack.k8s.io/v1alpha1"
REPOSITORY: dict[str, Any] = {"volume": {"claimName": "backups"}, "passwordRef": {"name": "repository"}}
LABELS = {
    "app.kubernetes.io/managed-by": "openstack-operator",
    "app.kubernetes.io/part-of": "openstack",
    "app.kubernetes.io/instance": "mariadb",
    "openstack.k8s.io/kind": "mariadb",
}
PASSWORD = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "mariadb-credentials", "labels": LABELS, "annotations": {IRREPLACEABLE: "true"}},
    "type": "Opaque",
    "data": {"root": base64.b64encode(b"of the data").decode()},
}
SERVER = {"apiVersion": OURS, "kind": "MariaDB", "metadata": {"name": "mariadb"}, "spec": {}}
CLAIM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data-mariadb-server-0", "labels": LABELS},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
ENTRY = {
    "name": "mariadb",
    "snapshot": "4f2a",
    "server": "11.8.2-MariaDB",
    "gtid": "0-7-12",
    "claim": CLAIM,
    "image": {},
}
MANIFEST = {"format": 1, "backup": "monday", "taken": "2025-12-31T12:00:00Z", "databases": [ENTRY]}


async def holds(
    cluster: Cluster, name: str, data: dict[str, bytes], owner: dict[str, Any] | None = None, **labels: str
) -> None:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    metadata = {**cluster.meta(name), "labels": labels} | ({"ownerReferences": [owner]} if owner else {})
    await cluster.client.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded})


@asynccontextmanager
async def filling(cluster: Cluster) -> AsyncGenerator[None]:
    """Let each job of a restore end with a pod that says so, as a kubelet does."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": cluster.meta("default")}
    await cluster.client.create(ACCOUNT, account)
    fills: asyncio.Queue[Change] = asyncio.Queue()
    jobs = Informer(cluster.client, Store(JOB, fills.put_nowait), namespace=cluster.namespace)
    async with running(jobs.run()), running(_fill(cluster, fills)):
        yield


async def _fill(own: Cluster, fills: asyncio.Queue[Change]) -> None:
    ended: set[str] = set()
    while True:
        change = await fills.get()
        name = change.meta.name
        if change.new is None or name in ended or not name.startswith("fire-"):
            continue
        ended.add(name)
        job = change.new.decode()
        template = job["spec"]["template"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job["metadata"]["uid"]}
        metadata = {**own.meta(f"{name}-x"), **template["metadata"], "ownerReferences": [owner]}
        spec = {**template["spec"], "activeDeadlineSeconds": None}
        await own.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        main = {"name": "main", "image": "x", "imageID": "x", "ready": False, "restartCount": 0}
        state = {"terminated": {"exitCode": 0, "message": json.dumps({"schemas": [], "gtid": "0-7-12"})}}
        status = {"phase": "Succeeded", "containerStatuses": [{**main, "state": state}]}
        await own.client.merge_status(POD, own.namespace, f"{name}-x", status)
        await own.client.merge_status(JOB, own.namespace, name, granted_status(job, 1))


async def begin(cluster: Cluster) -> None:
    """Create a restore whose backup the operator has read already."""
    await holds(cluster, "repository", {"password": b"only for tests"})
    content = gzip.compress(json.dumps({"format": 1, "objects": [PASSWORD, SERVER]}).encode())
    labels = {**LABELS, "app.kubernetes.io/instance": "fire", "openstack.k8s.io/kind": "openstackrestore"}
    files = {"contents.json.gz": content, "manifest.json": json.dumps(MANIFEST).encode()}
    live = await cluster.create(RESTORE, "fire", repository=REPOSITORY)
    owner = {"apiVersion": OURS, "kind": "OpenStackRestore", "name": "fire", "uid": live["metadata"]["uid"]}
    await holds(cluster, "fire-contents", files, owner | {"controller": True}, **labels)


async def test_a_restored_cloud_owns_what_was_restored(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root, skip=("Job",)), filling(cluster):
        await begin(cluster)
        await cluster.ready(MARIADB, "mariadb")

        async def completed() -> bool:
            status = (await cluster.get(RESTORE, "fire") or {}).get("status") or {}
            return bool(status.get("completed")) and conditions({"status": status})["Ready"]["status"] == "True"

        await eventually(completed)
        secret = await cluster.get(SECRET, "mariadb-credentials")
        assert secret
        assert secret_data(secret)["root"] == "of the data"
        claim = await cluster.get(VOLUME_CLAIM, "data-mariadb-server-0")
        assert claim
        assert "ownerReferences" not in claim["metadata"]
        # What a restore needed is gone, and the cloud stays without it.
        await cluster.delete(RESTORE, "fire")
        assert await cluster.get(MARIADB, "mariadb")
        await cluster.ready(MARIADB, "mariadb")


@pytest.mark.security
async def test_a_volume_with_data_is_not_restored_over(cluster: Cluster, root: Path) -> None:
    other = {**CLAIM, "metadata": {**CLAIM["metadata"], **cluster.meta("data-mariadb-server-0")}}
    # A claim with the same spec is refused by the job: its folder is not empty.
    other["spec"] = {**CLAIM["spec"], "resources": {"requests": {"storage": "2Gi"}}}
    await cluster.client.create(VOLUME_CLAIM, other)
    async with operator(cluster, root):
        await begin(cluster)

        async def refused() -> bool:
            live = await cluster.get(RESTORE, "fire") or {}
            return "exists already" in conditions(live).get("VolumesReady", {}).get("message", "")

        await eventually(refused)
        assert await cluster.get(MARIADB, "mariadb") is None
        assert await cluster.get(SECRET, "mariadb-credentials") is None
        page = json.loads(await cluster.client.page(JOB, cluster.namespace, {}))
        assert not page["items"]


async def test_single_schemas_are_confirmed_and_stay(cluster: Cluster) -> None:
    spec = {"repository": REPOSITORY}
    await cluster.create(RESTORE, "whole", **spec, cloud="production")
    only = {**spec, "only": ["keystone"]}
    with pytest.raises(SpecError, match="single schemas return to the cloud that the backup is of"):
        await cluster.create(RESTORE, "elsewhere", **only, cloud="production")
    for field in ("confirm", "database"):
        with pytest.raises(SpecError, match="database and confirm are about single schemas"):
            await cluster.create(RESTORE, "unused", **spec, **{field: "openstack"})
    with pytest.raises(SpecError, match="name schemas of services"):
        await cluster.create(RESTORE, "archive", **spec, only=["keystone", "openstack_operator"])
    await cluster.create(RESTORE, "single", **only)
    await cluster.change(RESTORE, "single", "/spec/confirm", cluster.namespace)
    for field, value in (("only", ["glance"]), ("only", []), ("database", "mariadb")):
        with pytest.raises(SpecError, match="a restore keeps its schemas"):
            await cluster.change(RESTORE, "single", f"/spec/{field}", value)
