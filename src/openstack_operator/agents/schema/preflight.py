"""Run a service's check before an upgrade (https://docs.openstack.org/oslo.upgradecheck/latest/user/usage.html), the
command of the arguments, and before it the program in FACTS, if there is one, for facts that the check does not tell.
What fails is printed last. If nothing does, warnings become the message with which the container ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

FAILURE, WARNING = "Failure: ", "Warning: "
_CODES = {1: WARNING, 2: FAILURE}
_RESULTS = '{"name": "Upgrade Check Results"'
"""Beginning of the line with the results; other lines may be of the log."""


def output(command: Sequence[str]) -> tuple[int, list[str]]:
    """Run a program and return its exit status and its lines."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


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
    status, lines = output([*command, "--json"])
    reports = [json.loads(line) for line in lines if line.startswith(_RESULTS)]
    if not reports:
        print("\n".join(lines), flush=True)
        sys.exit(status or 1)
    for each in reports[0]["checks"]:
        print(f"{each['check']}: {each['details'] or 'no findings'}", flush=True)
        if each["result"] in _CODES:
            yield f"{_CODES[each['result']]}{each['check']}: {' '.join((each['details'] or '').split())}"


def main(*command: str) -> int:
    """Print what fails, or write down the warnings, and return the exit status."""
    lines = [*facts(os.environ.get("FACTS", "")), *results(command)]
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
