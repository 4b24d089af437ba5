"""A whole cloud on a real API server: workloads finish at once, what lies outside Kubernetes is out of the picture."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.actuators import VHOST
from openstack_operator.plan import Context, Outcome
from openstack_operator.registry import ACTUATORS, RESOURCES, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, SECRET, Kind
from openstack_operator.runtime.reconcile.report import Patience
from openstack_operator.runtime.serve.manager import Manager
from openstack_operator.services.controlplane.model import CONTROL_PLANE

from .harness import DISCOVERY_PERIOD, Cluster, eventually, running

RESOURCE = {resource.handle: resource for resource in RESOURCES}
SMALL: Mapping[str, Any] = {name: {"enabled": False} for name in ("nova", "neutron", "glance", "ovn", "rabbitmq")}
"""Fields of a cloud with no service but Keystone and Placement: a third of the objects, and of the CPU, for tests of
what every cloud does.
"""


def agrees(_: Context[Any]) -> tuple[str, ...]:
    """Nothing had to be changed."""
    return ()


def is_up(ctx: Context[Any]) -> Outcome:
    """A backend of Cinder is up; of other kinds there is nothing to say."""
    return Outcome(details={"status": "Ready"}) if ctx.kind == "CinderBackend" else Outcome()


@asynccontextmanager
async def operator(
    cluster: Cluster,
    root: Path,
    *,
    releases: ReleaseFiles | None = None,
    skip: tuple[str, ...] = (),
    also: Sequence[str] = (),
) -> AsyncGenerator[Manager]:
    """The operator with every service; its actuators agree with everything, and find it working. Workloads are ready
    at once, except for the kinds to `skip`, and in the namespaces that it serves `also`.
    """
    client = Client.connect()
    # What an account on a broker says of itself asks nobody.
    asking = [each for each in ACTUATORS if each.observe and each.resource is not VHOST]
    remotes = [
        replace(each, ensure=agrees, remove=agrees, observe=is_up if each in asking else each.observe)
        for each in ACTUATORS
    ]
    releases = releases or ReleaseFiles(root / "releases")
    patience = Patience(initial=0.2, later=0.2, retrying=0.5, missing=0.2)
    manager = Manager(
        client,
        SERVICES,
        remotes,
        releases,
        [cluster.namespace, *also],
        patience=patience,
        discovery_period=DISCOVERY_PERIOD,
    )
    async with running(manager.run()), cluster.simulator(*skip):
        yield manager
    await client.close()


async def phase(cluster: Cluster, name: str = "cloud") -> str:
    return ((await cluster.get(CONTROL_PLANE, name) or {}).get("status") or {}).get("phase", "")


async def test_a_service_that_is_turned_off_goes_with_all_it_made(cluster: Cluster, root: Path) -> None:
    """Nova goes in a test of the operator's permissions."""
    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL)
        await cluster.ready(CONTROL_PLANE, "cloud")
        assert await cluster.get(DEPLOYMENT, "placement-api")
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/placement", {"enabled": False})

        async def gone() -> bool:
            return (
                await cluster.get(DEPLOYMENT, "placement-api") is None
                and await cluster.get(RESOURCE["Placement"], "placement") is None
            )

        await eventually(gone)
        assert await cluster.get(DEPLOYMENT, "keystone-api")


async def test_an_unsupported_setting_is_reported_and_workloads_stay(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL)
        await cluster.ready(CONTROL_PLANE, "cloud")
        before = await cluster.get(DEPLOYMENT, "keystone-api") or {}
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/networkBackend", "ovs")
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/neutron", {"mechanism": "ovs"})
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/placement", {"enabled": False})
        condition = await cluster.ready(CONTROL_PLANE, "cloud", "Unsupported")
        assert condition["status"] == "True", "what runs serves on"
        assert (await cluster.condition(CONTROL_PLANE, "cloud", "Stalled"))["reason"] == "Unsupported"
        assert "spec.networkBackend" in condition["message"]
        assert "spec.neutron.mechanism" in condition["message"]
        after = await cluster.get(DEPLOYMENT, "keystone-api") or {}
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        assert await cluster.get(RESOURCE["Placement"], "placement")


@pytest.mark.security
async def test_a_second_cloud_does_not_steal_the_firsts(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL)
        await cluster.ready(CONTROL_PLANE, "cloud")
        await cluster.create(CONTROL_PLANE, "other", region="Other", **SMALL)

        async def refused() -> dict[str, Any] | None:
            condition = await cluster.condition(CONTROL_PLANE, "other")
            return condition if condition.get("reason") == "InvalidSpec" else None

        condition = await eventually(refused)
        assert "cloud" in condition["message"]
        keystone = await cluster.get(RESOURCE["Keystone"], "keystone") or {}
        assert keystone["spec"]["region"] == "RegionOne"
        assert (await cluster.condition(CONTROL_PLANE, "cloud"))["status"] == "True"


async def test_a_broken_service_is_named_by_the_cloud(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        fixed_option = {"keystone_authtoken": {"password": "mine"}}
        await cluster.create(CONTROL_PLANE, "cloud", placement={"config": fixed_option})

        async def named() -> dict[str, Any] | None:
            condition = await cluster.condition(CONTROL_PLANE, "cloud")
            return condition if condition.get("reason") == "InvalidSpec" else None

        condition = await eventually(named)
        assert "spec.placement.config.keystone_authtoken.password" in condition["message"]
        # Neutron does not need Placement; Nova does.
        await cluster.ready(RESOURCE["Neutron"], "neutron")
        assert await phase(cluster) == "CoreServices"


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_the_authority_stays_though_somebody_deletes_what_keeps_it(
    cluster: Cluster, root: Path, policy: str
) -> None:
    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL)
        await cluster.ready(CONTROL_PLANE, "cloud")
        before = await cluster.get(RESOURCE["PKI"], "internal") or {}
        key = await cluster.get(SECRET, "internal-authority") or {}
        await cluster.delete(RESOURCE["PKI"], "internal", policy)

        async def back() -> dict[str, Any]:
            found = await cluster.get(RESOURCE["PKI"], "internal") or before
            secret = await cluster.get(SECRET, "internal-authority") or {}
            owners = [ref["uid"] for ref in secret.get("metadata", {}).get("ownerReferences", ())]
            return secret if owners == [found["metadata"]["uid"]] != [before["metadata"]["uid"]] else {}

        assert (await eventually(back))["data"] == key["data"]
        await cluster.ready(CONTROL_PLANE, "cloud")


async def nothing_left(cluster: Cluster) -> None:
    """Wait until all that was made for a cloud is gone."""
    kinds = [Kind.of(resource) for resource in RESOURCES] + [DEPLOYMENT]
    left: list[str] = []

    async def gone() -> bool:
        left[:] = [_waits(kind, live["metadata"]) for kind in kinds for live in await listed(cluster, kind)]
        return not left

    try:
        await eventually(gone)
    except TimeoutError:
        pytest.fail("left: " + "; ".join(left))


def _waits(kind: Kind, meta: dict[str, Any]) -> str:
    """What an object is, since when it is to go, and what keeps it."""
    return f"{kind.kind}/{meta['name']} {meta.get('deletionTimestamp')} {meta.get('finalizers')}"


async def listed(cluster: Cluster, kind: Kind) -> list[Any]:
    return json.loads(await cluster.client.page(kind, cluster.namespace, {}))["items"]
