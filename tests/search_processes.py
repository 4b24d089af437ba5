"""Searches in a process of their own, since Python decides at its start in which order sets of texts are."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import ROOT

_FAR = 7_200
"""Seconds after which a process is taken for hung: each search is bounded by events and by virtual time."""


def carry_out(module: str, *arguments: object) -> str:
    """Return what a search printed. Fails with its end where the search found something."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_FAR, check=False)
    print(done.stdout)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout
