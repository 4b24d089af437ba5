"""Writes that a policy alone refuses: those to pods, of which the operator's role allows all, and its policy a few.

Simulators make no pods, so a cloud that becomes Ready under these policies proves nothing about pods.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Object, Release
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.errors import NotAdmitted
from openstack_operator.runtime.kubernetes.kinds import POD, STATEFUL_SET
from openstack_operator.runtime.reconcile.report import Patience
from openstack_operator.runtime.serve.manager import Manager
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.mariadb.roles import ROLE, TERM
from openstack_operator.services.nova.model import NOVA
from openstack_operator.testing import context
from openstack_operator.yaml_text import load

from .harness import Cluster, eventually, running
from .rest import Rest
from .test_permissions import NAMESPACE, account, agrees
from .test_pods import become, made

WRITERS = {"mariadb/galera.py", "nova/compute_rollout.py"}
"""Modules whose plans label pods, or end them. Each has a test here."""
_WRITES = re.compile(r"\blabeled_pod\(|\bends=")


@pytest.fixture(name="policies", scope="module")
def _policies(kubeconfig: Path, root: Path) -> Path:
    """The API server with the operator's roles, and with its policies about pods."""
    rest = Rest(kubeconfig, NAMESPACE)
    objects = [*load(root / "deploy/operator.yaml"), *load(root / "deploy/rbac.yaml")]
    objects += [obj for obj in load(root / "deploy/admission.yaml") if "-pod" in obj["metadata"]["name"]]
    for obj in objects:
        if obj["kind"] != "Deployment":
            assert rest.apply(obj)[0] in (200, 201)
    rest.close()
    return kubeconfig


async def enforce(client: Client, cluster: Cluster) -> None:
    """Wait until the API server refuses what the policies are against: it takes them up some time after."""
    numbers = itertools.count()

    async def is_refused(write: Awaitable[Any]) -> bool:
        try:
            await write
        except NotAdmitted:
            return True
        return False

    async def are_enforced() -> bool:
        # Another pod each time: a policy that is not in force lets it go.
        name = f"any-{next(numbers)}"
        uid = (await made(cluster, name))["metadata"]["uid"]
        changes = {"metadata": {"labels": {"app": "bank"}}}
        patch = client.patch(POD, cluster.namespace, name, changes, manager="test")
        deletion = client.delete(POD, cluster.namespace, name, uid, "Background")
        return all([await is_refused(patch), await is_refused(deletion)])

    await eventually(are_enforced)


def pod_of(workload: Object, name: str, cluster: Cluster) -> Object:
    """Return a pod as the controller of a workload makes it, with a container that is nothing."""
    template = workload["spec"]["template"]["metadata"]
    owner = {name: workload[name] for name in ("apiVersion", "kind")} | {"name": workload["metadata"]["name"]}
    owner |= {"uid": workload["metadata"].get("uid", "0-0-0-0"), "controller": True}
    metadata = {**template, **cluster.meta(name), "ownerReferences": [owner]}
    spec = {"containers": [{"name": "main", "image": "x"}], "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def test_members_of_a_mariadb_get_their_roles(policies: Path, cluster: Cluster, root: Path) -> None:
    remotes = [replace(actuator, ensure=agrees, remove=agrees) for actuator in ACTUATORS]
    patience = Patience(initial=0.2, later=0.2, retrying=0.5, missing=0.2)
    releases, names = ReleaseFiles(root / "releases"), [f"mariadb-server-{ordinal}" for ordinal in range(3)]
    async with account(policies) as client, cluster.simulator():
        await enforce(client, cluster)
        manager = Manager(client, SERVICES, remotes, releases, [cluster.namespace], patience=patience)
        async with running(manager.run()):
            await manager.world.wait_until_synced()
            await cluster.create(MARIADB, "mariadb", replicas=3)
            workload = await eventually(lambda: cluster.get(STATEFUL_SET, "mariadb-server"))
            for name in names:
                await cluster.client.create(POD, pod_of(workload, name, cluster))
                await become(cluster, name, ready=True)
            await cluster.ready(MARIADB, "mariadb")
            await eventually(
                lambda: has_roles(cluster, {name: "primary" if "-0" in name else "backup" for name in names})
            )
            await become(cluster, names[0], ready=False)
            await eventually(
                lambda: has_roles(cluster, {name: "primary" if "-1" in name else "backup" for name in names})
            )
    assert [await term(cluster, name) for name in names] == ["1", "2", None]


async def has_roles(cluster: Cluster, roles: Mapping[str, str]) -> bool:
    pods = {name: await cluster.get(POD, name) or {} for name in roles}
    return all(pods[name]["metadata"]["labels"].get(ROLE) == role for name, role in roles.items())


async def term(cluster: Cluster, name: str) -> str | None:
    live = await cluster.get(POD, name) or {}
    return live["metadata"].get("annotations", {}).get(TERM)


async def test_pods_of_nova_compute_are_ended(policies: Path, cluster: Cluster, root: Path, release: Release) -> None:
    cases = root / "src/openstack_operator/services"
    goldens = [*cases.glob("nova/cases/*.golden.yaml"), *cases.glob("hypervisorcluster/cases/*.golden.yaml")]
    workloads = [
        obj
        for path in goldens
        for obj in load(path)
        if obj["kind"] == "DaemonSet" and obj["metadata"]["name"].endswith("-compute")
    ]
    assert {obj["metadata"]["labels"][kube.KIND] for obj in workloads} == {"nova", "hypervisorcluster"}
    long = context(NOVA, {}, owner="n" * 60, release=release)
    template = {"metadata": {"labels": kube.labels(long, "cell1-compute")}, "spec": {}}
    workloads.append(kube.agents(long, "cell1-compute", template, "compute"))
    async with account(policies) as client:
        await enforce(client, cluster)
        for number, workload in enumerate(workloads):
            name = f"compute-{number}"
            live = await cluster.client.create(POD, pod_of(workload, name, cluster))
            await client.delete(POD, cluster.namespace, name, live["metadata"]["uid"], "Background")
            assert await cluster.get(POD, name) is None


def test_each_writer_to_pods_has_a_test_here(root: Path) -> None:
    folder = root / "src/openstack_operator/services"
    writers = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if _WRITES.search(path.read_text(encoding="utf-8"))
    }
    assert writers == WRITERS
