"""Start the program of a run of Tempest with the folder $CASE instead of its work and its termination message.

The package is the one that the plan delivers, in a folder of $PYTHONPATH; the argument names its module.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

CASE = Path(os.environ["CASE"])
runner: Any = import_module(sys.argv[1])
runner.WORK, runner.TERMINATION_LOG = CASE / "files", CASE / "message"
sys.exit(runner.main())
