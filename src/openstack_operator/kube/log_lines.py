"""The line of a log that says why its program ended."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_LEVELS = r"DEBUG|INFO|NOTICE|NOTE|AUDIT|WARN|WARNING|ERR|ERROR|ALERT|CRITICAL|FATAL|EMER|EMERG"
_GRAVE = {"ERR", "ERROR", "ALERT", "CRITICAL", "FATAL", "EMER", "EMERG"}
_FORMATS = (
    # oslo.log: time, process, level, logger. Each line of a traceback has all of that, and the empty one behind it.
    re.compile(rf"^\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\S* \d+ (?P<level>{_LEVELS}) \S+(?: (?P<text>.*))?$"),
    # mariadbd, rabbitmq-server, haproxy, memcached: a level in brackets, then perhaps an Erlang process.
    re.compile(rf"(?i)^[-\d:.,+TZ ]*\[(?P<level>{_LEVELS})\](?: +<[\d.]+>| +\(\d+\) :)?(?: (?P<text>.*))?$"),
    # Open vSwitch and OVN
    re.compile(rf"^\S+Z\|\d+\|[^|]+\|(?P<level>{_LEVELS})\|(?P<text>.*)$"),
    # Python's logging, and programs that follow it
    re.compile(rf"^(?P<level>{_LEVELS}):(?P<text>.*)$"),
)
_CLOSING = re.compile(
    # uWSGI
    r"^(?:goodbye to uWSGI|VACUUM: |SIGINT/SIGTERM received|\.*brutally killing|worker \d+ |DAMN ! worker |UAAAAAAH )"
    r"|^(?:unable to load app|no python application found|no app could be loaded|spawned uWSGI|binary reloading)"
    r"|^(?:\*\*\* .* \*\*\*$|mounting |closing all non-uwsgi|running \"exec:|mapped \d+ bytes|your )"
    # mariadbd, when an engine or a plugin it named before did not start
    r"|^(?:Aborting$|Plugin '\w+' (?:init function|registration as|is disabled)|Unknown/unsupported storage engine)"
    r"|^(?:Failed to initialize plugins|\S*(?:mariadbd|mysqld): Shutdown complete|Warning: Memory not freed)"
    # Erlang, behind what RabbitMQ said
    r"|^(?:\{?\"?Kernel pid terminated|Crash dump is being written|Runtime terminating during boot|\[os_mon\]|=+$)"
    # haproxy, behind the lines that are wrong
    r"|.*(?:Fatal errors|Error\(s\)) found in configuration"
)
_FRAME = re.compile(r'^ +File "[^"]+", line \d+')
_BOOT_FAILED = "BOOT FAILED"
"""RabbitMQ's headline, above why it does not start."""


@dataclass(frozen=True)
class _Line:
    raw: str
    level: str
    """Upper case; empty for a line that has none."""
    text: str
    """Text behind time, level and logger; of a traceback with its indentation."""

    @property
    def is_closing(self) -> bool:
        """Return True if a program logs such lines when it ends, for any cause."""
        return not self.text.strip() or bool(_CLOSING.match(self.text)) or self.level not in {"", *_GRAVE}


def cause_line(log: str) -> str:
    """Return the line of a log that says why its program ended: the exception of its last traceback, or the last error,
    if all that follows is what programs log while they end; otherwise the last line. Empty for an empty log.
    """
    raws = [raw.rstrip() for raw in log.splitlines() if raw.strip()]
    lines = [_parse(raw) for raw in raws]
    rest = list(lines)
    while rest and rest[-1].is_closing:
        rest.pop()
    if not rest:
        return raws[-1].strip() if raws else ""
    # An exception and what RabbitMQ says may go on over several lines.
    position, explanation = max(_exception(rest), _boot_failure(rest))
    error = max((n for n, line in enumerate(rest) if _is_error(line)), default=-1)
    if position >= 0 and position >= error:
        return explanation
    ends_as_usual = len(rest) < len(lines)
    return rest[error if error >= 0 and ends_as_usual else -1].raw.strip()


def _parse(raw: str) -> _Line:
    if raw.startswith("{") and (line := _parse_json(raw)):
        return line
    for form in _FORMATS:
        if match := form.match(raw):
            return _Line(raw, match["level"].upper(), match["text"] or "")
    return _Line(raw, "", raw)


def _parse_json(raw: str) -> _Line | None:
    """Return a line of oslo.log's JSON, of which a traceback is a part; None for another one."""
    try:
        record: Any = json.loads(raw)
        level, name, text = (str(record[field]) for field in ("levelname", "name", "message"))
        traceback = record.get("traceback")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    # Its last line names the exception.
    frames = [str(line) for line in traceback if line] if isinstance(traceback, list) else []
    text = frames[-1].strip() if frames else text
    return _Line(f"{level} {name} {text}", level.upper(), text)


def _is_error(line: _Line) -> bool:
    return line.level in _GRAVE and not line.is_closing and not line.text.startswith(" ")


def _exception(lines: Sequence[_Line]) -> tuple[int, str]:
    """Return the position and the text of `SomeError: text` behind the last frames of a traceback; -1 where there is
    none.
    """
    frame = max((n for n, line in enumerate(lines) if _FRAME.match(line.text)), default=len(lines))
    behind = (n for n in range(frame + 1, len(lines)) if not lines[n].text.startswith(" "))
    position = next(behind, -1)
    return (position, lines[position].text) if position >= 0 else (-1, "")


def _boot_failure(lines: Sequence[_Line]) -> tuple[int, str]:
    """Return the position and the text of RabbitMQ's boot failure, below its headline: `Exception during startup:` and
    the exception; -1 if there is none.
    """
    headline = max((n for n, line in enumerate(lines) if line.text.strip() == _BOOT_FAILED), default=len(lines))
    below = [n for n in range(headline + 1, len(lines)) if not lines[n].is_closing][:2]
    if not below:
        return -1, ""
    said = lines[below[0]].text.strip()
    if said.endswith(":") and len(below) > 1:
        return below[1], f"{said} {lines[below[1]].text.strip()}"
    return below[0], said
