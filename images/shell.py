"""Commands of the host: run, and explained when they fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


class CommandError(Exception):
    """A command failed, or cannot be had; the message says what to do."""


def say(message: str) -> None:
    """Tell the user what happens; stdout is kept for results."""
    print(message, file=sys.stderr, flush=True)


def run(command: Sequence[str], *, log: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Return the command's standard output. With `log`, all output goes there, and the result is empty."""
    surroundings = {**os.environ, **(env or {})}
    if log is None:
        result = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
        output, tail = result.stdout, result.stderr
    else:
        with log.open("w", encoding="utf-8") as file:
            result = subprocess.run(command, env=surroundings, stdout=file, stderr=file, check=False)
        output, tail = "", log.read_text(encoding="utf-8", errors="replace")
    if result.returncode:
        last = "\n".join(tail.strip().splitlines()[-25:])
        where = f" (whole log: {log})" if log else ""
        raise CommandError(f"{' '.join(command)}: exit {result.returncode}{where}\n{last}")
    return output


def need(packages: Mapping[str, str]) -> None:
    """Provide every command of `packages` (command → Debian package). What is missing is installed with apt-get.

    Raises CommandError where apt-get or root is missing, naming the packages.
    """
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    missing = sorted({package for command, package in packages.items() if not _is_installed(command, path)})
    if not missing:
        return
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise CommandError(f"missing: {', '.join(missing)}; install these packages, or run as root on Debian or Ubuntu")
    say(f"installing {', '.join(missing)} with apt-get: images are built with them")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-q"], env=quiet)
    run(["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing], env=quiet)


def _is_installed(command: str, path: str) -> bool:
    return Path(command).exists() if command.startswith("/") else shutil.which(command, path=path) is not None
