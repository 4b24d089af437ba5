"""What is left when everything is deleted."""

from __future__ import annotations

from typing import Any

from openstack.connection import Connection

from tools.localcluster.kubernetes import Kubernetes

from ..waiting import until
from .volumes import USES, images, storage


def test_deletion_leaves_the_pools_empty(cluster: Kubernetes, conn: Connection) -> None:
    for server in conn.compute.servers(all_projects=True):
        conn.compute.delete_server(server)
        conn.compute.wait_for_delete(server, interval=0.5)
    for backup in storage(conn).backups():
        storage(conn).delete_backup(backup)
    for snapshot in storage(conn).snapshots():
        storage(conn).delete_snapshot(snapshot)
    until("snapshots to go", lambda: not list(storage(conn).snapshots()), 120, 1)
    for held in storage(conn).volumes():
        storage(conn).delete_volume(held)
    until("volumes and backups to go", lambda: not [*storage(conn).volumes(), *storage(conn).backups()], 180, 1)
    kept: Any = conn.image
    for image in kept.images():
        kept.delete_image(image)
    for pool in USES:
        # What was deleted while a clone of it was there goes a little later.
        until(f"pool {pool} to be empty", lambda p=pool: not images(cluster, p), 120, 2)
