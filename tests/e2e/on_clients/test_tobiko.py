"""What Tobiko made in a cloud is as it was after the cloud lost its databases and brokers, and after an upgrade."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tools.cloud import deploy
from tools.cloud.session import MINIMAL, Cloud, Session
from tools.localcluster import faults
from tools.localcluster.kubernetes import ROOT, Kubernetes, module
from tools.localcluster.layout import Cluster

from ..conftest import CABLED, Report, stands
from ..facts import ready_again
from ..on_upgrade.releases import NEW
from ..on_upgrade.test_upgrade import patched, upgraded
from ..outcomes import Outcome, differences
from .ground import Ground, prepare
from .runs import document
from .tobiko import EXPECTED, scenarios

LOST = ("mariadb-server", "rabbitmq-server", "memcached-server", "ovn-nb", "ovn-sb", "neutron-api")
"""Pods whose processes are killed at once, by the beginning of their names."""


@pytest.fixture(scope="module")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The minimal cloud with Heat, by which Tobiko makes all, in a cluster that has the images of both releases."""
    with stands(MINIMAL, _change, nodes=2) as found:
        images = deploy.images(ROOT / "build" / MINIMAL.name, NEW)
        module("images", "build", *images)
        module("images", "load", *images)
        deploy.install(found[0].cluster, releases=[NEW])
        yield found


def _change(spec: dict[str, Any]) -> None:
    spec["ovn"] = {**spec.get("ovn", {}), **CABLED}
    spec["heat"] = {"enabled": True}


@pytest.fixture(scope="module")
def ground(stood: tuple[Session, Cloud]) -> Ground:
    """What suites take for granted is in the cloud."""
    return prepare(stood[0].cluster, stood[1].namespace)


@pytest.fixture(scope="module")
def before(ground: Ground, report: Report) -> Outcome:
    """Outcome of the scenarios that made all resources."""
    return _run(ground, report, "before", makes=True)


def _run(ground: Ground, report: Report, word: str, *, makes: bool = False) -> Outcome:
    run = scenarios(ground, word, makes=makes)
    outcome, listing = run.outcome, [*EXPECTED.listing(run.outcome)]
    counts = {each: len(getattr(outcome, each)) for each in ("passed", "failed", "skipped", "excluded")}
    report.add(**{f"tobiko_{word}": {**counts, "seconds": round(run.seconds), "not_passed": listing}})
    print("", f"{word}: {counts}, {run.seconds:.0f} s; {run.log}, {document(f'tobiko-{word}', listing)}", sep="\n")
    assert differences(outcome, run.names) == []
    return outcome


def test_scenarios_pass_in_a_new_cloud(before: Outcome) -> None:
    assert EXPECTED.surprises(before) == []
    assert EXPECTED.unused([before]) == []
    assert before.passed


def test_resources_outlive_lost_databases_and_brokers(
    cluster: Kubernetes, cloud: Cloud, ground: Ground, before: Outcome, report: Report
) -> None:
    pods = [pod["metadata"]["name"] for pod in cluster.items("pods", "-n", cloud.namespace)]
    lost = [name for name in pods if name.startswith(LOST)]
    assert all(any(name.startswith(start) for name in lost) for start in LOST)
    for name in lost:
        faults.kill_pod(Cluster(), cloud.namespace, name)
    ready_again(cluster, cloud)
    assert _run(ground, report, "after-loss") == before


def test_resources_outlive_an_upgrade(
    cluster: Kubernetes, cloud: Cloud, ground: Ground, before: Outcome, report: Report
) -> None:
    patched(cluster, cloud, release=NEW)
    report.add(tobiko_upgrade_seconds=upgraded(cluster, cloud, NEW))
    assert _run(ground, report, "after-upgrade") == before
