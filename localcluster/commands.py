"""Running the system's commands."""

from __future__ import annotations

import subprocess


class CommandError(Exception):
    """A command that failed, with what it wrote."""


def run(*command: str, check: bool = True, stdin: str | None = None) -> str:
    """What the command prints; raises CommandError if it fails, unless `check` is off."""
    done = subprocess.run(command, capture_output=True, text=True, input=stdin, check=False)
    if check and done.returncode:
        raise CommandError(f"`{' '.join(command)}` failed with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout
