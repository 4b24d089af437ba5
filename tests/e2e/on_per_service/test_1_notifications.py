"""A RabbitMQ for each service, and notifications of all services on one more."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from openstack.connection import Connection

from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes, ours

from ..on_ceph.volumes import storage, volume
from .bus import PROGRAMS, Bus

NOTIFICATIONS = "rabbitmq-notifications"
WITH_BROKER = ("cinder", "heat", "neutron", "nova")
WITH_RPC = ("cinder", "heat", "nova")
"""Neutron on OVN calls nobody: its agents speak to OVN's databases."""


def test_each_service_has_a_broker_of_its_own(cluster: Kubernetes, cloud: Cloud) -> None:
    found = cluster.items(ours("rabbitmq"), "-n", cloud.namespace)
    names = {each["metadata"]["name"] for each in found}
    assert names == {NOTIFICATIONS, *(f"rabbitmq-{service}" for service in WITH_BROKER)}


@pytest.mark.parametrize("service", WITH_RPC)
def test_a_broker_per_service_serves_the_rpc_of_that_service_alone(
    cluster: Kubernetes, cloud: Cloud, service: str
) -> None:
    command = ("rabbitmqctl", "list_connections", "-q", "--no-table-headers", "vhost")
    pod = f"rabbitmq-{service}-server-0"
    listed = cluster.kubectl("exec", "-n", cloud.namespace, pod, "--", *command)
    hosts = set(listed.split())
    assert hosts
    assert all(host == service or host.startswith(f"{service}-") for host in hosts)


def test_each_service_sends_its_notifications_to_the_one_bus(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, proof_of_server: dict[str, Any]
) -> None:
    assert proof_of_server["server"]
    mark = f"bus-{uuid.uuid4().hex[:8]}"
    api: Any = conn
    user = api.identity.create_user(name=mark, password=uuid.uuid4().hex, is_enabled=False)
    held = volume(conn, mark)
    stack = api.orchestration.create_stack(
        name=mark, template={"heat_template_version": "2021-04-16", "resources": {}}, timeout_mins=5
    )
    try:
        expected = {
            "keystone": "identity.user.created",
            "glance": "image.create",
            "neutron": "network.create.end",
            "nova": "compute.instance.create.end",
            "cinder": "volume.create.end",
            "heat": "orchestration.stack.create.end",
        }
        assert expected.keys() == PROGRAMS.keys()
        for service, event in expected.items():
            bus = Bus(cluster, cloud, service)
            assert bus.has(event)
            assert bus.host.partition(".")[0] == NOTIFICATIONS
    finally:
        api.orchestration.delete_stack(stack.id)
        storage(conn).delete_volume(held)
        api.identity.delete_user(user)


def test_keystone_answers_while_the_bus_is_away(cluster: Kubernetes, cloud: Cloud, conn: Connection) -> None:
    """The broker comes back by itself; what happened meanwhile is in no notification."""
    api: Any = conn
    cluster.kubectl("delete", "pod", f"{NOTIFICATIONS}-server-0", "-n", cloud.namespace, "--wait=false")
    name = f"away-{uuid.uuid4().hex[:8]}"
    user = api.identity.create_user(name=name, password=uuid.uuid4().hex, is_enabled=False)
    api.identity.delete_user(user)
    pod = f"pod/{NOTIFICATIONS}-server-0"
    cluster.kubectl("wait", "--for=condition=Ready", pod, "-n", cloud.namespace, "--timeout=180s", timeout=200)
    name = f"back-{uuid.uuid4().hex[:8]}"
    user = api.identity.create_user(name=name, password=uuid.uuid4().hex, is_enabled=False)
    api.identity.delete_user(user)
    assert Bus(cluster, cloud, "keystone").has("identity.user.deleted", 120)
