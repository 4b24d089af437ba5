"""Texts of programs and of Kubernetes, in a form that may be shown in a condition."""

from __future__ import annotations

import re

_LONGEST = 500

# Programs quote the URL they cannot reach or the setting they do not like, and a condition may be read by many. Each
# pattern takes linear time, whatever the text.
_URL = re.compile(r"://\S+")
_USER = re.compile(r"://[^\s:/@]*:")
_SETTING = re.compile(
    r"(?i)((?:password|passwd|secret|token|api_?key)\w{0,40}[\"']?\s{0,9}[:=]\s{0,9})"
    # MariaDB says only whether there was a password.
    r"(?!(?:yes|no)\b)"
    r"(?:\"[^\"]+\"|'[^']+'|[\"']?[^\s\"',;]+)"
)
_HEADER = re.compile(r"(?i)(authorization[\"']?\s{0,9}[:=]\s{0,9}[\"']?(?:basic|bearer)\s{1,9})[^\s\"']+")


def mask_passwords(text: str) -> str:
    """A log without the passwords in URLs, behind settings that are called so, and in HTTP headers."""
    return _HEADER.sub(r"\1***", _SETTING.sub(r"\1***", _URL.sub(_mask_url, text)))


def _mask_url(url: re.Match[str]) -> str:
    """A URL without what stands between the first user and the last @: there may be several, with a host each, and a
    password may have an @ in it.
    """
    user = _USER.search(url[0])
    end = url[0].rfind("@")
    return f"{url[0][: user.end()]}***{url[0][end:]}" if user and end > user.end() else url[0]


def one_line(text: str) -> str:
    """The text on one line, without passwords and a full stop, and not too long."""
    line = mask_passwords(" ".join(text.split())).rstrip(".")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 2]} …"
