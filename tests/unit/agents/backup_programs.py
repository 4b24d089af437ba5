"""Files of a run of a backup's program, and a restic that answers as a test tells it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_RESTIC = """#!/bin/sh
# The last word of a dump is a file; the first word that is no option is a command.
for word; do case $word in -*) ;; *) verb=$word; break ;; esac; done
[ "$verb" = dump ] && for word; do verb=$word; done
echo "$*" >> {home}/restic.calls
env | grep -E '^(RESTIC|AWS)_' > {home}/restic.env
[ -z "$AWS_SHARED_CREDENTIALS_FILE" ] || cp -p "$AWS_SHARED_CREDENTIALS_FILE" {home}/restic.credentials
[ ! -e {home}/answers/$verb.sh ] || . {home}/answers/$verb.sh
[ ! -e {home}/answers/$verb ] || cat {home}/answers/$verb
"""


class Programs:
    """A folder with a run's files in `config`, and programs in the place of those of the image."""

    def __init__(self, home: Path) -> None:
        self.home, self.config = home, home / "config"
        for name in ("answers", "bin", "config/run", "config/repository", "config/credentials"):
            (home / name).mkdir(parents=True)
        self.program("restic", _RESTIC.replace("{home}", str(home)))
        self.repository(url=str(home / "repository"))
        self.write("repository/password", "password")

    @property
    def path(self) -> str:
        """Value of $PATH."""
        return f"{self.home}/bin:{os.environ['PATH']}"

    def write(self, name: str, text: str) -> None:
        """Write a file of the run."""
        (self.config / name).write_text(text, encoding="utf-8")

    def settings(self, **run: Any) -> None:
        """Write run.json."""
        self.write("run/run.json", json.dumps(run))

    def repository(self, **options: Any) -> None:
        """Write repository.json."""
        self.write("repository/repository.json", json.dumps(options))

    def program(self, name: str, script: str) -> None:
        """Put a program there."""
        path = self.home / "bin" / name
        path.write_text(script, encoding="utf-8")
        path.chmod(0o755)

    def answer(self, verb: str, output: str | bytes = b"", script: str = "") -> None:
        """Say what a command of restic writes, or the dump of a file, and what it does before."""
        (self.home / "answers" / verb).write_bytes(output.encode() if isinstance(output, str) else output)
        (self.home / "answers" / f"{verb}.sh").write_text(script, encoding="utf-8")

    def fail(self, verb: str, status: int, *lines: str) -> None:
        """Let a command of restic fail with these lines of errors."""
        text = "\n".join(lines)
        self.answer(verb, script=f"cat >&2 <<'END'\n{text}\nEND\nexit {status}\n")

    def calls(self) -> list[str]:
        """Return the calls of restic, each a line of its words."""
        path = self.home / "restic.calls"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
