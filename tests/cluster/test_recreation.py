"""What somebody deletes though its owner wants it comes back, and nothing it stood for was touched meanwhile."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from openstack_operator.plan import Context
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, JOB, SECRET, SERVICE, STATEFUL_SET, Kind
from openstack_operator.runtime.serve.manager import Manager
from openstack_operator.services.controlplane.model import CONTROL_PLANE

from .harness import Cluster, eventually, running
from .test_controlplane import RESOURCE, agrees, listed

MADE = (DEPLOYMENT, STATEFUL_SET, Kind("apps/v1", "DaemonSet", "daemonsets"), JOB, SECRET, SERVICE)


@dataclass
class Remote:
    """What is outside of Kubernetes."""

    removed: list[str] = field(default_factory=list[str])
    """Kind/name of what was taken away there."""

    def remove(self, ctx: Context[Any]) -> None:
        self.removed.append(f"{ctx.kind}/{ctx.owner}")


async def has_cloud(cluster: Cluster) -> None:
    """A cloud is ready."""
    await cluster.create(CONTROL_PLANE, "cloud")
    await cluster.ready(CONTROL_PLANE, "cloud")


@asynccontextmanager
async def operator(cluster: Cluster, root: Path, remote: Remote) -> AsyncGenerator[Manager]:
    """The operator with every service; its actuators agree with everything, and take away what they are asked to."""
    client = Client.connect()
    remotes = [replace(actuator, ensure=agrees, remove=remote.remove) for actuator in ACTUATORS]
    manager = Manager(client, SERVICES, remotes, ReleaseFiles(root / "releases"), [cluster.namespace])
    async with running(manager.run()), cluster.simulator():
        yield manager
    await client.close()


def rollouts(kind: Kind, workload: dict[str, Any]) -> int:
    """How often its template changed; of a Deployment each change of an annotation counts, so that it is left out."""
    return 0 if kind is DEPLOYMENT else workload["metadata"].get("generation", 0)


async def made(cluster: Cluster) -> dict[str, tuple[str, Any]]:
    """Uids of what resources were made into, and how often its pods were replaced since."""
    return {
        f"{kind.kind}/{obj['metadata']['name']}": (obj["metadata"]["uid"], rollouts(kind, obj))
        for kind in MADE
        for obj in await listed(cluster, kind)
    }


async def comes_back(cluster: Cluster, kind: str, name: str, policy: str = "Background") -> None:
    """Somebody deletes it, and then there is another one, which is Ready, and so is the cloud."""
    before = (await cluster.get(RESOURCE[kind], name) or {})["metadata"]["uid"]
    await cluster.delete(RESOURCE[kind], name, policy)

    async def other() -> bool:
        live = await cluster.get(RESOURCE[kind], name)
        return live is not None and live["metadata"]["uid"] != before

    await eventually(other)
    await cluster.ready(RESOURCE[kind], name)
    await cluster.ready(CONTROL_PLANE, "cloud")


async def test_a_resource_that_somebody_deletes_comes_back_and_what_it_made_stays(cluster: Cluster, root: Path) -> None:
    """Three times in one cloud: while the operator runs, while it does not, and for a service that is to go."""
    remote = Remote()
    async with operator(cluster, root, remote):
        await has_cloud(cluster)
        before = await made(cluster)
        for kind, name in (
            ("Nova", "nova"),
            ("OVNNetwork", "ovn"),
            ("MariaDB", "mariadb"),
            ("RabbitMQVhost", "nova-cell1"),
            ("MariaDBDatabase", "nova-cell1-db"),
            ("KeystoneUser", "nova-user"),
            ("KeystoneService", "nova-catalog"),
        ):
            await comes_back(cluster, kind, name)
            after = await made(cluster)
            assert {name: uid for name, uid in after.items() if name in before} == before, kind
        assert not remote.removed
        owner = ((await cluster.get(SECRET, "nova-credentials")) or {})["metadata"]["ownerReferences"]
        assert [each["uid"] for each in owner] == [
            (await cluster.get(RESOURCE["Nova"], "nova") or {})["metadata"]["uid"]
        ]
    before = await made(cluster)
    await cluster.delete(RESOURCE["Placement"], "placement")
    await cluster.delete(RESOURCE["RabbitMQVhost"], "neutron-messaging")
    async with operator(cluster, root, remote):
        await _waits_until_it_knows_what_comes_back(cluster)
        after = await made(cluster)
        assert {name: uid for name, uid in after.items() if name in before} == before
        assert not remote.removed
        await _a_disabled_service_goes_with_its_accounts(cluster, remote)


async def _waits_until_it_knows_what_comes_back(cluster: Cluster) -> None:
    async def back() -> bool:
        found = [
            await cluster.get(RESOURCE[kind], name)
            for kind, name in (("Placement", "placement"), ("RabbitMQVhost", "neutron-messaging"))
        ]
        return all(live and "deletionTimestamp" not in live["metadata"] for live in found)

    await eventually(back)
    await cluster.ready(CONTROL_PLANE, "cloud")


async def _a_disabled_service_goes_with_its_accounts(cluster: Cluster, remote: Remote) -> None:
    await cluster.change(CONTROL_PLANE, "cloud", "/spec/nova", {"enabled": False})

    async def gone() -> bool:
        there = [await cluster.get(RESOURCE["Nova"], "nova"), await cluster.get(DEPLOYMENT, "nova-api")]
        outside = {"KeystoneService/nova-catalog", "RabbitMQVhost/nova-cell1", "KeystoneUser/nova-user"}
        return there == [None, None] and outside <= set(remote.removed)

    await eventually(gone)
