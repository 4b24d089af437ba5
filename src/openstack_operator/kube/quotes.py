"""Texts of programs and of Kubernetes, in a form that may be shown in a condition."""

from __future__ import annotations

import re

_LONGEST = 500
_LOG = 1024
_KUBELET_LOG, _KUBELET_POD = 2048, 12 * 1024
"""Bytes that the kubelet quotes of the end of a log, and those that all containers of a pod share: with more than six
of them, it cuts what it quotes at its end, too."""

# Programs quote the URL they cannot reach or the setting they do not like, and a condition may be read by many. Each
# pattern takes linear time, whatever the text.
_URL = re.compile(r"://\S+")
_USER = re.compile(r"://[^\s:/@]*:")
_SETTING = re.compile(
    r"(?i)((?:pass(?:word|wd|phrase)|secret|token|api_?key|(?<=_)(?:pass|pw|pwd)|\bpwd)\w{0,40}[\"']?\s{0,9}[:=]\s{0,9})"
    # MariaDB says only whether there was a password.
    r"(?!(?:yes|no)\b)"
    r"(?:\"[^\"]+\"|'[^']+'|[\"']?[^\s\"',;]+)"
)
# `--password X`, also as a list of JSON or Python has it.
_OPTION = re.compile(
    r"(?i)(--[\w-]{0,40}(?:pass(?:word|wd|phrase)?|secret|token|api-?key|pwd?)[\"']?(?:,\s{0,9}|\s{1,9}))"
    r"(?!-)(?:\"[^\"]+\"|'[^']+'|[\"']?[^\s\"',;]+)"
)
_HEADER = re.compile(r"(?i)(authorization[\"']?\s{0,9}[:=]\s{0,9}[\"']?(?:basic|bearer)\s{1,9})[^\s\"']+")


# What a terminal takes for an order: colors, positions, titles; each has an end, or is cut with its line.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]|\x1b(?:\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)|[ -/]{1,8}[0-~]|[@-Z^_])"
)


def plain(text: str) -> str:
    """Return a text without escape sequences of terminals, and with a question mark for each other character that
    cannot be printed, but for ends of lines: programs write it, and others print it.
    """
    if text.isprintable():
        return text
    lines = _ESCAPE.sub("", text).replace("\r\n", "\n").replace("\t", " ")
    return "".join(each if each.isprintable() or each == "\n" else "?" for each in lines)


def without_escapes(text: str) -> str:
    """Return a text without escape sequences of terminals."""
    return _ESCAPE.sub("", text)


def mask_passwords(text: str) -> str:
    """Return a log without passwords in URLs, in settings that are named like passwords, and in HTTP headers; and
    without a terminal's colors, since one between a setting and its value would hide both.
    """
    settings = _SETTING.sub(r"\1***", _URL.sub(_mask_url, without_escapes(text)))
    return _HEADER.sub(r"\1***", _OPTION.sub(r"\1***", settings))


def _mask_url(url: re.Match[str]) -> str:
    """Return a URL without the text between the first user and the last @: it may have several hosts, each with a user,
    and a password may contain an @.
    """
    user = _USER.search(url[0])
    end = url[0].rfind("@")
    return f"{url[0][: user.end()]}***{url[0][end:]}" if user and end > user.end() else url[0]


def last_log(message: str, containers: int) -> str:
    """Return the end of a log, as the status of a container that ended quotes it, without passwords: at most 1024
    characters, fewer with more `containers` in the pod. What the kubelet cut in two is left out, since the password in
    a URL or a setting that begins before the quote, or ends after it, cannot be found.
    """
    size, share = len(message.encode()), _KUBELET_POD // max(containers, 1)
    if size >= min(_KUBELET_LOG, share):
        message = _without_first(message)
    if size >= share:
        message = "".join(message.rsplit(maxsplit=1)[:-1])
    log = mask_passwords(plain(message).strip())
    return log if len(log) <= _LOG else _without_first(log[-_LOG:]) or log[-_LOG:]


def _without_first(text: str) -> str:
    """Return the text without its first line, or without the first word of its only line."""
    _, _, rest = text.strip().partition("\n")
    return rest or " ".join(text.split()[1:])


def quote(text: str, longest: int) -> str:
    """Return the beginning of a text, plain and without passwords."""
    return mask_passwords(plain(text))[:longest]


def one_line(text: str) -> str:
    """Return the text on one line, plain, without passwords and a full stop, and not too long."""
    line = mask_passwords(" ".join(plain(text).split())).rstrip(".")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 2]} …"
