"""Octavia's provider amphora: the server of a load balancer boots, its heartbeat arrives, and it passes requests on.

Guests have an emulated CPU here, so a server takes many minutes. The tests run if the image has been built: python -m
images amphora.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from typing import Any

import pytest
from openstack.connection import Connection

from images import cache, catalog
from tools.cloud import proof
from tools.cloud.session import Cloud, Session
from tools.cloud.view import conditions, ready
from tools.localcluster.kubernetes import Kubernetes

from ..conftest import Report
from ..waiting import until

NAME = "amphora-test"
DISK = cache.directory("amphora") / f"{catalog.tag('amphora')}.qcow2"
BOOT = 3600
"""Seconds in which a server with an emulated CPU boots and answers."""
# Twelve seconds for each try to connect.
RETRIES = {"connection_max_retries": BOOT // 5, "active_connection_max_retries": BOOT // 12}
OPTIONS = {"haproxy_amphora": RETRIES, "controller_worker": {"amp_active_retries": 90}}
AMPHORA = {"managementCIDR": "10.254.0.0/24", "flavor": {"memory": "768Mi"}, "controllers": {"config": OPTIONS}}

pytestmark = pytest.mark.skipif(not DISK.exists(), reason="the image is not built; python -m images amphora")


def patch(cluster: Kubernetes, cloud: Cloud, octavia: dict[str, Any]) -> None:
    """Change the cloud's Octavia, and wait until that is in force."""
    text = json.dumps({"spec": {"octavia": octavia}})
    cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", cloud.namespace, "--type=merge", "-p", text)

    def is_in_force() -> bool:
        (plane,) = cluster.items("openstackcontrolplanes.openstack.k8s.io", "-n", cloud.namespace)
        (live,) = cluster.items("octavias.openstack.k8s.io", "-n", cloud.namespace)
        return ("amphora" in live["spec"]) == bool(octavia.get("amphora")) and ready(live) and ready(plane)

    until("Octavia to be Ready", is_in_force, 900, 2)


@pytest.fixture(name="image", scope="module")
def _image(administrator: Connection) -> Generator[Any]:
    """The image, in the project of the services."""
    identity: Any = administrator.identity
    api: Any = administrator.image
    project = identity.find_project("service", ignore_missing=False)
    image = api.create_image(
        NAME,
        filename=str(DISK),
        disk_format="qcow2",
        container_format="bare",
        visibility="private",
        owner=project.id,
        tags=["amphora"],
        # Its kernel has no driver for a CD drive at another bus.
        hw_cdrom_bus="scsi",
        hw_scsi_model="virtio-scsi",
        wait=True,
    )
    yield image
    api.delete_image(image)


@pytest.fixture(name="provider", scope="module")
def _provider(stood: tuple[Session, Cloud]) -> Generator[None]:
    """The cloud has the provider amphora."""
    (session, cloud) = stood
    patch(session.cluster, cloud, {"amphora": AMPHORA})
    yield
    patch(session.cluster, cloud, {"amphora": None})


@pytest.fixture(name="balancer", scope="module")
def _balancer(administrator: Connection, image: Any, provider: None, report: Report) -> Generator[Any]:
    """A load balancer of the provider, ACTIVE."""
    assert image
    assert provider is None
    api: Any = administrator.load_balancer
    proof.networks(administrator)
    subnet = administrator.network.find_subnet(proof.NAME, ignore_missing=False)
    began = time.monotonic()
    balancer = api.create_load_balancer(name=NAME, vip_subnet_id=subnet.id, provider="amphora")
    settle(api, balancer.id)
    report.add(amphora_seconds_to_active=round(time.monotonic() - began))
    yield balancer
    api.delete_load_balancer(balancer.id, cascade=True)
    until("the load balancer to be gone", lambda: api.find_load_balancer(balancer.id, ignore_missing=True) is None, 600)


def settle(api: Any, id_: str) -> None:
    def is_active() -> bool:
        status = api.get_load_balancer(id_).provisioning_status
        assert status != "ERROR"
        return status == "ACTIVE"

    until("the load balancer to be ACTIVE", is_active, BOOT, 2)


def test_a_server_boots_and_its_heartbeat_arrives(administrator: Connection, balancer: Any, report: Report) -> None:
    api: Any = administrator.load_balancer
    began = time.monotonic()
    until("ONLINE", lambda: api.get_load_balancer(balancer.id).operating_status == "ONLINE", 600, 2)
    report.add(amphora_seconds_from_active_to_online=round(time.monotonic() - began))
    (amphora,) = [each for each in api.amphorae() if each.loadbalancer_id == balancer.id]
    assert amphora.status == "ALLOCATED"
    assert amphora.lb_network_ip.startswith("10.254.0.")


def test_a_listener_of_http_answers(
    cluster: Kubernetes, cloud: Cloud, administrator: Connection, balancer: Any
) -> None:
    """haproxy itself redirects, so that no guest is needed."""
    api: Any = administrator.load_balancer
    listener = api.create_listener(load_balancer_id=balancer.id, protocol="HTTP", protocol_port=80)
    settle(api, balancer.id)
    policy = api.create_l7_policy(
        listener_id=listener.id, action="REDIRECT_TO_URL", redirect_url="http://elsewhere.example/"
    )
    settle(api, balancer.id)
    api.create_l7_rule(policy.id, type="PATH", compare_type="STARTS_WITH", value="/")
    settle(api, balancer.id)
    _, external, _ = proof.networks(administrator)
    ip = administrator.network.create_ip(
        floating_network_id=external.id, port_id=api.get_load_balancer(balancer.id).vip_port_id
    )
    client = proof.ExternalHost(cluster, cloud.namespace)
    try:

        def redirects() -> bool:
            answer = client.run(
                "curl", "-sS", "-m10", "-o/dev/null", "-w%{redirect_url}", f"http://{ip.floating_ip_address}/"
            )
            return "elsewhere.example" in (answer or "")

        until("a redirect", redirects, 300, 2)
    finally:
        administrator.network.delete_ip(ip)


def test_the_conditions_say_that_all_of_it_is_ready(cluster: Kubernetes, cloud: Cloud, balancer: Any) -> None:
    assert balancer
    (octavia,) = cluster.items("octavias.openstack.k8s.io", "-n", cloud.namespace)
    assert conditions(octavia)["AmphoraeReady"]["status"] == "True"
