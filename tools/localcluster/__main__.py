"""`python -m tools.localcluster`."""

# ruff: noqa: E402  (nothing else is imported before: it may be in .venv alone)
from __future__ import annotations

from images.venv import use_venv

use_venv("tools.localcluster")

import sys

from .cli import main

sys.exit(main())
