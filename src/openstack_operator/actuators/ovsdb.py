"""A database of OVN, spoken to as RFC 7047 has it: one transaction, and the connection is closed."""

from __future__ import annotations

import codecs
import json
import random
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import structlog

from ..plan import Transient
from . import egress

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_PATIENCE = 5.0
"""Seconds in which a member takes a connection, or says the next word."""
_LONGEST = 8 * 1024 * 1024
"""Most bytes of an answer. Answers to the operator's queries have a few hundred."""

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
    for remote in random.sample(members, len(members)):
        try:
            return _transact(remote, database, operations, tls or {})
        except (OSError, ValueError) as error:
            said.append(f"{remote}: {error}")
    raise Transient(f"{database} does not answer: {'; '.join(said)}")


def _transact(remote: str, database: str, operations: Sequence[Operation], tls: Mapping[str, str]) -> list[Any]:
    scheme, _, address = remote.partition(":")
    host, _, port = address.rpartition(":")
    with (
        closing(egress.connect(host.strip("[]"), int(port), _PATIENCE)) as plain,
        closing(_secured(plain, tls) if scheme == "ssl" else plain) as connection,
    ):
        _send(connection, {"method": "transact", "params": [database, *operations], "id": 0})
        answer = _answer(connection)
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
    """The error of a database, where it is one that there is."""
    return value if isinstance(value, str) and value in _ERRORS else "an error"


def _secured(connection: socket.socket, tls: Mapping[str, str]) -> socket.socket:
    """Secure the connection with TLS. Like OVN's own programs, check the authority of a member's certificate, not its
    name.
    """
    if missing := sorted({"ca.crt", "tls.crt", "tls.key"} - tls.keys()):
        raise OSError(f"there is no {missing[0]} to call it with")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=tls["ca.crt"])
    # Python takes a key from a file alone; only this user can read the folder, and it is gone at once.
    with TemporaryDirectory() as folder:
        files = {name: Path(folder) / name for name in ("tls.crt", "tls.key")}
        for name, path in files.items():
            path.write_text(tls[name], encoding="ascii")
        context.load_cert_chain(files["tls.crt"], files["tls.key"])
    return context.wrap_socket(connection)


def _send(connection: socket.socket, message: Mapping[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode())


def _answer(connection: socket.socket) -> dict[str, Any]:
    """Return the answer to the request. Messages follow each other without anything between them."""
    decoder, text = json.JSONDecoder(), ""
    # A chunk may end within a letter.
    letters = codecs.getincrementaldecoder("utf-8")()
    incoming = connection.makefile("rb", buffering=0)
    while len(text) < _LONGEST:
        chunk: bytes = incoming.read(65536) or b""
        if not chunk:
            raise OSError("closed the connection")
        text += letters.decode(chunk)
        while text := text.lstrip():
            try:
                message, end = decoder.raw_decode(text)
            except ValueError:
                break
            except RecursionError:
                raise OSError("does not answer as OVN does") from None
            text = text[end:]
            if not isinstance(message, dict):
                raise OSError("does not answer as OVN does")
            if message.get("method") == "echo":
                _send(connection, {"result": message.get("params"), "error": None, "id": message.get("id")})
            elif message.get("id") == 0:
                return message
    raise OSError("the answer does not end")
