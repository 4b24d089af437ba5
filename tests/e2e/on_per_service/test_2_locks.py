"""Two cinder-volume of one backend, which share their locks in etcd."""

from __future__ import annotations

import subprocess
import time
from typing import Any

from openstack.connection import Connection

from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes

from ..on_ceph.volumes import storage, volume
from ..waiting import until

# The address of its certificate.
_ETCDCTL = 'exec etcdctl --endpoints "$ETCD_ADVERTISE_CLIENT_URLS"'


def etcdctl(cloud: Cloud, words: str) -> tuple[str, ...]:
    """Arguments of kubectl for a command of etcdctl."""
    return ("exec", "-n", cloud.namespace, "etcd-server-0", "-c", "main", "--", "sh", "-c", f"{_ETCDCTL} {words}")


def test_both_take_volumes(conn: Connection) -> None:
    def hosts() -> bool:
        services: Any = storage(conn).services()
        up = {each.host for each in services if each.binary == "cinder-volume" and each.state == "up"}
        return {host.rpartition("-")[2] for host in up} == {"0@ceph", "1@ceph"}

    assert until("two cinder-volume to be up", hosts, 120, 2)


def test_each_of_them_is_a_member_in_etcd(cluster: Kubernetes, cloud: Cloud) -> None:
    found = cluster.kubectl(*etcdctl(cloud, "lease list")).split()
    # A line says how many there are.
    leases = [word for word in found if len(word) == 16 and set(word) <= set("0123456789abcdef")]
    assert len(leases) >= 2


def test_a_lock_on_a_volume_is_a_key_in_etcd(cluster: Kubernetes, cloud: Cloud, conn: Connection) -> None:
    held = volume(conn, "locked")
    watch = (*cluster.command(), *etcdctl(cloud, "watch --prefix /tooz"))
    with subprocess.Popen(watch, stdout=subprocess.PIPE) as watcher:
        try:
            # Until the watch has begun.
            time.sleep(3)
            storage(conn).delete_volume(held)
            storage(conn).wait_for_delete(held, interval=1, wait=120)
            time.sleep(1)
        finally:
            watcher.terminate()
        seen, _ = watcher.communicate(timeout=30)
    # The values are no text.
    assert f"/tooz/lockscinder-{held.id}-delete_volume".encode() in seen
