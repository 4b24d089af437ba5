"""Output of the command line: text from outside cannot control the terminal, and a reader may stop early."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import TextIO, cast

CLOSED_PIPE, INTERRUPTED = 141, 130
"""Exit statuses of a program whose reader has gone (SIGPIPE), and of one that is interrupted (SIGINT)."""


def visible_text(text: str) -> str:
    """Return text with the number of each character that a terminal would obey, or hide, in place of it. JSON, and a
    text in double quotes of YAML, keep their meaning.
    """
    if all(line.isprintable() for line in text.replace("\t", "\n").split("\n")):
        return text
    return "".join(letter if letter.isprintable() or letter in "\n\t" else _number(letter) for letter in text)


def _number(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"


class Color(Enum):
    """A color of a terminal, by its number (ECMA-48)."""

    RED = 31
    GREEN = 32
    YELLOW = 33


_MARKS = {Color.RED: "✗", Color.GREEN: "✓", Color.YELLOW: "•"}
"""Mark before a line, by its color."""


class Output(io.TextIOBase):
    """A stream that makes every character of its text visible."""

    def __init__(self, stream: TextIO) -> None:
        """Write to another stream."""
        super().__init__()
        self._stream = stream
        self.has_colors = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def line(self, text: str, color: Color | None) -> None:
        """Write a line: on a terminal in a color if it has any, and no longer than the terminal is wide."""
        if not self.isatty():
            self.write(f"{text}\n")
            return
        text = fitting(f"{self._mark(color)}{visible_text(text)}", shutil.get_terminal_size().columns)
        self.control(f"\x1b[{color.value}m{text}\x1b[0m\n" if color and self.has_colors else f"{text}\n")

    def _mark(self, color: Color | None) -> str:
        """Return what says the same as a color, for terminals without, and for people who do not see it."""
        if not (self._stream.encoding or "").lower().startswith("utf"):
            return ""
        return f"{_MARKS[color] if color else ' '} "

    def write(self, text: str, /) -> int:
        """Write text."""
        return self.control(visible_text(text))

    def control(self, text: str) -> int:
        """Write text of ours as it is, with what the terminal obeys."""
        try:
            return self._stream.write(text)
        except UnicodeEncodeError:
            encoding = self._stream.encoding or "ascii"
            return self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def flush(self) -> None:
        """Write what is held back."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Return True for a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the number of the file."""
        return self._stream.fileno()


def fitting(text: str, columns: int) -> str:
    """Return text that is no longer than so many letters."""
    return text if len(text) <= columns else f"{text[: columns - 1]}…"


def print_line(text: str, color: Color | None = None) -> None:
    """Print a line of a table."""
    stream = sys.stdout
    (stream if isinstance(stream, Output) else Output(stream)).line(text, color)


def forbid_colors() -> None:
    """Print without colors from now on."""
    if isinstance(sys.stdout, Output):
        sys.stdout.has_colors = False


def control(text: str) -> None:
    """Write to stdout what the terminal is to obey; nothing if it is no terminal."""
    if sys.stdout.isatty():
        stream = sys.stdout
        (stream.control if isinstance(stream, Output) else stream.write)(text)


@contextmanager
def _outputs() -> Generator[None]:
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", Output(each)) for each in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def run(command: Callable[[], int]) -> int:
    """Run a command, and return its exit status: the usual ones, without a traceback, if its reader has gone or the
    user interrupts it.
    """
    try:
        with _outputs():
            try:
                return command()
            finally:
                sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at exit, into nothing.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
