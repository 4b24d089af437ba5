"""The ledger of suites, and the pages that quote it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import evidence_page, suites

PAGES = ("README.md", "docs/evidence/README.md", "docs/evidence/performance.md", "docs/evidence/reliability.md")
UNRECORDED = "no line has"
"""Words of a figure that is in no line of the ledger."""
_SUITE = re.compile(r"`make ([a-z][\w-]*)`")
_MINUTE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
_DAYS = re.compile(r"on (\d+)(?: and (\d+))? November[^|(]*\(`make ([\w-]+)`\)")


def ledger() -> list[suites.Run]:
    return suites.parse(suites.LEDGER.read_text(encoding="utf-8"))


def test_the_table_of_suites_is_that_of_the_ledger(root: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in (evidence_page.PAGE, suites.LEDGER, root / "Makefile")]
    assert evidence_page.written(*texts) == texts[0], "run python -m tests.evidence_page"


@pytest.fixture
def _history() -> None:
    """The whole history of this checkout."""
    if suites._git("rev-parse", "--is-shallow-repository") != "false":  # pyright: ignore[reportPrivateUsage]
        pytest.skip("the history of this checkout is not whole")


@pytest.mark.usefixtures("_history")
def test_commits_of_the_ledger_are_in_the_repository_or_marked() -> None:
    runs = ledger()
    assert [*suites.marked(runs, suites.is_in_history)] == runs, "run python -m tests.suites mark"


def test_important_figures_of_a_suite_name_the_run_that_shows_them(root: Path) -> None:
    text = evidence_page.PAGE.read_text(encoding="utf-8").partition("## The most important figures")[2]
    recorded = set(suites.suites((root / "Makefile").read_text(encoding="utf-8")))
    rows = [row.strip("| ").split(" | ") for row in text.splitlines() if row.startswith("| ")]
    shown = [(row[0], row[-1]) for row in rows if recorded & set(_SUITE.findall(row[-1]))]
    assert len(shown) == 6
    assert [row for row, cell in shown if UNRECORDED not in cell and not _MINUTE.search(cell)] == []


@pytest.mark.parametrize("page", PAGES)
def test_runs_that_a_page_quotes_are_in_the_ledger(root: Path, page: str) -> None:
    text = (root / page).read_text(encoding="utf-8")
    minutes, days = {run.date for run in ledger()}, {(run.suite, run.date[:10]) for run in ledger()}
    assert {*_MINUTE.findall(text)} <= minutes
    quoted = [(suite, f"2026-11-{int(day):02}") for *both, suite in _DAYS.findall(text) for day in both if day]
    assert [each for each in quoted if each not in days] == []
