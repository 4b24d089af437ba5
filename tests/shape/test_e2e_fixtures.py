"""Fixtures of the end-to-end tests fit each other: a mistake would be seen only once a cloud has been made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.seconds
def test_fixtures_have_scopes_that_fit(root: Path) -> None:
    options = ("--setup-plan", "-q", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *options, "tests/e2e"]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-3000:]
