"""Run a service's check before an upgrade (https://docs.openstack.org/oslo.upgradecheck/latest/user/usage.html), the
command of the arguments, and before it the program in FACTS, if there is one, for facts that the check does not tell.
Results that PASSED_OVER names count for nothing.
What fails is printed last. If nothing does, warnings become the message with which the container ends.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

FAILURE, WARNING = "Failure: ", "Warning: "
_RESULT = re.compile(r"Check: (?P<check>.*?) Result: (?P<result>Success|Warning|Failure) Details: (?P<details>.*)")
"""A result, in one line. Not each of these programs has `--json`: that of Nova has a parser of its own."""


def output(command: Sequence[str]) -> tuple[int, list[str]]:
    """Run a program and return its exit status and its lines."""
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return process.returncode, process.stdout.splitlines()


def facts(program: str) -> Iterator[str]:
    """Yield the lines of a program, each a failure or a warning. Ends with the program if that fails."""
    if not program:
        return
    status, lines = output([sys.executable, "-c", program])
    if status:
        sys.exit(status)
    print(*lines, sep="\n", flush=True)
    yield from lines


def results(command: Sequence[str]) -> Iterator[str]:
    """Yield failures and warnings of a service's own check. Ends with the check if that has no results: it could not
    run, although its status may be that of a warning.
    """
    status, lines = output(command)
    print(*lines, sep="\n", flush=True)
    cells, reports = list[str](), list[re.Match[str]]()
    # A table, whose rows have several lines each.
    for line in lines:
        if line.startswith("|"):
            cells += line.strip("|").split()
        elif report := _RESULT.fullmatch(" ".join(cells)):
            reports.append(report)
            cells = []
        else:
            cells = []
    if not reports:
        sys.exit(status or 1)
    passed_over = os.environ.get("PASSED_OVER", "").split(",")
    for each in reports:
        if each["result"] != "Success" and each["check"] not in passed_over:
            yield f"{each['result']}: {each['check']}: {each['details']}"


def main(*command: str) -> int:
    """Print what fails, or write down the warnings, and return the exit status."""
    findings = [*facts(os.environ.get("FACTS", ""))]
    # The end of a long text is shown: that with names.
    lines = [*results(command), *findings]
    failures = [line.removeprefix(FAILURE) for line in lines if line.startswith(FAILURE)]
    if failures:
        print(*failures, sep="\n")
        return 2
    warnings = [line.removeprefix(WARNING) for line in lines if line.startswith(WARNING)]
    if warnings:
        Path(os.environ["TERMINATION_LOG"]).write_text("\n".join(warnings), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
