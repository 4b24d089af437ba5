"""The highly available cloud, and the worst of what may happen to it; `make chaos` does the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from tools.chaos.run import Run, deployed
from tools.chaos.scenario import Result
from tools.chaos.scenarios import SCENARIOS
from tools.localcluster.kubernetes import ROOT, module
from tools.localcluster.target import target

from ..conftest import Report

CHOSEN = (1, 2, 3, 6)

pytestmark = pytest.mark.skipif(target().kind != "embedded", reason="nodes are powered off")


@pytest.fixture(scope="module")
def results(report: Report) -> Iterator[dict[int, Result]]:
    """What each scenario found, on a cluster of its own in the place of the minimal one. How long it took is reported,
    not tested: the same machine may be half as fast an hour later.
    """
    module("tools.localcluster", "down")
    console = Console()
    found = Run(deployed(console), console, report=ROOT / "build" / "e2e-chaos.json").all(CHOSEN)
    report.add(chaos={result.number: _facts(result) for result in found})
    yield {result.number: result for result in found}
    module("tools.localcluster", "down")


def _facts(result: Result) -> dict[str, Any]:
    return {"recovered_seconds": result.seconds, "failed": result.failed, "lost": result.lost, "took": result.took}


@pytest.mark.parametrize("number", CHOSEN)
def test_the_cloud_is_itself_again(results: dict[int, Result], number: int) -> None:
    assert results[number].problems == [], SCENARIOS[number].title


@pytest.mark.parametrize("number", CHOSEN)
def test_nothing_acknowledged_is_lost(results: dict[int, Result], number: int) -> None:
    assert results[number].lost == {}
    assert results[number].acknowledged > 0
