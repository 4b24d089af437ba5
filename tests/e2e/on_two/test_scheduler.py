"""Where a server lands is what the external scheduler says, and where that is gone, what Nova says.

Two nodes that are alike, and a server on one of them, by which it has less memory left: Nova's own weighers prefer the
other one, each by itself and together.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from openstack.connection import Connection

from tools.cloud import proof
from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes

from ..facts import ready_again
from ..waiting import server_reaches
from .conftest import NAMESPACE, PAUSE

_LARGER = {"ram": 512, "vcpus": 2, "disk": 2}


def _booted(conn: Connection, name: str, flavor: Any, **more: Any) -> Any:
    """A server, ACTIVE."""
    network, _, group = proof.networks(conn)
    made = conn.compute.create_server(
        name=name,
        image_id=proof.image(conn).id,
        flavor_id=flavor.id,
        networks=[{"uuid": network.id}],
        security_groups=[{"name": group.name}],
        **more,
    )
    return server_reaches(conn, made.id, "ACTIVE")


def _removed(conn: Connection, server: Any) -> None:
    conn.compute.delete_server(server)
    conn.compute.wait_for_delete(server, interval=0.5)


def _node(conn: Connection, server: Any) -> str:
    """Where it is, which only the administrator is told."""
    host = conn.compute.get_server(server).compute_host
    assert host
    return host


def _lands(conn: Connection, name: str) -> str:
    """The node a server is sent to that asks for none."""
    server = _booted(conn, name, proof.flavor(conn))
    try:
        return _node(conn, server)
    finally:
        _removed(conn, server)


@contextmanager
def _fuller(conn: Connection, node: str) -> Generator[None]:
    """A node has less left than the other one. Who is told where to go is asked about by nobody."""
    flavor = conn.compute.find_flavor("m1.larger") or conn.compute.create_flavor(name="m1.larger", **_LARGER)
    server = _booted(conn, "ballast", flavor, availability_zone=f"nova:{node}")
    assert _node(conn, server) == node
    try:
        yield
    finally:
        _removed(conn, server)


def _changed(cluster: Kubernetes, cloud: Cloud, **cortex: Any) -> None:
    """The cloud's Cortex is another one, and the cloud Ready again."""
    patch = json.dumps({"spec": {"cortex": cortex}})
    cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", NAMESPACE, "--type=merge", "-p", patch)
    ready_again(cluster, cloud, 180)


def _prefers(weight: int) -> dict[str, Any]:
    return {"nova": {"weighers": [{"name": "RAMWeigher", "weight": weight}]}}


def _answers(cluster: Kubernetes) -> int:
    """Questions Cortex has answered with hosts."""
    script = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8080/metrics').read().decode())"
    text = cluster.kubectl("exec", "-n", NAMESPACE, "deploy/cortex-api", "-c", "main", "--", "python3", "-c", script)
    found = re.search(r'^cortex_answers_total\{pipeline="nova",code="200"\} (\d+)$', text, re.MULTILINE)
    return int(found[1]) if found else 0


def test_cortex_tells_where_it_is_and_what_it_answers(cluster: Kubernetes) -> None:
    status = cluster.get("cortexes.cortex.c5c3.io", "cortex", "-n", NAMESPACE)["status"]
    assert status["endpoint"] == f"https://cortex.{NAMESPACE}.svc.cluster.local:8080"
    assert status["activePipelines"] == ["nova"]
    found = {condition["type"]: condition["status"] for condition in status["conditions"]}
    assert (found["Ready"], found["PipelinesReady"]) == ("True", "True")


def test_the_ranking_decides_against_novas_own_order(cluster: Kubernetes, conn: Connection, nodes: list[str]) -> None:
    """Either node, so that no habit of Nova's explains it."""
    before = _answers(cluster)
    for node in nodes:
        with _fuller(conn, node):
            assert _lands(conn, f"to-{node}") == node
    # Those that were told where to go are not among them.
    assert _answers(cluster) == before + len(nodes)


def test_another_ranking_is_another_node(cluster: Kubernetes, cloud: Cloud, conn: Connection, nodes: list[str]) -> None:
    _changed(cluster, cloud, pipelines=_prefers(1))
    with _fuller(conn, nodes[0]):
        assert _lands(conn, "to-the-other") == nodes[1]
    _changed(cluster, cloud, pipelines=_prefers(-1))


def test_several_servers_of_one_request_are_ranked_one_after_the_other(conn: Connection, nodes: list[str]) -> None:
    network, _, group = proof.networks(conn)
    with _fuller(conn, nodes[1]):
        conn.compute.create_server(
            name="several",
            image_id=proof.image(conn).id,
            flavor_id=proof.flavor(conn).id,
            networks=[{"uuid": network.id}],
            security_groups=[{"name": group.name}],
            min_count=2,
            max_count=2,
        )
        made = [server for server in conn.compute.servers() if server.name.startswith("several")]
        assert len(made) == 2
        servers = [server_reaches(conn, server.id, "ACTIVE") for server in made]
        found = [_node(conn, server) for server in servers]
        for server in servers:
            _removed(conn, server)
    assert found == [nodes[1]] * 2


def test_without_it_novas_own_order_holds_and_servers_boot(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, nodes: list[str]
) -> None:
    full, empty = nodes
    with _fuller(conn, full):
        assert _lands(conn, "with-it") == full
        _changed(cluster, cloud, replicas=0)
        began = time.monotonic()
        assert _lands(conn, "without-it") == empty
        assert time.monotonic() - began < 120
        assert _lands(conn, "without-it-again") == empty
        _changed(cluster, cloud, replicas=1)
        # Nova asks again once its pause is over.
        time.sleep(PAUSE + 1)
        assert _lands(conn, "with-it-again") == full
