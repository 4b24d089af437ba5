"""Run an exporter, whose command is the arguments, and serve its metrics alone: exporters have paths by which a client
makes them connect to addresses of its choice. The exporter listens at UPSTREAM_PORT of 127.0.0.1. If it ends, it is
started again, so that the container, and with it the pod of the server, stays ready. PASSWORD_FILE has the value of its
variable PASSWORD_VARIABLE, if it needs one.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from .answers import blocks
from .serve import PATH, say, serve

PAUSES = (1.0, 5.0, 30.0)
"""Seconds before the exporter is started again after it ended; the last one stays."""
LASTING = 60.0
"""Seconds after which an exporter counts as one that works."""
PATIENCE = 8.0
"""Seconds for it to answer, less than a Prometheus waits."""


class Exporter:
    """The exporter's process."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._command, self._env = command, env
        self._process: subprocess.Popen[bytes] | None = None
        self._failures = 0

    def keep(self) -> None:
        """Keep it running."""
        while True:
            began = time.monotonic()
            reason = self._run()
            self._failures = 0 if time.monotonic() - began > LASTING else self._failures + 1
            pause = PAUSES[min(self._failures, len(PAUSES) - 1)]
            say(f"{self._command[0]} {reason}; it starts again in {pause:.0f} s")
            time.sleep(pause)

    def _run(self) -> str:
        try:
            self._process = subprocess.Popen(self._command, env=dict(self._env))
        except OSError as error:
            return f"does not start: {error}"
        return f"ended with {self._process.wait()}"

    def end(self) -> None:
        """End it."""
        if self._process:
            self._process.terminate()


def fetch(port: int) -> bytes:
    """Return its metrics. Raises OSError if it does not answer."""
    # By HTTP 1.0, an answer ends with its connection.
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        connection.sendall(f"GET {PATH} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
        answer = b"".join(blocks(connection, PATIENCE))
    header, end, body = answer.partition(b"\r\n\r\n")
    status = header.partition(b"\r\n")[0].split()
    if not end or status[1:2] != [b"200"]:
        raise OSError(f"the exporter answers {b' '.join(status)[:80].decode(errors='replace')!r}")
    return body


def environment() -> dict[str, str]:
    """Return the exporter's environment: with a password, which only its own user can read there."""
    env = dict(os.environ)
    if file := env.pop("PASSWORD_FILE", ""):
        env[env.pop("PASSWORD_VARIABLE")] = Path(file).read_text(encoding="utf-8").strip()
    return env


def main() -> None:
    """Serve the exporter's metrics."""
    exporter = Exporter(sys.argv[1:], environment())
    threading.Thread(target=exporter.keep, daemon=True).start()
    port = int(os.environ["UPSTREAM_PORT"])
    serve(lambda: fetch(port), exporter.end)


if __name__ == "__main__":
    main()
