"""Values of Secrets that go into files whose lines have a meaning."""

from __future__ import annotations

from ...plan import Incomplete


def one_line(value: str, path: str, secret: str, key: str, *, advice: str = "") -> str:
    """Return the value of a key. Raise Incomplete for the field at `path` if it has several lines: its second line
    would be an option, an account or a section of its own.
    """
    if not value.isprintable():
        raise Incomplete(path, f"key {key!r} of Secret {secret!r} must be a single line{advice and f'; {advice}'}")
    return value
