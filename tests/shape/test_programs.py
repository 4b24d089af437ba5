"""Programs of a checkout start with the system's Python, too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = (
    *(f"tools.{each}" for each in ("cloud", "operators", "chaos", "localcluster", "bench", "checks", "publish")),
    *("images", "tests.field_proofs", "tests.suites", "tests.cpu_costs"),
)


def bare_python() -> str:
    """A Python without anything installed: the one the virtual environment was made with."""
    found = shutil.which("python3", path=os.pathsep.join([f"{sys.base_prefix}/bin", "/usr/bin"]))
    if found is None:
        pytest.skip("there is no Python besides the virtual environment's")
    return found


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [bare_python(), "-S", "-E", "-m", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.mark.seconds
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_finds_what_it_needs(root: Path, program: str) -> None:
    """`tests.field_proofs` and `tools.bench` take long; that they begin anew before they import anything is enough."""
    if program in {"tools.bench", "tests.field_proofs"}:
        path = root / ("tools/bench/__main__.py" if program == "tools.bench" else "tests/field_proofs.py")
        imports = [
            line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith(("import ", "from "))
        ]
        assert imports[:2] == ["from __future__ import annotations", "from images.venv import use_venv"]
        return
    done = run(root, program, "--help")
    assert done.returncode == 0, done.stderr
    assert "usage: " in done.stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_without_the_virtual_environment_one_line_says_how_to_make_it(tmp_path: Path, root: Path, program: str) -> None:
    for name in ("tools", "images", "tests"):
        shutil.copytree(
            root / name, tmp_path / name, ignore=shutil.ignore_patterns("cases", "e2e", "unit", "__pycache__")
        )
    done = run(tmp_path, program, "--help")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"{program}: its dependencies are not installed yet; run `make venv` in {tmp_path}"
    ]
