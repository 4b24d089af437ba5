"""From 2025.1 to 2026.1 with each service that is off by default: what users made before works, and what is new."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests
from openstack.connection import Connection

from tools.cloud import deploy, proof
from tools.cloud.session import SAMPLES, Cloud, Session
from tools.localcluster.kubernetes import ROOT, Kubernetes, module

from ..conftest import CABLED, Report, stands
from ..on_services.stacks import Stack, network
from ..on_services.test_barbican import Secrets
from ..on_services.test_designate import Dns, Zone
from ..on_services.test_horizon import dashboard
from ..on_services.test_octavia import Balancer
from .releases import NEW
from .test_upgrade import patched, upgraded

SAMPLE = SAMPLES / "controlplane_full.yaml"
SERVICES = ("barbican", "designate", "heat", "horizon", "octavia")
PACKAGES = {"heat": "openstack-heat"}
"""Python packages whose names are not those of their services."""
ZONES = {"before": "before-upgrade.example.", "after": "after-upgrade.example."}


@dataclass(frozen=True)
class Before:
    """What users made before the upgrade."""

    secrets: Secrets
    zone: Zone
    stack: Stack
    balancer: Balancer
    versions: dict[str, set[int]]


@pytest.fixture(scope="module")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The cloud, Ready, in a cluster that has the images of both releases."""
    with stands(SAMPLE, _change) as found:
        images = deploy.images(ROOT / "build" / SAMPLE.name, NEW)
        module("images", "build", *images)
        module("images", "load", *images)
        deploy.install(found[0].cluster, releases=[NEW])
        yield found


def _change(spec: dict[str, Any]) -> None:
    spec["ovn"] = {**spec["ovn"], **CABLED}


def _versions(cluster: Kubernetes, cloud: Cloud) -> dict[str, set[int]]:
    """Return the major versions of the APIs that run, by service, asked in their containers."""
    found: dict[str, set[int]] = {}
    for service in SERVICES:
        labels = f"openstack.k8s.io/kind={service},app.kubernetes.io/component=api"
        for pod in cluster.items("pods", "-n", cloud.namespace, "-l", labels, "--field-selector=status.phase=Running"):
            if "deletionTimestamp" not in pod["metadata"]:
                package, name = PACKAGES.get(service, service), pod["metadata"]["name"]
                code = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
                words = ("-n", cloud.namespace, name, "-c", "main", "--", "python3", "-c", code)
                number = [int(part) for part in cluster.kubectl("exec", *words).strip().split(".")[:2]]
                found.setdefault(service, set()).add(number[0] * 100 + number[1])
    return found


@pytest.fixture(scope="module")
def before(stood: tuple[Session, Cloud]) -> Before:
    """A secret, a zone, a stack and a load balancer, in a cloud that passed its proof."""
    session, cloud = stood
    assert session.prove(cloud)["reply"]
    conn = proof.connect(session.cluster, cloud.namespace)
    secrets = Secrets(conn)
    secrets.store("before", "a secret from before the upgrade é世")
    stack = Stack(conn, "upgrade", network(20))
    assert stack.reaches("CREATE_COMPLETE")
    found = Before(
        secrets,
        Zone.create(conn, ZONES["before"]),
        stack,
        _balancer(conn),
        _versions(session.cluster, cloud),
    )
    assert set(found.versions) == set(SERVICES)
    return found


def _balancer(conn: Connection) -> Balancer:
    """A load balancer with a pool without members."""
    subnet = next(iter(conn.network.subnets(network_id=proof.networks(conn)[0].id)))
    made = Balancer(conn, subnet)
    made.pool("TCP", 80, [])
    return made


def _answers(cluster: Kubernetes, cloud: Cloud, zone: str) -> bool:
    """Return True if the cloud's name servers know a zone."""
    return bool(Dns(cluster, cloud.namespace, "bind9").ask(zone, 6, patience=30)[1])


def test_the_release_runs(cluster: Kubernetes, cloud: Cloud, before: Before, report: Report) -> None:
    patched(cluster, cloud, release=NEW)
    seconds = upgraded(cluster, cloud, NEW)
    report.add(upgrade_of_optional_services_seconds=seconds)
    after = _versions(cluster, cloud)
    print(f"    {seconds} s; {before.versions} {after}")
    assert set(after) == set(SERVICES)
    for service, versions in after.items():
        assert len(versions) == 1
        assert min(versions) > max(before.versions[service]), service


def test_resources_from_before_the_upgrade_still_work(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, before: Before
) -> None:
    assert Secrets(conn, dict(before.secrets.payloads)).wrong() == []
    assert _answers(cluster, cloud, ZONES["before"])
    before.stack.update(network(24))
    assert before.stack.reaches("UPDATE_COMPLETE")
    before.balancer.pool("TCP", 81, [])
    before.balancer.delete()
    before.stack.delete()


def test_new_things_are_made(
    stood: tuple[Session, Cloud], cluster: Kubernetes, cloud: Cloud, conn: Connection, before: Before
) -> None:
    del before
    secrets = Secrets(conn)
    secrets.store("after", "a new secret")
    assert secrets.wrong() == []
    Zone.create(conn, ZONES["after"])
    assert _answers(cluster, cloud, ZONES["after"])
    stack = Stack(conn, "after", network(20))
    assert stack.reaches("CREATE_COMPLETE")
    _balancer(conn).delete()
    trust = str(proof.clouds(cluster, cloud.namespace).with_name("ca.crt"))
    page = requests.get(f"{dashboard(cluster, cloud)}auth/login/", verify=trust, timeout=60)
    assert page.status_code == 200
    assert "id_password" in page.text
    assert stood[0].prove(cloud)["reply"]
