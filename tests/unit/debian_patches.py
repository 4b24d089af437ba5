"""Libraries of the tests, patched as the images patch those of Debian."""

from __future__ import annotations

import subprocess
from pathlib import Path

from images import patches


def apply(name: str, packages: Path) -> None:
    """Apply a patch to the packages in this folder. Raises CalledProcessError if it does not fit."""
    # Without a/lib/python3/dist-packages, where Debian has its packages.
    options = ["--batch", "--forward", "--fuzz=0", "--no-backup-if-mismatch", "--reject-file=-", "--strip=4"]
    command = ["patch", *options, f"--directory={packages}", f"--input={patches.FOLDER / name}.patch"]
    subprocess.run(command, check=True, capture_output=True)
