"""Octavia: a load balancer over two guests, whose health monitor notices that one is gone, for TCP and UDP."""

from __future__ import annotations

import base64
from collections.abc import Callable, Generator
from typing import Any

import pytest
from openstack.connection import Connection

from tools.cloud import proof
from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes

from ..waiting import server_reaches, until

NAME = "octavia-test"
GUESTS = ("first", "second")
API = "openstack.k8s.io/kind=octavia,app.kubernetes.io/component=api"
UDP_PORT = 5300
# No program of a guest takes datagrams. Its kernel counts those that came in vain (`NoPorts`), and this page shows it.
_USER_DATA = """#!/bin/sh
printf '#!/bin/sh\\necho; hostname; grep ^Udp: /proc/net/snmp\\n' > /www/cgi-bin/udp
chmod +x /www/cgi-bin/udp
"""
# A balancer chooses by the client's port.
_SEND = """
import socket, sys
for _ in range(20):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x", (sys.argv[1], int(sys.argv[2])))
"""


class Balancer:
    """A load balancer of the administrator's project, with a floating IP; the one that there is, or a new one."""

    def __init__(self, conn: Connection, subnet: Any) -> None:
        self._api: Any = conn.load_balancer
        self._subnet = subnet.id
        existing = self._api.find_load_balancer(NAME, ignore_missing=True)
        self.balancer = existing or self._api.create_load_balancer(name=NAME, vip_subnet_id=subnet.id)
        self.settles()

    def settles(self) -> None:
        """What was asked for is carried out. It never goes into ERROR."""

        def has_settled() -> bool:
            status = self._api.get_load_balancer(self.balancer.id).provisioning_status
            assert status != "ERROR"
            return status == "ACTIVE"

        until("the load balancer to be ACTIVE", has_settled, 60, 0.5)

    def make(self, kind: str, *parents: str, **body: Any) -> Any:
        made = getattr(self._api, f"create_{kind}")(*parents, **body)
        self.settles()
        return made

    def pool(self, protocol: str, port: int, addresses: list[str]) -> Any:
        listener = self.make("listener", load_balancer_id=self.balancer.id, protocol=protocol, protocol_port=port)
        pool = self.make("pool", listener_id=listener.id, protocol=protocol, lb_algorithm="SOURCE_IP_PORT")
        for address in addresses:
            self.make("member", pool.id, address=address, protocol_port=port, subnet_id=self._subnet)
        return pool

    def member_status(self, pool: Any, address: str) -> str:
        (member,) = [each for each in self._api.members(pool.id) if each.address == address]
        return str(member.operating_status)

    def delete(self) -> None:
        self._api.delete_load_balancer(self.balancer.id, cascade=True)

        def is_gone() -> bool:
            return self._api.find_load_balancer(self.balancer.id, ignore_missing=True) is None

        until("the load balancer to be gone", is_gone, 120, 1)


@pytest.fixture(name="group", scope="module")
def _group(administrator: Connection) -> Generator[Any]:
    """A security group that admits clients and the health monitor."""
    net: Any = administrator.network
    group = net.create_security_group(name=NAME)
    for protocol, port in (("tcp", 80), ("udp", UDP_PORT)):
        net.create_security_group_rule(
            security_group_id=group.id,
            direction="ingress",
            ether_type="IPv4",
            protocol=protocol,
            port_range_min=port,
            port_range_max=port,
        )
    yield group
    net.delete_security_group(group)


@pytest.fixture(name="guests", scope="module")
def _guests(administrator: Connection, group: Any) -> Generator[dict[str, Any]]:
    """Two servers in the network of the proof, by their addresses."""
    image, flavor = proof.image(administrator), proof.flavor(administrator)
    network, _, _ = proof.networks(administrator)
    servers = [
        administrator.compute.create_server(
            name=name,
            image_id=image.id,
            flavor_id=flavor.id,
            networks=[{"uuid": network.id}],
            security_groups=[{"name": group.name}],
            user_data=base64.b64encode(_USER_DATA.encode()).decode(),
        )
        for name in GUESTS
    ]
    for server in servers:
        server_reaches(administrator, server.id, "ACTIVE")
    ports = {server.id: next(iter(administrator.network.ports(device_id=server.id))) for server in servers}
    yield {ports[server.id].fixed_ips[0]["ip_address"]: server for server in servers}
    for server in servers:
        administrator.compute.delete_server(server)
        administrator.compute.wait_for_delete(server)


@pytest.fixture(name="balancer", scope="module")
def _balancer(administrator: Connection, guests: dict[str, Any]) -> Generator[Balancer]:
    assert guests
    made = Balancer(administrator, administrator.network.find_subnet(proof.NAME))
    yield made
    made.delete()


@pytest.fixture(name="address", scope="module")
def _address(administrator: Connection, balancer: Balancer) -> Generator[str]:
    """The floating IP of the load balancer."""
    _, external, _ = proof.networks(administrator)
    ip = administrator.network.create_ip(floating_network_id=external.id, port_id=balancer.balancer.vip_port_id)
    yield ip.floating_ip_address
    administrator.network.delete_ip(ip)


def asked(cluster: Kubernetes, cloud: Cloud, address: str) -> Callable[[], str]:
    """Return what returns the name of the guest that answers a new connection; empty without an answer."""
    client = proof.ExternalHost(cluster, cloud.namespace)

    def answer() -> str:
        return (client.run("curl", "-sS", "-m3", f"http://{address}/") or "").strip()

    return answer


def test_connections_are_distributed_and_a_stopped_guest_leaves(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, guests: dict[str, Any], balancer: Balancer, address: str
) -> None:
    pool = balancer.pool("TCP", 80, [*guests])
    balancer.make("health_monitor", pool_id=pool.id, type="TCP", delay=3, timeout=2, max_retries=1, max_retries_down=1)
    answer = asked(cluster, cloud, address)
    for name in GUESTS:
        until(f"an answer of {name}", lambda name=name: answer() == name, 120, 0.2)
    stopped, server = next(iter(guests.items()))
    (other,) = [each.name for each in guests.values() if each.id != server.id]
    conn.compute.stop_server(server)
    until("the stopped guest to be in ERROR", lambda: balancer.member_status(pool, stopped) == "ERROR", 120, 1)
    answers = [answer() for _ in range(20)]
    # Later tests need both guests, whatever this one finds.
    conn.compute.start_server(server)
    until("the guest to be back", lambda: balancer.member_status(pool, stopped) == "ONLINE", 180, 1)
    until("an answer of it", lambda: answer() == server.name, 120, 0.2)
    assert answers == [other] * 20


def test_datagrams_reach_both_guests(
    cluster: Kubernetes, cloud: Cloud, guests: dict[str, Any], balancer: Balancer, address: str
) -> None:
    client = proof.ExternalHost(cluster, cloud.namespace)

    def arrived() -> dict[str, int]:
        """Number of datagrams that came to each guest."""
        seen: dict[str, int] = {}

        def ask() -> bool:
            page = client.run("curl", "-sS", "-m3", f"http://{address}/cgi-bin/udp") or ""
            match page.strip().split("\n"):
                case [name, _, counts] if name in GUESTS:
                    # Udp: InDatagrams NoPorts …
                    seen[name] = int(counts.split()[2])
                case _:
                    pass
            return len(seen) == len(GUESTS)

        until("an answer of both guests", ask, 120, 0.2)
        return seen

    def send() -> None:
        client.run("python3", "-c", _SEND, address, str(UDP_PORT))

    before = arrived()
    send()
    assert arrived() == before
    balancer.pool("UDP", UDP_PORT, [*guests])

    def reach_both() -> bool:
        send()
        return all(number > before[name] for name, number in arrived().items())

    until("datagrams to reach both guests", reach_both, 60, 1)


def test_health_monitors_are_followed_after_the_loss_of_a_pod(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, guests: dict[str, Any], balancer: Balancer, address: str
) -> None:
    (pool,) = [each for each in conn.load_balancer.pools() if each.protocol == "TCP"]
    answer = asked(cluster, cloud, address)
    before = {pod["metadata"]["name"] for pod in cluster.items("pods", "-n", cloud.namespace, "-l", API)}
    cluster.kubectl("delete", "pod", "-n", cloud.namespace, "-l", API, "--grace-period=0", "--force", "--wait=false")
    # Nothing of Octavia is in the way of the packets.
    assert answer() in GUESTS

    def is_back() -> bool:
        pods = cluster.items("pods", "-n", cloud.namespace, "-l", API)
        ready = [
            each["type"] == "Ready" and each["status"] == "True"
            for pod in pods
            for each in pod["status"].get("conditions", ())
        ]
        return any(ready) and not before & {pod["metadata"]["name"] for pod in pods}

    until("another pod of the API", is_back, 240, 1)
    stopped, server = next(iter(guests.items()))
    conn.compute.stop_server(server)
    until("the stopped guest to be in ERROR", lambda: balancer.member_status(pool, stopped) == "ERROR", 120, 1)
    conn.compute.start_server(server)
    until("the guest to be back", lambda: balancer.member_status(pool, stopped) == "ONLINE", 180, 1)
