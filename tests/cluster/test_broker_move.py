"""A service moves to another RabbitMQ on a real API server, and its operator is killed; workloads are ready at once."""

from __future__ import annotations

from pathlib import Path

from openstack_operator.actuators import VHOST
from openstack_operator.kube import conditions
from openstack_operator.runtime.kubernetes.kinds import SECRET, STATEFUL_SET
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.rabbitmq.model import RABBITMQ

from .harness import Cluster, eventually
from .test_controlplane import RESOURCE, operator

COPY = "nova-conductor-on-rabbitmq"


async def test_nova_moves_to_another_broker(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "cloud")
        await cluster.ready(CONTROL_PLANE, "cloud")
        await cluster.create(RABBITMQ, "green", version="4.3")
        await cluster.ready(RABBITMQ, "green")
        before = await cluster.get(STATEFUL_SET, "nova-conductor") or {}
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/nova", {"messaging": {"rabbitmqRef": {"name": "green"}}})

        async def is_copied() -> bool:
            return await cluster.get(STATEFUL_SET, COPY) is not None

        await eventually(is_copied)
    copy = await cluster.get(STATEFUL_SET, COPY) or {}
    images = [each["spec"]["template"]["spec"]["containers"][0]["image"] for each in (before, copy)]
    assert images[0] == images[1]
    async with operator(cluster, root):

        async def is_moved() -> bool:
            names = ("nova-messaging", "nova-cell1", "nova-cell1--console")
            old = [await cluster.get(VHOST, name) for name in names]
            new = [await cluster.get(VHOST, f"{name}--on-green") for name in names]
            return not any(old) and all(new)

        await eventually(is_moved)
        await cluster.ready(RESOURCE["Nova"], "nova")
        await cluster.ready(CONTROL_PLANE, "cloud")
        assert await cluster.get(STATEFUL_SET, COPY) is None
        assert await cluster.get(SECRET, "nova-config-on-rabbitmq") is None
        assert conditions(await cluster.get(RESOURCE["Nova"], "nova") or {})["MessagingReady"]["status"] == "True"
