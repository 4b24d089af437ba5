"""JSON messages that follow each other without anything between them (RFC 7047, JSON-RPC over a stream)."""

from __future__ import annotations

import re
from collections.abc import Iterator

_MARK = re.compile(rb'["\\{}\[\]]')
_IN_TEXT = re.compile(rb'["\\]')
_SPACE = re.compile(rb"[ \t\r\n]*")


class Frames:
    """A cut of what comes in into objects. Each byte is looked at once, however small the pieces are."""

    def __init__(self, *, longest: int, levels: int) -> None:
        """Take objects of so many bytes and levels of nesting at most."""
        self._longest, self._levels = longest, levels
        self._pieces: list[bytes] = []
        self._size = self._depth = 0
        self._in_text = self._is_escaped = False

    def cut(self, piece: bytes) -> Iterator[bytes]:
        """Yield the objects that end in this piece, in JSON. Raises ValueError for what cannot be one."""
        start = 0
        if not self._depth:
            start = _begin(piece, 0)
        for end in self._ends(piece, start):
            yield b"".join([*self._pieces, piece[start:end]])
            self._pieces, self._size = [], 0
            start = _begin(piece, end)
        self._add(piece[start:])

    def _add(self, rest: bytes) -> None:
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        if self._size > self._longest:
            raise ValueError("a message does not end")

    def _ends(self, piece: bytes, position: int) -> Iterator[int]:
        """Yield where objects end."""
        while position < len(piece):
            if self._is_escaped:
                self._is_escaped = False
                position += 1
                continue
            if not (mark := (_IN_TEXT if self._in_text else _MARK).search(piece, position)):
                return
            position = mark.end()
            match mark[0]:
                case b'"':
                    self._in_text = not self._in_text
                case b"\\":
                    # Outside of a text it is an error, which the decoder finds.
                    self._is_escaped = self._in_text
                case b"{" | b"[":
                    self._depth += 1
                    if self._depth > self._levels:
                        raise ValueError("a message is nested too deeply")
                case _:
                    self._depth -= 1
                    if self._depth <= 0:
                        self._depth = 0
                        yield position
                        position = _begin(piece, position)


def _begin(piece: bytes, position: int) -> int:
    """Return where the next object begins. Raises ValueError for anything else."""
    space = _SPACE.match(piece, position)
    start = space.end() if space else position
    if piece[start : start + 1] not in (b"", b"{"):
        raise ValueError("a value that is not an object")
    return start
