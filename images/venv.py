"""Programs of this checkout run in its .venv, with whatever Python they are started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def use_venv(module: str, root: Path = ROOT) -> None:
    """Return in the checkout's .venv; elsewhere restart `python -m MODULE` in it. End the program with a line
    that says what to do where there is none.
    """
    venv = root / ".venv"
    if Path(sys.prefix).resolve() == venv.resolve():
        return
    python = venv / "bin" / "python"
    if not (venv / ".installed").exists() or not python.exists():
        sys.exit(f"{module}: its dependencies are not installed yet; run `make venv` in {root}")
    os.execv(python, [str(python), "-m", module, *sys.argv[1:]])
