"""Keeps JSON out of this process that is nested too deeply or too large for it.

The API server accepts 10,000 levels in a field without a schema. Each level takes a frame of its decoder, and
Python ends a program's work with RecursionError after about 1,000. It accepts a megabyte of empty lists, too:
these take 20 MB and 0.13 s each time that they are decoded, and nothing else runs meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ...plan import SpecError

LEVELS = 100
"""Levels of nesting; deeper ones are cut. No field that Kubernetes or this operator defines has a fifth of it."""
CUT = f"(cut: nested deeper than {LEVELS} levels)"
"""Text in place of something that was cut."""
_MARK = msgspec.json.encode(CUT)

KIBIBYTES = 256
"""Size of a spec or a status above which it is left out. The largest sample has a twentieth of it."""
_LARGE = f"(left out: larger than {KIBIBYTES} KiB)"
"""The only field of what was left out."""
_LARGE_MARK = msgspec.Raw(msgspec.json.encode({_LARGE: ""}))

_ROOM = 200
"""Levels that still decode, with those of the lists and events an object comes in."""
_raw = msgspec.json.Decoder(msgspec.Raw)
# Possessive, so that a text of a megabyte takes as long as it is and no memory.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_OPENS, _CLOSES = b"[{", b"]}"


def cut_deep(content: bytes) -> bytes:
    """Return the JSON, with CUT for what is below LEVELS where it is nested so deep that decoding it could fail."""
    if content.count(b"{") + content.count(b"[") <= LEVELS:
        return content
    try:
        _raw.decode(b"[" * _PADDING + content + b"]" * _PADDING)
    except RecursionError:
        return _cut(content)
    except msgspec.DecodeError:
        # Its reader says what is wrong with it.
        return content
    return content


def leave_out_large(fields: Mapping[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    """Return the fields of an object, with a note in place of a spec and a status that are too large."""
    return {
        name: _LARGE_MARK if name in ("spec", "status") and memoryview(value).nbytes > KIBIBYTES << 10 else value
        for name, value in fields.items()
    }


def check_limits(content: bytes) -> None:
    """Raise SpecError with the path of a field of this resource's spec in which something was cut or left out."""
    if _LARGE.encode() in content and _LARGE in msgspec.json.decode(content).get("spec", {}):
        raise SpecError("spec", f"is larger than {KIBIBYTES} KiB; make it smaller")
    if _MARK not in content:
        return
    pending: list[tuple[tuple[int | str, ...], Any]] = [((), msgspec.json.decode(content).get("spec"))]
    while pending:
        path, value = pending.pop()
        if value == CUT:
            # The first levels say which field it is.
            field = "spec" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path[:4])
            raise SpecError(field, f"is nested deeper than {LEVELS} levels; make it flatter")
        if isinstance(value, dict):
            pending += [((*path, name), inner) for name, inner in cast("dict[str, Any]", value).items()]
        elif isinstance(value, list):
            pending += [((*path, index), inner) for index, inner in enumerate(cast("list[Any]", value))]


def _cut(content: bytes) -> bytes:
    pieces: list[bytes] = []
    depth = start = 0
    for token in _TOKEN.finditer(content):
        byte = content[token.start()]
        if byte in _OPENS:
            depth += 1
            if depth == LEVELS + 1:
                pieces += content[start : token.start()], _MARK
        elif byte in _CLOSES:
            if depth == LEVELS + 1:
                start = token.end()
            depth -= 1
    return b"".join([*pieces, content[start:]])


def _deepest() -> int:
    """Return the levels that can be decoded from here."""
    low, high = 0, 100_000
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _raw.decode(b"[" * middle + b"]" * middle)
            low = middle
        except RecursionError:
            high = middle
    return low


_PADDING = max(_deepest() - _ROOM, 0)
