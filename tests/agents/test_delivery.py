"""What happens to the text of a program on its way into a container."""

from __future__ import annotations

from pathlib import Path

import pytest

from openstack_operator import agents

FOLDER = Path(agents.__file__).parent
PROGRAMS = sorted(path for path in FOLDER.glob("*/*") if path.suffix in {".sh", ".py", ".awk"})


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(FOLDER)))
def test_kubelet_changes_no_program(path: Path) -> None:
    """Kubelet makes one dollar sign of two in a container's command, so that a shell would not see its process ID."""
    assert "$$" not in path.read_text(encoding="utf-8")
