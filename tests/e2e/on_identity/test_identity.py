"""Whether Keystone obeys what it acknowledged: Tempest's identity tests again and again, while a program uses a core.

Two workers ask one Keystone at the same time, and the tests look some milliseconds after each grant and revocation. One
run in three failed while Keystone's caches could be late.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tools.cloud.session import MINIMAL, Cloud, Session
from tools.localcluster.kubernetes import Kubernetes

from ..conftest import Report, stands
from ..on_tempest.conftest import choose, furnish
from ..on_tempest.expectations import EXPECTED, SETS
from ..on_tempest.names import of_pattern
from ..on_tempest.runs import change, live, logged, order, passed
from ..outcomes import Outcome, differences
from ..waiting import until

RUNS = int(os.environ.get("IDENTITY_RUNS", "30"))
BUSY = "while True: pass"


@pytest.fixture(scope="module")
def stood() -> Iterator[tuple[Session, Cloud]]:
    with stands(MINIMAL, choose) as (session, cloud):
        furnish(session.cluster, cloud.namespace)
        change(session.cluster, cloud, tests={"includeRegex": SETS["identity"], "concurrency": 2})
        yield session, cloud


@pytest.fixture(scope="module")
def busy() -> Iterator[None]:
    """A program that uses a core as long as it lives."""
    with subprocess.Popen([sys.executable, "-c", BUSY]) as process:
        yield
        process.kill()


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("number", range(1, RUNS + 1))
def test_identity_passes(cluster: Kubernetes, stood: tuple[Session, Cloud], report: Report, number: int) -> None:
    cloud = stood[1]
    before = live(cluster, cloud)["status"].get("lastRun")
    order(cluster, cloud, f"identity-{number}")
    until("the end of the run", lambda: live(cluster, cloud)["status"].get("lastRun", before) != before, 3900, 5)
    status = live(cluster, cloud)["status"]
    results = status["results"]
    report.add(**{f"identity_{number}": {**results, "duration": status["lastDuration"]}})
    print(f"run {number}: {results}, {status['lastDuration']}")
    assert results["failedTests"] == 0, logged(cluster, cloud)
    outcome = Outcome.of(logged(cluster, cloud))
    assert EXPECTED.surprises(outcome) == []
    assert differences(outcome, of_pattern(SETS["identity"])) == []
    assert results["passedTests"] == len(outcome.passed) > 0
    assert passed(cluster, cloud)["status"] == "True"
