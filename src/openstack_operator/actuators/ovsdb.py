"""A database of OVN, spoken to as RFC 7047 has it: one transaction, and the connection is closed."""

from __future__ import annotations

import json
import random
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import structlog

from ..plan import Transient
from .budget import ExhaustedError, limited
from .channel import Channel
from .frames import Frames

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_PATIENCE = 5.0
"""Seconds in which a member takes a connection, or says the next word."""
_WHOLE = 20.0
"""Seconds that a transaction may take with all members."""
_MOST = 1 << 20
"""Bytes that all members may send for a transaction. Answers to the operator's queries have a few hundred."""
_LONGEST = 512 * 1024
"""Bytes of a message."""
_LEVELS = 16
"""Levels of a message; those of answers have seven."""
_NOTIFICATIONS = 8
"""Messages that are no answer. A server asks once in five seconds whether its client is still there."""
_MEMBERS = 16
"""Members that a transaction tries at most."""

_ERRORS = frozenset(
    {
        "aborted",
        "constraint violation",
        "domain error",
        "duplicate uuid-name",
        "I/O error",
        "no such database",
        "not allowed",
        "not leader",
        "not owner",
        "permission error",
        "referential integrity violation",
        "resources exhausted",
        "syntax error",
        "timed out",
        "unknown database",
        "unknown column",
        "unknown operation",
        "unknown table",
    }
)
"""Of RFC 7047 and ovsdb-server."""

Operation = Mapping[str, Any]


def transact(
    remotes: str, database: str, operations: Sequence[Operation], tls: Mapping[str, str] | None = None
) -> list[Any]:
    """Return the result of each operation, all in one transaction, from the first member that answers. `remotes` is
    `tcp:host:port[,…]` or `ssl:…`, for which `tls` has `tls.crt`, `tls.key` and `ca.crt`.

    Raises Transient where none answers, or the database refuses.
    """
    members = remotes.split(",")
    said: list[str] = []
    # Any does: those that follow hand writes on to the one that leads.
    with limited(seconds=_WHOLE, received=_MOST):
        for remote in random.sample(members, min(len(members), _MEMBERS)):
            try:
                return _transact(remote, database, operations, tls or {})
            except (OSError, ValueError) as error:
                said.append(f"{remote}: {error}")
                if isinstance(error, ExhaustedError):
                    break
    raise Transient(f"{database} does not answer: {'; '.join(said)}")


def _transact(remote: str, database: str, operations: Sequence[Operation], tls: Mapping[str, str]) -> list[Any]:
    scheme, _, address = remote.partition(":")
    host, _, port = address.rpartition(":")
    with closing(Channel.connect(host.strip("[]"), int(port), _PATIENCE)) as channel:
        channel.settimeout(_PATIENCE)
        if scheme == "ssl":
            channel.secure(_context(tls))
        _send(channel, {"method": "transact", "params": [database, *operations], "id": 0})
        answer = _answer(channel)
    results = answer.get("result")
    if answer.get("error") or not isinstance(results, list):
        raise OSError(f"refused: {_said(answer.get('error'))}")
    operation_results: list[Any] = results
    # A fault of the transaction as a whole stands behind those of its operations.
    if faults := [each for each in operation_results if isinstance(each, dict) and each.get("error")]:
        _log.debug("transaction refused", database=database, details=faults[0].get("details"))
        raise OSError(f"refused: {_said(faults[0]['error'])}")
    return operation_results


def _said(value: object) -> str:
    """Return the error that a database reports, if it is a known one; otherwise `an error`."""
    return value if isinstance(value, str) and value in _ERRORS else "an error"


def _context(tls: Mapping[str, str]) -> ssl.SSLContext:
    """Return how to secure a connection. Like OVN's own programs, check the authority of a member's certificate, not
    its name.
    """
    if missing := sorted({"ca.crt", "tls.crt", "tls.key"} - tls.keys()):
        raise OSError(f"the file {missing[0]} for the call is missing")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=tls["ca.crt"])
    # Python takes a key from a file alone; only this user can read the folder, and it is gone at once.
    with TemporaryDirectory() as folder:
        files = {name: Path(folder) / name for name in ("tls.crt", "tls.key")}
        for name, path in files.items():
            path.write_text(tls[name], encoding="ascii")
        context.load_cert_chain(files["tls.crt"], files["tls.key"])
    return context


def _send(channel: Channel, message: Mapping[str, Any]) -> None:
    channel.sendall(json.dumps(message).encode())


def _answer(channel: Channel) -> dict[str, Any]:
    """Return the answer to the request. Raises OSError or ValueError if there is none."""
    frames = Frames(longest=_LONGEST, levels=_LEVELS)
    notifications = 0
    while True:
        if not (piece := channel.read()):
            raise OSError("closed the connection")
        for frame in _objects(frames, piece):
            message: dict[str, Any] = json.loads(frame)
            if message.get("method") is None and message.get("id") == 0:
                return message
            notifications += 1
            if notifications > _NOTIFICATIONS:
                raise OSError("sends other messages, and no answer")
            if message.get("method") == "echo":
                _send(channel, {"result": message.get("params"), "error": None, "id": message.get("id")})


def _objects(frames: Frames, piece: bytes) -> Iterator[bytes]:
    try:
        yield from frames.cut(piece)
    except ValueError as error:
        raise OSError(f"does not answer like OVN ({error})") from None
