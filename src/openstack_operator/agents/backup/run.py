"""Run of a program: its settings, the programs that it starts, and the one line that it leaves as its result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

CONFIG = Path("/etc/backup")
MAX_MESSAGE = 4096
"""Bytes of a termination message that Kubernetes keeps."""
_MAX_ERROR = 1500
"""Characters of an error, each of which may take two bytes."""
_LAST_LINES = 30
"""Lines of a program's errors that are remembered."""
_LONGEST_LINE = 1000
"""Characters of a line of errors: a client of MariaDB repeats the statement that failed."""
_GRACE = 20.0
"""Seconds in which a program ends after a signal."""
_QUESTION = "Is there a repository at the following location?"
"""Words that restic adds to several errors, with the address."""
_ROUTINE = ("...done", " Streaming ", "copied successfully")
"""Parts of lines that mariadb-backup writes for each file: they would fill the log of a large database."""


class RunError(Exception):
    """Reason why a run failed: what failed, and what to do. It has no secret."""

    def __init__(self, text: str, code: str = "") -> None:
        """`code` is one word of a list for those who read no text of a pod; empty without one."""
        super().__init__(text)
        self.code = code


def settings(config: Path) -> dict[str, Any]:
    """Return run.json. Raise RunError if there is none."""
    path = config / "run" / "run.json"
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {error}") from None


def main(work: Callable[[Path], Mapping[str, Any]]) -> None:
    """Leave what `work` returns as one line of JSON in $TERMINATION_LOG, and exit: with status 1, and its reason as
    plain text, if it raises RunError, an error of a file, of a value or its type, or of a program that does not end.
    """
    # The first process of a container has no default action for it.
    signal.signal(signal.SIGTERM, _end)
    # Credentials and data are for this user alone.
    os.umask(0o077)
    reason = ""
    try:
        line = message(work(CONFIG))
    except (RunError, OSError, LookupError, ValueError, TypeError, subprocess.TimeoutExpired) as error:
        line = reason = reason_of(error)
    say(line)
    Path(os.environ.get("TERMINATION_LOG", "/dev/termination-log")).write_text(f"{line}\n", encoding="utf-8")
    sys.exit(bool(reason))


def reason_of(error: Exception) -> str:
    """Return one line that says why a run failed."""
    match error:
        case OSError():
            text = f"a file or connection failed: {error}"
        case LookupError():
            text = f"the settings of the run, or what a program says, have no {error}"
        case ValueError() | TypeError():
            text = f"the settings of the run, or what a program says, cannot be used: {error}"
        case subprocess.TimeoutExpired():
            # Its own text has the whole command.
            name = error.cmd if isinstance(error.cmd, str) else error.cmd[0]
            text = f"{name} did not end in time; try again"
        case _:
            text = str(error)
    return " ".join(text.split())[:_MAX_ERROR]


def message(result: Mapping[str, Any]) -> str:
    """Return a result as one line of JSON. Its longest lists of names lose some until it is short enough: Kubernetes
    would cut the line, and a result that cannot be read is one that was lost.
    """
    shortened: dict[str, Any] = json.loads(json.dumps(result))
    while len(line := json.dumps(shortened)) >= MAX_MESSAGE:
        longest = max(_lists_of_names(shortened), key=len, default=[])
        if not longest:
            break
        longest.pop()
    return line


def _lists_of_names(value: object) -> Iterator[list[str]]:
    match value:
        case dict():
            for entry in value.values():
                yield from _lists_of_names(entry)
        case list() if value and all(isinstance(entry, str) for entry in value):
            yield value
        case list():
            for entry in value:
                yield from _lists_of_names(entry)
        case _:
            pass


def say(text: str) -> None:
    """Write a line to the log."""
    print(text, file=sys.stderr, flush=True)


def _end(*_: object) -> None:
    raise RunError("the pod was ended before its work was complete; it is tried again")


class Child:
    """A program that runs, with its errors in the log. At the end of the `with` block it has ended, with all programs
    that it started.
    """

    def __init__(
        self,
        *command: str,
        env: Mapping[str, str] | None = None,
        stdin: IO[bytes] | int | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Start it; its output goes to `stdout`, which the caller has to read. With PIPE as its `stdin`, `feed` gives
        it its input. Raise RunError if there is no such program.
        """
        self.name = command[0]
        try:
            self._process = subprocess.Popen(
                command,
                env=env,
                cwd=cwd,
                stdin=stdin or subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise RunError(f"the image has no {self.name}; use an image of MariaDB that has it") from None
        assert self._process.stdout
        self.stdout: IO[bytes] = self._process.stdout
        self.lines: deque[str] = deque(maxlen=_LAST_LINES)
        """Last lines of its errors, without those about single files."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(_GRACE)
        # What it started may have its output, and goes with it.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._reader.join(_GRACE)
        self.stdout.close()

    @property
    def has_ended(self) -> bool:
        """True if it runs no more."""
        return self._process.poll() is not None

    def end(self) -> None:
        """Tell it to end in order."""
        self.send(signal.SIGTERM)

    def send(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def feed(self, pieces: Iterable[bytes]) -> None:
        """Write all of its input, or as much as it takes: one that ends before has a status that says why. If `pieces`
        raises, kill it, before it takes what it has for the whole, and raise that.
        """
        assert self._process.stdin
        is_whole = False
        try:
            with suppress(BrokenPipeError):
                for piece in pieces:
                    self._process.stdin.write(piece)
            is_whole = True
        finally:
            if not is_whole:
                self.send(signal.SIGKILL)
                self._process.wait()
            with suppress(BrokenPipeError):
                self._process.stdin.close()

    def wait(self) -> int:
        """Return its status once it has ended: negative for a signal."""
        status = self._process.wait()
        self._reader.join(_GRACE)
        return status

    def output(self) -> bytes:
        """Return all of its output, which is small."""
        return self.stdout.read()

    def reason(self) -> str:
        """Return the last line of its errors, as plain text."""
        return self.lines[-1] if self.lines else "it said nothing"

    def _read(self) -> None:
        assert self._process.stderr
        with self._process.stderr as stream:
            for line in stream:
                text = plain(line.decode(errors="replace"))[:_LONGEST_LINE]
                if text and not any(part in text for part in _ROUTINE):
                    self.lines.append(text)
                    say(f"{self.name}: {text}")


def plain(line: str) -> str:
    """Return a line of a program's errors as plain text: restic writes JSON if its output is to be JSON."""
    text = line.strip()
    if text.startswith("{"):
        with suppress(ValueError):
            entry = json.loads(text)
            text = str(entry.get("message") or (entry.get("error") or {}).get("message") or text)
    return " ".join(text.removeprefix("Fatal: ").partition(_QUESTION)[0].split())


def run_child(*command: str, text: str = "") -> str:
    """Return the output of a program, which is small, to an input. Raise RunError with its reason if it fails."""
    with Child(*command, stdin=subprocess.PIPE if text else None) as child:
        if text:
            child.feed([text.encode()])
        output = child.output()
        if child.wait():
            raise RunError(f"{child.name} failed: {child.reason()}")
        return output.decode(errors="replace")
