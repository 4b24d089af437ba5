"""Servers of a cloud on Ceph, and what they boot from."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path
from typing import Any

from openstack.connection import Connection

from tools.chaos.servers import Guest
from tools.cloud import proof
from tools.localcluster.kubernetes import Kubernetes, module

from ..waiting import given_up, server_reaches, until
from .volumes import NAMESPACE


def raw(cluster: Kubernetes, conn: Connection, tmp_path: Path) -> Any:
    """The guest's image in the form RBD clones, uploaded once. A pod that has the program converts it."""
    images: Any = conn.image
    if found := images.find_image("raw"):
        return found
    source, disk = Path(module("images", "guest").strip().splitlines()[-1]), tmp_path / "guest.raw"
    script = (
        "base64 -d > guest.qcow2; qemu-img convert -O raw guest.qcow2 guest.raw; gzip -c guest.raw | base64; rm guest.*"
    )
    command = ("exec", "-i", "-n", NAMESPACE, "cinder-volume-ceph-0", "--", "sh", "-ec", f"cd /tmp; {script}")
    packed = cluster.kubectl(*command, stdin=base64.b64encode(source.read_bytes()).decode())
    disk.write_bytes(gzip.decompress(base64.b64decode(packed)))
    return images.create_image(
        "raw", filename=str(disk), disk_format="raw", container_format="bare", visibility="public", wait=True
    )


def booted(conn: Connection, name: str, **more: Any) -> Any:
    """A server, ACTIVE; what it boots from is in `more`."""
    network, _, group = proof.networks(conn)
    made = conn.compute.create_server(
        name=name,
        flavor_id=proof.flavor(conn).id,
        networks=[{"uuid": network.id}],
        security_groups=[{"name": group.name}],
        **more,
    )
    return server_reaches(conn, made.id, "ACTIVE")


def answering(conn: Connection, server: Any) -> Guest:
    """The server with a floating IP under which it answers."""
    _, external, _ = proof.networks(conn)
    port = next(iter(conn.network.ports(device_id=server.id)))
    address = proof.floating(conn, external, port)
    found = Guest(server.compute_host or "", server.id, port.fixed_ips[0]["ip_address"], address)
    until(f"the page of {server.name}", lambda: _answers(found), 300, failed=lambda: given_up(conn, server.id))
    return found


def _answers(guest: Guest) -> bool:
    try:
        return bool(guest.boot())
    except OSError:
        return False


def removed(conn: Connection, server: Any) -> None:
    """Deletes a server, and waits until it is gone."""
    conn.compute.delete_server(server)
    conn.compute.wait_for_delete(server, interval=0.5)
