"""Write the dashboards to deploy/dashboards: `python -m tools.dashboards`, or say which are stale (`--check`)."""

# ruff: noqa: E402  (nothing else is imported before: it may be in .venv alone)
from __future__ import annotations

from images.venv import use_venv

use_venv("tools.dashboards")

import argparse
import sys

from .files import FOLDER, stale, write


def main() -> int:
    """Return 1 with `--check` if a file is stale."""
    parser = argparse.ArgumentParser(prog="python -m tools.dashboards", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing")
    if not parser.parse_args().check:
        for path in write(FOLDER):
            print(path)
        return 0
    paths = stale(FOLDER)
    for path in paths:
        print(f"{path} is stale; run `make generate`", file=sys.stderr)
    return 1 if paths else 0


if __name__ == "__main__":
    sys.exit(main())
