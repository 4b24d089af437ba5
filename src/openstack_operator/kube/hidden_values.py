"""A search for secret values in a text, in each encoding that programs write."""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from urllib.parse import quote

Range = tuple[int, int]

_LONG = 8
"""Characters of a value that is looked for anywhere. A shorter one has to be a word of its own."""
SHORTEST = 3
"""Characters of a value that is looked for at all."""
ENCODED = 5
"""Bytes of a value that is looked for within longer text in base64 or hexadecimal digits."""
_GRAM = 6
"""Characters by which encoded values are looked up."""
_ROUNDS = 3
"""Times an encoding may be in another one."""
_PERCENT = r"(?:%[0-9A-Fa-f]{2})+"
_BACKSLASH = r"(?:\\u[0-9A-Fa-f]{4})+|(?:\\x[0-9A-Fa-f]{2})+|(?:\\[0-7]{3})+|\\U[0-9A-Fa-f]{8}|\\[^\n]"
_SHELL = r"'\\''|'\"'\"'"
_HTML = r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,8});"
_YAML = r"''"
_ENCODINGS = tuple(re.compile(each) for each in (_PERCENT, _SHELL, _BACKSLASH, _HTML, _YAML))
"""One at a time: what is an escape of one is plain text of another, such as a password with a backslash in a URL."""
_ANY = re.compile("|".join((_PERCENT, _SHELL, _BACKSLASH, _HTML, _YAML)))
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}
_WRAPPED = re.compile(r"\r?\n[ \t>|]*")
_RUN = re.compile(r"[A-Za-z0-9+/]{6,}=*")
_TO_STANDARD, _TO_URL = str.maketrans("-_", "+/"), str.maketrans("+/", "-_")


class HiddenValues:
    """A search for values as they are, and in the encodings of URLs, JSON, shells, HTML, base64 and hexadecimal digits,
    one in another, too.
    """

    def __init__(self, values: Iterable[str]) -> None:
        self._texts = dict[str, bool]()
        """Texts to look for; True for those that are looked for anywhere."""
        self._encoded = dict[str, set[str]]()
        """Their middles in base64 and hexadecimal digits, by their first characters."""
        for value in values:
            self._learn(value)

    def _learn(self, value: str) -> None:
        if len(value) < SHORTEST:
            return
        data = value.encode(errors="surrogateescape")
        digits = base64.b64encode(data).decode().rstrip("=")
        texts = (value, value.replace(" ", "+"), digits, digits.translate(_TO_URL), data.hex(), data.hex().upper())
        self._texts |= {text: len(data) >= _LONG for text in texts}
        if len(data) >= ENCODED:
            for written in {value, json.dumps(value)[1:-1], quote(value, safe=""), html.escape(value)}:
                data = written.encode(errors="surrogateescape")
                for middle in (*_middles(data), data.hex(), data.hex().upper()):
                    self._encoded.setdefault(middle[:_GRAM], set()).add(middle)
            self._learn_letters(value)

    def _learn_letters(self, value: str) -> None:
        data = json.dumps(value, ensure_ascii=False)[1:-1].encode(errors="surrogateescape")
        for middle in _middles(data):
            self._encoded.setdefault(middle[:_GRAM], set()).add(middle)

    def ranges(self, text: str) -> list[Range]:
        """Return where values stand, in order and apart from each other."""
        return _merged(self._ranges(text, _ROUNDS, set()))

    def _ranges(self, text: str, rounds: int, visited: set[str]) -> Iterator[Range]:
        """Yield where values stand; `visited` has the texts that were searched already."""
        yield from self._plain(text)
        if self._encoded:
            view = _View(text, _WRAPPED, lambda _: "")
            for start, end in self._digits(view.text.translate(_TO_STANDARD)):
                yield view.place(start, end)
        for view in _decoded_views(text, rounds):
            if view.text not in visited:
                visited.add(view.text)
                for start, end in _merged(self._ranges(view.text, rounds - 1, visited)):
                    yield view.place(start, end)

    def _plain(self, text: str) -> Iterator[Range]:
        for value, is_anywhere in self._texts.items():
            start = text.find(value)
            while start >= 0:
                end = start + len(value)
                if is_anywhere or not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
                    yield start, end
                start = text.find(value, end)

    def _digits(self, text: str) -> Iterator[Range]:
        """Yield where runs of digits are that hold an encoded value: the whole run, since it may hold other parts."""
        encoded = self._encoded
        for run in _RUN.finditer(text):
            digits = run[0]
            if any(
                digits.startswith(middle, at)
                for at in range(len(digits) - _GRAM + 1)
                if (gram := digits[at : at + _GRAM]) in encoded
                for middle in encoded[gram]
            ):
                yield run.span()


def _middles(data: bytes) -> Iterator[str]:
    """Yield the digits in base64 that are the same whatever is before and behind; by where in three bytes it begins."""
    for before in range(3):
        digits = base64.b64encode(bytes(before) + data).decode()
        whole = (before + len(data)) * 8 // 6
        yield digits[-(-before * 8 // 6) : whole]


class _View:
    """A text with parts of it replaced, and the way back from its places."""

    def __init__(self, text: str, pattern: re.Pattern[str], replace: Callable[[str], str]) -> None:
        pieces: list[str] = []
        self._starts = [0]
        """Positions in the view at which pieces begin."""
        self._places: list[Range] = []
        """Their positions in the text. Each replacement is a piece of its own."""
        size = position = 0
        for match in pattern.finditer(text):
            for piece, place in (
                (text[position : match.start()], (position, match.start())),
                (replace(match[0]), match.span()),
            ):
                pieces.append(piece)
                self._places.append(place)
                size += len(piece)
                self._starts.append(size)
            position = match.end()
        pieces.append(text[position:])
        self._places.append((position, len(text)))
        self.text = "".join(pieces)

    def place(self, start: int, end: int) -> Range:
        """Return where in the text a part of the view comes from."""
        first_piece = bisect_right(self._starts, start) - 1
        last_piece = bisect_right(self._starts, end - 1) - 1
        return self._place(first_piece, start, 0), self._place(last_piece, end, 1)

    def _place(self, piece: int, position: int, side: int) -> int:
        place = self._places[piece]
        # Of odd ones, a part is not the same as in the text.
        return place[side] if piece % 2 else place[0] + position - self._starts[piece]


def _decoded_views(text: str, rounds: int) -> Iterator[_View]:
    """Yield the text without one encoding, for each that it may have, and without any."""
    if not rounds or not any(each in text for each in "\\%&'"):
        return
    present = [each for each in _ENCODINGS if each.search(text)]
    patterns = [*present[: None if rounds > 1 else 0], *([_ANY] if present else [])]
    for pattern in patterns:
        yield _View(text, pattern, _decoded)
        if "\\x" in text and pattern is not _ENCODINGS[0]:
            yield _View(text, pattern, _decoded_letters)


def _decoded_letters(text: str) -> str:
    r"""Decode `\x` numbers as letters, as YAML and JavaScript do; for others they are bytes."""
    if text.startswith("\\x") and len(text) > 2:
        return "".join(chr(int(each, 16)) for each in text.split("\\x")[1:])
    return _decoded(text)


def _decoded(text: str) -> str:
    if text[0] == "%":
        return binascii.unhexlify(text.replace("%", "")).decode(errors="replace")
    if text[0] == "&":
        return html.unescape(text)
    if text[0] == "'":
        return "'"
    kind = text[1]
    return _points(text, kind) if len(text) > 2 else _LETTERS.get(kind, kind)


def _points(text: str, kind: str) -> str:
    """Return what escapes with the numbers of letters or bytes stand for."""
    if kind in "uU":
        points = (int(each, 16) for each in text.split(f"\\{kind}")[1:])
        letters = "".join(chr(point) for point in points if point < 0x110000)
        # Letters beyond 65535 come as two halves.
        return letters.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    base = 16 if kind == "x" else 8
    numbers = text.split("\\x" if kind == "x" else "\\")[1:]
    return bytes(int(each, base) & 255 for each in numbers).decode(errors="replace")


def _merged(ranges: Iterable[Range]) -> list[Range]:
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged


def replaced(text: str, ranges: Sequence[Range], mask: str) -> str:
    """Return the text with a mask in these places."""
    pieces: list[str] = []
    position = 0
    for start, end in ranges:
        pieces += text[position:start], mask
        position = end
    return "".join([*pieces, text[position:]])
