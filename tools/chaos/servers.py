"""One server on each compute node, and what tells whether it runs and is reached."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from keystoneauth1.exceptions import ClientException
from openstack.connection import Connection
from openstack.exceptions import SDKException

from tools.cloud import proof
from tools.localcluster.kubernetes import KubeError, Kubernetes

from .api import Api
from .site import until

_BOOT_TIMEOUT = 300.0
_PATIENCE = 900.0
_ANSWER = 2.0
"""Seconds within which a server's page must come."""


@dataclass
class Guest:
    """The server of a node."""

    node: str
    id: str
    fixed: str
    floating: str

    def page(self, path: str) -> str:
        """Return the answer of the server's own web server to a request from the external network."""
        with urllib.request.urlopen(f"http://{self.floating}/{path}", timeout=_ANSWER) as answer:
            return answer.read().decode().strip()

    def become(self, replacement: Guest) -> None:
        """Replace the node's server by another one, also for those who use this object."""
        self.id, self.fixed, self.floating = replacement.id, replacement.fixed, replacement.floating

    def boot(self) -> str:
        """Return a text that differs after each start of the server."""
        return self.page("boot")


def guests(connect: Callable[[], Connection], nodes: Sequence[str]) -> list[Guest]:
    """Return a server on each node, created if missing, which answers on a floating IP. Each try opens a new
    connection: one that met a service that did not answer never tries that service again.

    Raises KubeError if one is missing after some tries: a cloud that has just been made is slow on a busy machine.
    """
    return until("a server on each node", lambda: _guests(connect(), nodes), _PATIENCE, 5)


def only_guest(cluster: Kubernetes, namespace: str) -> Guest:
    """Return a server on the only compute node of a cluster, created if missing, which answers on a floating IP. Raises
    KubeError as `guests` does, ValueError for several nodes.
    """
    [node] = [node["metadata"]["name"] for node in cluster.items("nodes", "-l", "openstack-compute-node=enabled")]
    return guests(lambda: proof.connect(cluster, namespace), [node])[0]


def _guests(conn: Connection, nodes: Sequence[str]) -> list[Guest]:
    try:
        return _ready_guests(conn, nodes)
    except (SDKException, ClientException) as error:
        raise KubeError(str(error)) from None


def _ready_guests(conn: Connection, nodes: Sequence[str]) -> list[Guest]:
    image, flavor = proof.image(conn), proof.flavor(conn)
    network, external, group = proof.networks(conn)
    servers = {node: _server(conn, node, image, flavor, network, group) for node in nodes}
    guests: list[Guest] = []
    for node, server in servers.items():
        active = conn.compute.wait_for_server(server, interval=1, wait=_BOOT_TIMEOUT)
        port = next(iter(conn.network.ports(device_id=active.id)))
        address = proof.floating(conn, external, port)
        guests.append(Guest(node, active.id, port.fixed_ips[0]["ip_address"], address))
    for guest in guests:
        until(f"the page of the server on {guest.node}", lambda g=guest: _answers(g), _BOOT_TIMEOUT)
    return guests


def _server(conn: Connection, node: str, image: Any, flavor: Any, network: Any, group: Any) -> Any:
    name = f"chaos-{node}"
    server = conn.compute.find_server(name)
    if server and conn.compute.get_server(server).status == "ERROR":
        conn.compute.delete_server(server)
        conn.compute.wait_for_delete(server)
        server = None
    return server or conn.compute.create_server(
        name=name,
        image_id=image.id,
        flavor_id=flavor.id,
        networks=[{"uuid": network.id}],
        security_groups=[{"name": group.name}],
        availability_zone=f"nova:{node}",
    )


def _answers(guest: Guest) -> bool:
    try:
        return bool(guest.boot())
    except OSError:
        return False


@dataclass
class Floating:
    """Fetches a server's page through its floating IP."""

    guest: Guest
    interval: float = 1.0

    @property
    def kind(self) -> str:
        return f"floating IP of {self.guest.node}"

    def attempt(self, number: int) -> str:
        del number
        self.guest.boot()
        return ""


@dataclass
class Between:
    """Has one server fetch the page of the next by its fixed IP, over the nodes' tunnel."""

    guest: Guest
    peer: Guest
    interval: float = 1.0

    @property
    def kind(self) -> str:
        return f"{self.guest.node} to {self.peer.node}"

    def attempt(self, number: int) -> str:
        del number
        answer = self.guest.page(f"cgi-bin/reach?{self.peer.fixed}")
        if "unreachable" in answer:
            raise ConnectionError(answer)
        return ""


@dataclass
class Console:
    """Asks nova-compute of a node for a line of its server's console: a call over the broker and back."""

    api: Api
    guest: Guest
    interval: float = 3.0

    @property
    def kind(self) -> str:
        return f"RPC to {self.guest.node}"

    def attempt(self, number: int) -> str:
        del number
        body = {"os-getConsoleOutput": {"length": 1}}
        self.api.call("compute", "POST", f"/servers/{self.guest.id}/action", json=body)
        return ""


def statuses(api: Api, guests: Sequence[Guest]) -> dict[str, str]:
    """Return, by node, the status of its server as Nova has it."""
    listed = {server["id"]: server["status"] for server in api.listed("compute", "/servers/detail", "servers")}
    return {guest.node: listed.get(guest.id, "gone") for guest in guests}


def boots(guests: Sequence[Guest]) -> dict[str, str]:
    """Return, by node, a text that differs after each start of its server; empty if it does not answer."""
    texts: dict[str, str] = {}
    for guest in guests:
        try:
            texts[guest.node] = guest.boot()
        except OSError:
            texts[guest.node] = ""
    return texts
