"""Running the system's commands."""

from __future__ import annotations

import subprocess


class CommandError(Exception):
    """A command that failed, with what it wrote."""


def run(*command: str, check: bool = True, stdin: str | None = None) -> str:
    """Return the output of the command; raises CommandError if it fails, unless `check` is off."""
    result = subprocess.run(command, capture_output=True, text=True, input=stdin, check=False)
    if check and result.returncode:
        raise CommandError(f"`{' '.join(command)}` failed with status {result.returncode}: {result.stderr.strip()}")
    return result.stdout
