"""What tests of programs share: a pod of fakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.pods import Pod


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    """A pod without fakes, where nothing sleeps."""
    return Pod(tmp_path)
