"""A new cloud with volumes of each release but the default one, whose own tests `make e2e-tempest` has: a server
answers, and Tempest's smoke set passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tools.cloud.session import MINIMAL, Cloud, Session
from tools.localcluster.kubernetes import Kubernetes

from ..conftest import Report, stands
from ..on_tempest.conftest import furnish, tempest
from ..on_tempest.expectations import SETS, SMOKE_WITH_VOLUMES
from ..on_tempest.names import of_pattern
from ..on_tempest.runs import run
from ..on_upgrade.releases import HEAT, NEW, only, versions
from ..outcomes import differences


@pytest.fixture(scope="module", params=["2025.2", NEW])
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def stood(release: str) -> Iterator[tuple[Session, Cloud]]:
    """The minimal cloud with volumes, Ready."""
    with stands(MINIMAL, _change, release=release) as found:
        yield found


def _change(spec: dict[str, Any]) -> None:
    spec["tempest"] = tempest("openstack")
    spec["ceph"] = {"enabled": True}
    spec["cinder"] = {"enabled": True}


def test_all_programs_are_of_the_release(cluster: Kubernetes, cloud: Cloud, release: str) -> None:
    assert versions(cluster, cloud) == only(release, HEAT)


def test_a_server_answers(stood: tuple[Session, Cloud], release: str, report: Report) -> None:
    report.add(**{f"release_{release}": {"ready_seconds": stood[1].seconds}})
    assert stood[0].prove(stood[1])["reply"]


def test_the_smoke_set_passes(cluster: Kubernetes, cloud: Cloud, release: str, report: Report) -> None:
    furnish(cluster, cloud.namespace)
    outcome = run(cluster, cloud, "smoke")
    report.add(**{f"smoke_{release}": {"passed": len(outcome.passed), "skipped": outcome.skipped}})
    assert outcome.failed == []
    assert differences(outcome, of_pattern(SETS["smoke"])) == []
    assert len(outcome.passed) == SMOKE_WITH_VOLUMES
