"""The suites by which clients of OpenStack test themselves: openstacksdk, the `openstack` command, gophercloud."""

from __future__ import annotations

import pytest

from ..conftest import Report
from ..outcomes import differences
from .expectations import EXPECTED, PASSED
from .ground import Ground
from .runs import SUITES, document


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_passes(ground: Ground, report: Report, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Each test passes, or is on a list with its reason; a listed test that passes, and a reason that no test has, are
    to be taken off the list.
    """
    run, expected = SUITES[name](ground), EXPECTED[name]
    outcome, listing = run.outcome, [*expected.listing(run.outcome)]
    counts = {each: len(getattr(outcome, each)) for each in ("passed", "failed", "skipped")}
    report.add(**{f"clients_{name}": {**counts, "seconds": round(run.seconds), "not_passed": listing}})
    with capsys.disabled():
        print("", f"{name}: {counts}, {run.seconds:.0f} s; {run.log}, {document(name, listing)}", sep="\n")
    assert differences(outcome, run.names) == []
    assert expected.surprises(outcome) == []
    assert expected.outdated(outcome) == []
    assert expected.unused([outcome]) == []
    assert outcome.passed
    assert len(outcome.passed) == PASSED.get(name, len(outcome.passed))
