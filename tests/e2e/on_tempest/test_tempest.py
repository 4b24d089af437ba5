"""Tempest's smoke set and its tests of the Identity, Image and Network APIs, and those of its plug-ins, in runs that
are ordered; then what the status tells of runs, and whether Keystone obeys what it acknowledged.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tools.cloud import view
from tools.cloud.session import Cloud, Session
from tools.localcluster import faults
from tools.localcluster.kubernetes import Kubernetes
from tools.localcluster.layout import Cluster

from ..conftest import Report
from ..facts import ready_again
from ..outcomes import Outcome, differences
from ..waiting import until
from .acknowledged import Identity, watched
from .expectations import EXCLUDED, EXPECTED, IPV4, PASSED, SETS
from .names import of_pattern
from .runs import PODS, change, live, logged, order, passed, run, run_excluded

CACHE = "memcached-server-0"

WELL, SILENT = 15.0, 45.0
"""Seconds for which Keystone's cache works before and after it is frozen, and for which it is."""
LEAST_LOOKS = 100


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """Of the sets that have run."""
    return {}


@contextmanager
def frozen(namespace: str, pod: str) -> Generator[None]:
    """The pod's processes stand still inside the block."""
    faults.freeze(Cluster(), namespace, pod)
    try:
        yield
    finally:
        faults.thaw(Cluster(), namespace, pod)


def test_nothing_runs_before_it_is_ordered(cluster: Kubernetes, stood: tuple[Session, Cloud]) -> None:
    cloud = stood[1]
    assert passed(cluster, cloud)["reason"] == "Waiting"
    assert cluster.items(*PODS, "-n", cloud.namespace) == []


def test_excluded_tests_still_do_not_pass(cluster: Kubernetes, stood: tuple[Session, Cloud], report: Report) -> None:
    """One that passes now is to be taken off the list."""
    outcome = run_excluded(cluster, stood[1])
    report.add(tempest_excluded={"passed": outcome.passed, "failed": outcome.failed, "skipped": outcome.skipped})
    assert EXPECTED.outdated(outcome) == []
    patterns = "|".join(each.pattern for each in EXCLUDED)
    assert differences(outcome, of_pattern(patterns)) == []


@pytest.mark.parametrize("name", SETS)
def test_a_set_passes(
    cluster: Kubernetes,
    stood: tuple[Session, Cloud],
    report: Report,
    outcomes: dict[str, Outcome],
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    cloud = stood[1]
    balancers = {"test_with_ipv6": name not in IPV4}
    outcome = outcomes[name] = run(cluster, cloud, name, config={"load_balancer": balancers})
    status = live(cluster, cloud)["status"]
    results = status["results"]
    report.add(
        **{f"tempest_{name}": {**results, "duration": status["lastDuration"], "not_run": [*EXPECTED.listing(outcome)]}}
    )
    with capsys.disabled():
        print("", f"{name}: {results}, {status['lastDuration']}", *EXPECTED.listing(outcome), sep="\n")
    assert EXPECTED.surprises(outcome) == []
    assert passed(cluster, cloud)["status"] == "True", passed(cluster, cloud)["message"]
    assert differences(outcome, of_pattern(SETS[name])) == []
    assert results["passedTests"] == len(outcome.passed) == PASSED.get(name, len(outcome.passed))
    assert outcome.passed
    assert results["failedTests"] == 0
    assert results["totalTests"] == results["passedTests"] + results["skippedTests"]
    assert status["lastRun"].endswith("Z")


def test_every_expectation_was_met(stood: tuple[Session, Cloud], outcomes: dict[str, Outcome]) -> None:
    """A test that runs again, and a name that is no test's any more, are to be taken off the lists."""
    assert outcomes.keys() == SETS.keys()
    assert EXPECTED.unused(outcomes.values()) == []


def test_the_same_order_is_one_run(cluster: Kubernetes, stood: tuple[Session, Cloud]) -> None:
    cloud = stood[1]
    order(cluster, cloud, [*SETS][-1])
    ready_again(cluster, cloud)
    assert len(cluster.items(*PODS, "-n", cloud.namespace)) == 1


def test_no_password_is_in_the_log(cluster: Kubernetes, stood: tuple[Session, Cloud]) -> None:
    cloud = stood[1]
    log = logged(cluster, cloud)
    assert re.search(r"^passed   \w+\.", log, re.MULTILINE)
    secret = "jsonpath={.data.identity}"
    where = ("get", "secret", "tempest-credentials", "-n", cloud.namespace, "-o")
    encoded = cluster.kubectl(*where, secret)
    decoded = cluster.kubectl(*where, "go-template={{.data.identity | base64decode}}")
    assert encoded
    assert decoded
    assert encoded not in log
    assert decoded not in log


def test_acknowledged_keystone_changes_hold_while_the_cache_is_frozen(
    cluster: Kubernetes, stood: tuple[Session, Cloud], report: Report
) -> None:
    """Decision 0046: Memcached is well, then silent for longer than its clients wait for it, then well again."""
    cloud = stood[1]

    def silent() -> None:
        time.sleep(WELL)
        with frozen(cloud.namespace, CACHE):
            time.sleep(SILENT)

    found = watched(Identity.of(cluster, cloud.namespace), WELL + SILENT + WELL, meanwhile=silent)
    report.add(acknowledged={"looks": found.looks, "violations": found.violations, "refused": found.refused})
    ready_again(cluster, cloud)
    assert found.violations == {}
    # Four runs of a minute and a half had 2,272 looks; a cloud that answers nothing has none to be wrong.
    assert found.looks > LEAST_LOOKS, found.refused


def test_a_schedule_runs_too_and_a_run_that_cannot_test_says_why(
    cluster: Kubernetes, stood: tuple[Session, Cloud]
) -> None:
    """The cloud has no such image: nothing is broken, and the condition names the field."""
    cloud = stood[1]
    change(cluster, cloud, schedule="* * * * *", tests={"image": "missing"})
    until("a run that failed", lambda: passed(cluster, cloud)["reason"] == "RunFailed", 300, 5)
    assert "spec.tests.image: the cloud has no image 'missing'" in passed(cluster, cloud)["message"]
    assert view.ready(live(cluster, cloud))
    assert view.ready(cluster.get("openstackcontrolplane", cloud.name, "-n", cloud.namespace))
