"""The table of suites in docs/evidence/README.md: `python -m tests.evidence_page` makes it from the ledger."""

from __future__ import annotations

from images.venv import use_venv

if __name__ == "__main__":
    use_venv("tests.evidence_page")

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from tests import suites
from tests.suites import Run, State

PAGE = suites.LEDGER.with_name("README.md")
SUBJECTS = Path(__file__).with_name("suites.yaml")
BEGIN, END = "<!-- suites -->", "<!-- end of suites -->"
_HEAD = ("suite", "proves", "does not prove", "last whole run", "last green run")


def table(states: Sequence[State], subjects: Mapping[str, Mapping[str, str]]) -> str:
    """Return the Markdown table of all suites, by name. Raises KeyError for a suite that has no description."""
    rows = [_HEAD, ("---",) * len(_HEAD)]
    for state in sorted(states, key=lambda state: state.suite):
        subject = subjects[state.suite]
        runs = (_quoted(state.last_whole), _quoted(state.last_green))
        rows.append((f"`make {state.suite}`", subject["proves"], subject["does_not"], *runs))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _quoted(run: Run | None) -> str:
    """Return a run as pages quote it, so that its line is found in the ledger."""
    if run is None:
        return suites.NEVER
    counts = {"passed": run.passed, "failed": run.failed, "skipped": run.skipped, "not judged": run.unjudged}
    figures = ", ".join(
        f"{number} {outcome}" for outcome, number in counts.items() if number not in ("0", suites.UNKNOWN)
    )
    return f"{run.date}, `{run.commit}`: {figures or run.note or suites.UNKNOWN}"


def written(page: str, ledger: str, makefile: str) -> str:
    """Return a page with the table that belongs to a ledger, between its two marks."""
    runs = [run for run in suites.parse(ledger) if run.note != suites.RUNNING]
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    states = suites.states(runs, suites.suites(makefile))
    subjects = yaml.safe_load(SUBJECTS.read_text(encoding="utf-8"))
    return f"{before}{BEGIN}\n\n{table(states, subjects)}\n\n{END}{after}"


def write() -> None:
    """Write the table of the ledger as it is."""
    texts = [path.read_text(encoding="utf-8") for path in (PAGE, suites.LEDGER, suites.ROOT / "Makefile")]
    PAGE.write_text(written(*texts), encoding="utf-8")


if __name__ == "__main__":
    write()
