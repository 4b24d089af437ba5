"""What programs and Kubernetes say, in a form that may be shown in a condition."""

from __future__ import annotations

import re

_LONGEST = 500

# Programs quote the URL they cannot reach or the setting they do not like, and a condition may be read by many.
_URL_PASSWORD = re.compile(r"(://[^\s:/@]*:)[^\s@]+@")
_SETTING = re.compile(r"(?i)((?:password|passwd|secret|token|api_?key)\w*[\"']?\s*[:=]\s*[\"']?)[^\s\"',;]+")


def mask_passwords(text: str) -> str:
    """A log without the passwords in URLs and behind settings that are called so."""
    return _SETTING.sub(r"\1***", _URL_PASSWORD.sub(r"\1***@", text))


def one_line(text: str) -> str:
    """The text on one line, without passwords and a full stop, and not too long."""
    line = mask_passwords(" ".join(text.split())).rstrip(".")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 2]} …"
