"""From 2025.1 to 2026.1 and part of the way back, on two nodes with a Ceph, while a user asks every API, pings a server
and writes to a volume.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

import pytest
from openstack.connection import Connection

from tests.judging import Allowance
from tools.chaos.journal import Journal, now
from tools.chaos.load import Load
from tools.chaos.servers import Guest, guests
from tools.cloud import deploy, proof, view
from tools.cloud.session import SAMPLES, Cloud, Session
from tools.localcluster.kubernetes import ROOT, Kubernetes, module

from ..conftest import CABLED, Report, stands
from ..on_ceph.servers import answering, booted, removed
from ..on_ceph.volumes import Disks, attach, volume, writing
from ..on_services.stacks import Stack, network
from ..waiting import until
from .clients import PING, clients, ping
from .releases import MAJOR, NEW, OLD, only, pods, versions

SAMPLE = SAMPLES / "controlplane_ceph.yaml"

KIND = "openstackcontrolplanes"
JOURNAL = ROOT / "build" / "upgrade.jsonl"
"""Each request of the upgrade."""
SHARE, PINGS = 0.999, 3
"""Requests answered, and pings lost in a row: a new ovn-controller leaves the flows of its node as they are."""
GAP = Allowance(
    2.0,
    "each API has two pods, of which one serves while the other is replaced, and a request takes less than a second on"
    " a machine with a core for it",
)
"""Longest time without an answer, in seconds."""
WRITE_PAUSE = 0.5
"""Seconds between two writes to a volume: without a pause, one writer keeps half a core busy, and its thousands of
writes are read one by one in the end.
"""
CALM = 60
"""Seconds for which the same users are measured before the upgrade."""


@pytest.fixture(scope="module")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """A cloud with two pods of each API, Ready, in a cluster that has the images of both releases."""
    with stands(SAMPLE, _change, nodes=2) as found:
        session = found[0]
        images = [*deploy.images(SAMPLE, NEW), f"heat-{NEW}"]
        module("images", "build", *images)
        module("images", "load", *images)
        deploy.install(session.cluster, releases=[NEW])
        yield found


def _change(spec: dict[str, Any]) -> None:
    spec["ovn"] = {**spec.get("ovn", {}), **CABLED}
    for service in ("keystone", "glance", "placement", "neutron", "nova", "cinder"):
        spec[service] = {**spec.get(service, {}), "replicas": 2}
    spec["heat"] = {"enabled": True, "api": {"replicas": 2}, "engine": {"replicas": 2}}


@pytest.fixture(scope="module")
def pair(stood: tuple[Session, Cloud]) -> list[Guest]:
    """A server on each node, which answers at its floating IP."""
    cluster, namespace = stood[0].cluster, stood[1].namespace
    nodes = sorted(node["metadata"]["name"] for node in cluster.items("nodes", "-l", "openstack-compute-node=enabled"))
    return guests(partial(proof.connect, cluster, namespace), nodes)


@pytest.fixture(scope="module")
def stack(stood: tuple[Session, Cloud]) -> Stack:
    """A stack of a network and a secret."""
    made = Stack(proof.connect(stood[0].cluster, stood[1].namespace), "upgrade", network(20))
    made.reaches("CREATE_COMPLETE")
    return made


def patched(cluster: Kubernetes, cloud: Cloud, **spec: Any) -> None:
    cluster.kubectl("patch", KIND, cloud.name, "-n", cloud.namespace, "--type=merge", "-p", json.dumps({"spec": spec}))


def plane(cluster: Kubernetes, cloud: Cloud) -> dict[str, Any]:
    return cluster.get(KIND, cloud.name, "-n", cloud.namespace)


def condition(cluster: Kubernetes, cloud: Cloud, name: str) -> dict[str, Any]:
    return view.conditions(plane(cluster, cloud)).get(name, {})


def upgraded(cluster: Kubernetes, cloud: Cloud, release: str, timeout: float = 900) -> float:
    """Return the seconds until the cloud is Ready with a release, from now."""
    began = time.monotonic()

    def is_done() -> bool:
        found = plane(cluster, cloud)
        return view.ready(found) and found["status"].get("release") == release

    until(f"release {release}", is_done, timeout, 2, stages=())
    return round(time.monotonic() - began, 1)


@pytest.mark.usefixtures("pair", "stack")
def test_a_check_alone_changes_no_pod(cluster: Kubernetes, cloud: Cloud, report: Report) -> None:
    before = pods(cluster, cloud)
    began = time.monotonic()
    patched(cluster, cloud, upgrade={"checkRelease": NEW})
    until(
        "the result of the check", lambda: condition(cluster, cloud, "PreflightReady").get("status") == "True", 300, 1
    )
    report.add(upgrade_check_seconds=round(time.monotonic() - began, 1))
    assert pods(cluster, cloud).items() >= before.items()
    assert versions(cluster, cloud) == only(OLD)


def test_a_release_that_does_not_exist_changes_no_pod(cluster: Kubernetes, cloud: Cloud) -> None:
    before = pods(cluster, cloud)
    patched(cluster, cloud, release="2026.2", upgrade=None)
    message = "there is no release '2026.2'; choose from"
    until("a refusal", lambda: message in condition(cluster, cloud, "Ready")["message"], 60, 1, stages=())
    patched(cluster, cloud, release=OLD)
    upgraded(cluster, cloud, OLD)
    assert pods(cluster, cloud).items() >= before.items()


def test_an_option_that_the_new_release_lacks_changes_no_pod(cluster: Kubernetes, cloud: Cloud) -> None:
    """Neutron 2026.1 has no `ovn_emit_need_to_frag`."""
    patched(cluster, cloud, neutron={"config": {"ovn": {"ovn_emit_need_to_frag": True}}})
    upgraded(cluster, cloud, OLD)
    before = pods(cluster, cloud)
    patched(cluster, cloud, release=NEW)
    until(
        "a failed check",
        lambda: "ovn_emit_need_to_frag" in condition(cluster, cloud, "PreflightReady").get("message", ""),
        300,
        1,
        stages=(),
    )
    assert pods(cluster, cloud).items() >= before.items()
    patched(cluster, cloud, release=OLD, neutron={"config": None})
    upgraded(cluster, cloud, OLD)


def test_an_upgrade_can_be_taken_back(cluster: Kubernetes, cloud: Cloud, pair: list[Guest], report: Report) -> None:
    """Once a new API serves: the old release is back, no job fails, and the servers run on."""
    patched(cluster, cloud, release=NEW)
    until("a new Keystone", lambda: MAJOR[NEW]["keystone"] in versions(cluster, cloud).get("keystone", set()), 600, 1)
    report.add(upgrade_back_seconds=_taken_back(cluster, cloud, pair))


def test_an_upgrade_can_be_taken_back_until_its_last_step(
    cluster: Kubernetes, cloud: Cloud, pair: list[Guest], report: Report
) -> None:
    """Nova refuses to start a program that is older than all others of its kind, unless its image is ours."""
    patched(cluster, cloud, release=NEW, upgrade={"complete": False})
    until("all programs to be new", lambda: versions(cluster, cloud) == only(NEW), 900, 2, stages=())
    report.add(upgrade_back_from_all_seconds=_taken_back(cluster, cloud, pair))


def _taken_back(cluster: Kubernetes, cloud: Cloud, pair: list[Guest]) -> float:
    """Take an upgrade back, and return the seconds until all programs are old again."""
    began = time.monotonic()
    patched(cluster, cloud, release=OLD, upgrade=None)
    upgraded(cluster, cloud, OLD)
    seconds = round(time.monotonic() - began, 1)
    assert versions(cluster, cloud) == only(OLD)
    jobs = cluster.items("jobs", "-n", cloud.namespace)
    assert not [job["metadata"]["name"] for job in jobs if job["status"].get("failed")]
    for guest in pair:
        ping(guest.floating)
    return seconds


def test_a_cloud_is_upgraded_without_interruption_for_its_users(
    cluster: Kubernetes, cloud: Cloud, pair: list[Guest], report: Report
) -> None:
    conn, guest = proof.connect(cluster, cloud.namespace), pair[0]
    port_network = next(iter(conn.network.ports(device_id=guest.id))).network_id
    disk = attach(conn, guest, volume(conn, "before"))
    journal, boots = Journal(JOURNAL), [each.boot() for each in pair]
    with (
        writing(guest, disk, 0, WRITE_PAUSE) as writer,
        Load(journal, clients(cluster, cloud.namespace, guest.floating, port_network)) as load,
    ):
        # What this machine makes of the same questions before, beside all else that it does.
        calm = now()
        time.sleep(CALM)
        began, clock = now(), time.time()
        patched(cluster, cloud, release=NEW)
        # The users take half of a small machine: on two slow cores it had not ended after 900 s.
        seconds = upgraded(cluster, cloud, NEW, timeout=2700)
        ended = now()
        time.sleep(5)
    failed, gaps = journal.failed(began, ended), journal.outages(began, ended, load.intervals)
    before = journal.outages(calm, began, load.intervals)
    report.add(
        upgrade_seconds=seconds,
        upgrade_requests=len(journal.between(began, ended)),
        upgrade_failed=failed,
        upgrade_gaps=gaps,
        upgrade_gaps_before=before,
        upgrade_gaps_at={
            kind: [round(moment - began) for moment in journal.longest_outage(kind, began, ended)] for kind in gaps
        },
        upgrade_rollouts=_rollouts(cluster, cloud, clock),
        upgrade_errors=journal.errors(began, ended),
        upgrade_writes=len(writer.acknowledged),
    )
    assert versions(cluster, cloud) == only(NEW)
    assert writer.acknowledged
    assert writer.lost() == []
    assert [each.boot() for each in pair] == boots, "a server was started anew"
    answered = {kind: 1 - failed.get(kind, 0) / len(journal.between(began, ended, kind)) for kind in load.intervals}
    apis = {kind: share for kind, share in answered.items() if kind != PING}
    assert min(apis.values()) >= SHARE, (apis, journal.errors(began, ended))
    assert journal.between(began, ended, PING)
    assert _lost_in_a_row(journal, began, ended) <= PINGS
    assert journal.failed(calm, began) == {}, "users were answered before the upgrade"
    GAP.judge({kind: gap for kind, gap in gaps.items() if kind != PING}, before)


def _rollouts(cluster: Kubernetes, cloud: Cloud, began: float) -> list[str]:
    """Return when each workload was rolled out, in seconds from a moment on (of the machine's clock)."""
    found = cluster.items("events", "-n", cloud.namespace)
    times = [
        (datetime.fromisoformat(at).timestamp() - began, event)
        for event in found
        if event["reason"].startswith("Rollout") and (at := event.get("lastTimestamp") or event.get("eventTime"))
    ]
    rollouts = sorted((at, event["reason"], event["message"]) for at, event in times if at > 0)
    return [f"{at:.0f} {reason}: {message}" for at, reason, message in rollouts]


def _lost_in_a_row(journal: Journal, began: float, ended: float) -> int:
    """Return the largest number of pings that were lost one after the other."""
    longest = current = 0
    for attempt in journal.between(began, ended, PING):
        current = current + 1 if attempt.error else 0
        longest = max(longest, current)
    return longest


def test_new_servers_and_volumes_work_after_the_upgrade(
    stood: tuple[Session, Cloud], conn: Connection, pair: list[Guest]
) -> None:
    server = booted(conn, "after", image_id=proof.image(conn).id)
    guest = answering(conn, server)
    held = volume(conn, "after")
    disk = attach(conn, guest, held)
    Disks(guest).write(disk, 7, "written-after")
    assert Disks(guest).read(disk, 7) == "written-after"
    removed(conn, server)
    assert stood[0].prove(stood[1])["reply"]
    for guest in pair:
        ping(guest.floating)


def test_a_stack_of_the_old_release_is_changed_and_deleted(stack: Stack) -> None:
    secret = stack.outputs["secret"]
    assert len(secret) == 20
    stack.update(network(24))
    assert stack.reaches("UPDATE_COMPLETE")
    assert len(stack.outputs["secret"]) == 24
    stack.delete()


def test_a_server_moves_after_the_upgrade(conn: Connection, pair: list[Guest]) -> None:
    """Live, to the other node and back."""
    one, other = pair
    boot = one.boot()
    for host in (other.node, one.node):
        conn.compute.live_migrate_server(one.id, host=host, block_migration=False)
        until(f"the server to be on {host}", lambda h=host: _host(conn, one) == h, 300, 1)
    assert one.boot() == boot, "it was started anew"


def _host(conn: Connection, guest: Guest) -> str:
    server = conn.compute.get_server(guest.id)
    return server.compute_host if server.status == "ACTIVE" else ""
