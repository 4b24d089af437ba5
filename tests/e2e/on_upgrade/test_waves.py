"""An upgrade that halts after one of two compute nodes: servers boot on both, and move from each to the other.
Tempest's smoke set passes before it, while it halts, and after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openstack.connection import Connection

from tools.cloud import deploy, proof
from tools.cloud.session import MINIMAL, Cloud, Session
from tools.localcluster.kubernetes import Kubernetes, module

from ..conftest import CABLED, Report, stands
from ..on_tempest.conftest import furnish, tempest
from ..on_tempest.expectations import SETS, SMOKE_WITHOUT_VOLUMES
from ..on_tempest.names import of_pattern
from ..on_tempest.runs import run
from ..outcomes import differences
from ..waiting import server_reaches, until
from .releases import MAJOR, NEW, OLD
from .test_upgrade import patched, upgraded

CANARY = "openstack-canary"


@pytest.fixture(scope="module")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The minimal cloud on two nodes, Ready, of which the first is a canary."""
    with stands(MINIMAL, _canaries, nodes=2) as found:
        session = found[0]
        images = deploy.images(MINIMAL, NEW)
        module("images", "build", *images)
        module("images", "load", *images)
        deploy.install(session.cluster, releases=[NEW])
        furnish(session.cluster, found[1].namespace)
        session.cluster.kubectl("label", "node", _nodes(session.cluster)[0], f"{CANARY}=true", "--overwrite")
        yield found


def _canaries(spec: dict[str, Any]) -> None:
    spec["ovn"] = {**spec.get("ovn", {}), **CABLED}
    rollout = {"canaries": {"nodeSelector": {CANARY: "true"}, "only": True}}
    spec["nova"] = {**spec.get("nova", {}), "compute": {"rollout": rollout}}
    spec["tempest"] = tempest("openstack")


def _nodes(cluster: Kubernetes) -> list[str]:
    return sorted(node["metadata"]["name"] for node in cluster.items("nodes", "-l", "openstack-compute-node=enabled"))


@pytest.fixture
def nodes(cluster: Kubernetes) -> list[str]:
    found = _nodes(cluster)
    assert len(found) == 2
    return found


def _versions(cluster: Kubernetes, cloud: Cloud) -> dict[str, int]:
    """Return the major version of nova-compute by node, asked in the containers."""
    component = "app.kubernetes.io/component=cell1-compute"
    code = "import importlib.metadata; print(importlib.metadata.version('nova'))"
    found: dict[str, int] = {}
    for pod in cluster.items("pods", "-n", cloud.namespace, "-l", component, "--field-selector=status.phase=Running"):
        name = pod["metadata"]["name"]
        text = cluster.kubectl("exec", "-n", cloud.namespace, name, "-c", "main", "--", "python3", "-c", code)
        found[pod["spec"]["nodeName"]] = int(text.partition(".")[0])
    return found


def _compute(cluster: Kubernetes, cloud: Cloud) -> tuple[str, dict[str, int]]:
    """Return the reason of ComputeRolloutReady, and the number of nodes by their release."""
    status = cluster.get("novas.openstack.k8s.io", "nova", "-n", cloud.namespace)["status"]
    reasons = {each["type"]: each["reason"] for each in status["conditions"]}
    counts = {each["name"]: each["nodes"] for each in status.get("compute", {}).get("releases", ())}
    return reasons.get("ComputeRolloutReady", ""), counts


def _smoke(cluster: Kubernetes, cloud: Cloud, report: Report, when: str) -> None:
    """Tempest's smoke set passes."""
    outcome = run(cluster, cloud, "smoke", when)
    report.add(**{f"upgrade_smoke_{when}": {"passed": len(outcome.passed), "skipped": outcome.skipped}})
    assert outcome.failed == []
    assert differences(outcome, of_pattern(SETS["smoke"])) == []
    assert len(outcome.passed) == SMOKE_WITHOUT_VOLUMES


def test_the_smoke_set_passes_before(cluster: Kubernetes, cloud: Cloud, report: Report) -> None:
    _smoke(cluster, cloud, report, "before")


def test_rollout_halts_after_the_canary(cluster: Kubernetes, cloud: Cloud, nodes: list[str]) -> None:
    patched(cluster, cloud, release=NEW)
    until("a halt", lambda: _compute(cluster, cloud) == ("RolloutPaused", {OLD: 1, NEW: 1}), 900, 2, stages=())
    assert _versions(cluster, cloud) == {nodes[0]: MAJOR[NEW]["nova"], nodes[1]: MAJOR[OLD]["nova"]}


def _booted(conn: Connection, name: str, node: str) -> Any:
    network, _, group = proof.networks(conn)
    made = conn.compute.create_server(
        name=name,
        image_id=proof.image(conn).id,
        flavor_id=proof.flavor(conn).id,
        networks=[{"uuid": network.id}],
        security_groups=[{"name": group.name}],
        availability_zone=f"nova:{node}",
    )
    return server_reaches(conn, made.id, "ACTIVE")


def _moves(conn: Connection, server: Any, node: str) -> None:
    conn.compute.live_migrate_server(server.id, host=node, block_migration="auto")
    until(f"{server.name} to be on {node}", lambda: conn.compute.get_server(server.id).compute_host == node, 300, 1)
    server_reaches(conn, server.id, "ACTIVE")


@pytest.mark.parametrize("first", [0, 1], ids=["from the new release", "from the old release"])
def test_servers_move_between_the_releases(conn: Connection, nodes: list[str], first: int) -> None:
    server = _booted(conn, f"mixed-{first}", nodes[first])
    for number in (1 - first, first):
        _moves(conn, server, nodes[number])
    conn.compute.delete_server(server)
    conn.compute.wait_for_delete(server, interval=0.5)


def test_the_smoke_set_passes_half_way(cluster: Kubernetes, cloud: Cloud, report: Report) -> None:
    _smoke(cluster, cloud, report, "half-way")


def test_rollout_goes_on_and_completes_without_canaries(cluster: Kubernetes, cloud: Cloud, nodes: list[str]) -> None:
    patched(cluster, cloud, nova={"compute": {"rollout": {"canaries": None}}})
    upgraded(cluster, cloud, NEW)
    assert _versions(cluster, cloud) == dict.fromkeys(nodes, MAJOR[NEW]["nova"])
    assert _compute(cluster, cloud) == ("Ready", {NEW: 2})


def test_the_smoke_set_passes_after(cluster: Kubernetes, cloud: Cloud, report: Report) -> None:
    _smoke(cluster, cloud, report, "after")
