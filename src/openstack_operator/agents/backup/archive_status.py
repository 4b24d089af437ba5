"""Status of a program that archives, which the operator reads."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from .run import RunError


@contextmanager
def blaming(code: str) -> Generator[None]:
    """Give errors in the `with` block a code, unless they have one."""
    try:
        yield
    except RunError as error:
        error.code = error.code or code
        raise


def code_of(error: Exception) -> str:
    """Return the word by which the operator knows an error. Its text is in the log alone: another pod may answer in
    place of this one, and must not put words into conditions.
    """
    return (error.code if isinstance(error, RunError) else "") or "Failed"


@dataclass
class Status:
    """Facts about the archive, which the operator reads."""

    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, **facts: Any) -> None:
        """Set facts; None removes one."""
        with self.lock:
            for name, value in facts.items():
                if value is None:
                    self.facts.pop(name, None)
                else:
                    self.facts[name] = value

    def text(self) -> str:
        """Return them as JSON."""
        with self.lock:
            return json.dumps(self.facts)


class StatusHandler(BaseHTTPRequestHandler):
    """Handler that answers each request with the status."""

    timeout = 10.0

    def __init__(self, status: Status, *words: Any) -> None:
        self._status = status
        super().__init__(*words)

    def do_GET(self) -> None:
        """Answer with the status."""
        body = self._status.text().encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (its name in the class above)
        """Write nothing: the operator asks often."""
