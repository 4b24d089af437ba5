"""Results of runs, as a table in docs/evidence/reliability.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.localcluster.kubernetes import ROOT

PAGE = ROOT / "docs" / "evidence" / "reliability.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
_MANY = 3


def update(report: Path, page: Path = PAGE) -> None:
    """Write the figures of the report to the page, between its two marks."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{table(json.loads(report.read_text()))}\n{END}{after}")


def table(report: dict[str, Any]) -> str:
    """Return the Markdown table of all scenarios that were run."""
    lines = [
        "| | scenario | passed | recovered | acknowledged writes lost | requests failed | longest outage | servers |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for number, result in report["scenarios"].items():
        cells = (
            number,
            result["title"],
            "yes" if result["passed"] else "**no**",
            f"{result['seconds']:.0f} s",
            f"{sum(result['lost'].values())} of {result['acknowledged']}",
            _counts(result["failed"]),
            _worst(result["outages"]),
            result["servers"] or "-",
        )
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join([*lines, ""])


def _counts(failed: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in failed.items()) or "none"


def _worst(outages: dict[str, float]) -> str:
    worst = sorted(((gap, kind) for kind, gap in outages.items() if gap >= 1), reverse=True)[:_MANY]
    return ", ".join(f"{kind} {gap:.0f} s" for gap, kind in worst) or "none"
