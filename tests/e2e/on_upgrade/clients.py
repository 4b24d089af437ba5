"""Users of a cloud during an upgrade: each asks the same thing again and again."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from openstack.connection import Connection

from tools.cloud import proof
from tools.localcluster.kubernetes import Kubernetes

from ..on_ceph.volumes import storage

INTERVAL = 0.2
"""Seconds from one request to the next."""
PING = "ping of the server"


@dataclass
class Asking:
    """A client with one question, which is a whole exchange: a login, a list, a port made and removed."""

    kind: str
    ask: Callable[[], object]
    interval: float = INTERVAL

    def attempt(self, number: int) -> str:
        del number
        self.ask()
        return ""


def clients(cluster: Kubernetes, namespace: str, address: str, network: str) -> list[Asking]:
    """Return a user of each API, each with a connection of its own, and one who pings a server's floating IP."""
    tokens, compute, ports, images, placement, volumes, stacks = (proof.connect(cluster, namespace) for _ in range(7))
    orchestration: Any = stacks.orchestration
    return [
        Asking("token", partial(_token, tokens)),
        Asking("servers", lambda: list(compute.compute.servers())),
        Asking("port", partial(_port, ports, network)),
        Asking("images", lambda: list(images.image.images())),
        Asking("resource providers", lambda: list(placement.placement.resource_providers())),
        Asking("volumes", lambda: list(storage(volumes).volumes())),
        Asking("stacks", lambda: list(orchestration.stacks())),
        Asking(PING, partial(ping, address)),
    ]


def _token(conn: Connection) -> None:
    """Log in anew."""
    session: Any = conn.session
    session.auth.invalidate()
    conn.authorize()


def _port(conn: Connection, network: str) -> None:
    """Make a port and remove it."""
    port = conn.network.create_port(network_id=network, name="upgrade")
    conn.network.delete_port(port, ignore_missing=False)


def ping(address: str) -> None:
    """Ping an address from this machine, which routes the external network. Raises ConnectionError without an answer
    within a second.
    """
    command = ["ping", "-c1", "-W1", address]
    if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode:
        raise ConnectionError(f"no answer from {address}")
