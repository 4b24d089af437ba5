"""What goes between two nodes and a Ceph, and another authority while a server moves."""

from __future__ import annotations

import time

from openstack.connection import Connection

from tools.chaos.servers import Guest
from tools.cloud import proof
from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import KubeError, Kubernetes
from tools.localcluster.layout import Cluster

from ..conftest import Report
from ..facts import ready_again
from ..on_tls.capture import capture
from ..on_tls.hops import (
    CONSOLE,
    SILENCE,
    TRUST,
    asking,
    calm_silence,
    inside,
    markers,
    replaced_by_another,
    rotations,
)
from ..waiting import until
from .servers import booted, removed
from .volumes import NAMESPACE, attach, detach, pinging, storage, volume

# Names of objects every client of RBD sends.
RBD = {"an image of RBD": b"rbd_header.", "data of RBD": b"rbd_data."}


def test_traffic_between_nodes_is_unreadable(
    cluster: Kubernetes, conn: Connection, pair: list[Guest], report: Report
) -> None:
    """While a volume is made of an image and attached, a server booted, and a console opened."""
    sought, image = markers(cluster) | RBD, proof.image(conn)
    with capture(Cluster(), sought) as one, capture(Cluster(), sought, 2) as other:
        made = volume(conn, "seen", image_id=image.id)
        disk = attach(conn, pair[0], made)
        detach(conn, pair[0], made, disk)
        server = booted(conn, "seen", image_id=image.id)
        console = conn.compute.create_console(server, "novnc") or {}
        assert inside(cluster, CONSOLE, TRUST, str(console.get("url"))) == "101 RFB"
        removed(conn, server)
        storage(conn).delete_volume(made)
    for taken in (one, other):
        assert taken.packets > 1000
        assert taken.dropped == 0
        assert taken.found == {}
    report.add(ceph_captured_packets=one.packets + other.packets, ceph_captured_bytes=one.size + other.size)


def test_a_server_moves_while_an_authority_is_replaced(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, pair: list[Guest], report: Report
) -> None:
    guest, nodes, calm = pair[0], [each.node for each in pair], calm_silence(cluster)
    boot, started = guest.boot(), time.monotonic()
    moves: list[str] = []
    with asking(cluster) as told, pinging(guest) as gaps:
        replaced_by_another(cluster)
        # There and back as long as it takes, so that some are in each of its steps.
        while (now := rotations(cluster)) != {"Ready"} or not moves:
            assert time.monotonic() - started < 2400, f"still {now}"
            to = next(node for node in nodes if node != _host(conn, guest))
            # Nova takes what is asked of a node whose nova-compute starts for what an earlier one left.
            until("nova-compute to run on both nodes", lambda: _listening(cluster, conn) == set(nodes), 300, 1)
            conn.compute.live_migrate_server(guest.id, host=to, block_migration=False)
            try:
                until(f"the server to be on {to}", lambda to=to: _host(conn, guest) == to, 300, 1)
            except KubeError as error:
                found = conn.compute.get("/os-migrations").json()["migrations"]
                raise KubeError(
                    f"{error}, after {moves}, in {now}; {conn.compute.get_server(guest.id)}; {found}"
                ) from None
            moves.extend(now or {"begun"})
            # Servers do not move all the time; a migration costs this machine what the rotation needs.
            time.sleep(20)
        ready_again(cluster, cloud, 600)
    report.add(
        ceph_authority_seconds=round(time.monotonic() - started, 1),
        ceph_authority_moves={step: moves.count(step) for step in sorted(set(moves))},
        ceph_authority_answered_requests=told.answered,
        ceph_authority_failed_requests=told.failed,
        ceph_authority_longest_silence_seconds=round(max(gaps), 1),
        ceph_authority_longest_silence_of_requests=round(told.silence, 1),
        ceph_authority_silence_before=round(calm, 1),
    )
    assert guest.boot() == boot, "it was never started anew"
    assert {"Trusting", "Renewing"} <= set(moves)
    assert told.failed == []
    SILENCE.judge({"requests": told.silence}, {"requests": calm})


def _host(conn: Connection, guest: Guest) -> str:
    server = conn.compute.get_server(guest.id)
    return server.compute_host if server.status == "ACTIVE" else ""


def _listening(cluster: Kubernetes, conn: Connection) -> set[str]:
    """Nodes whose nova-compute has told of itself since it was started, which it does once it listens."""
    pods = cluster.items("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=cell1-compute")
    since = {pod["spec"]["nodeName"]: pod["status"].get("startTime", "Z") for pod in pods}
    ending = {pod["spec"]["nodeName"] for pod in pods if "deletionTimestamp" in pod["metadata"]}
    told = {each.host: str(each.updated_at) for each in conn.compute.services(binary="nova-compute")}
    return {node for node, at in since.items() if node not in ending and told.get(node, "")[:19] > at[:19]}
