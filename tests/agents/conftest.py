"""What tests of programs share: a machine of fakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from .programs import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine where nothing sleeps."""
    return Machine(tmp_path)
