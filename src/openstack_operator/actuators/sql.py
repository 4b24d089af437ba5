"""MariaDB as root, with the outcomes a pass knows: rows, a conflict, a refusal, or a world out of reach."""

from __future__ import annotations

import hashlib
import re
import ssl
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import pymysql
import structlog
from pymysql.constants import ER

from ..kube import one_line
from ..plan import Transient
from .answers import strange
from .loop import Conflict, Refused
from .refusals import sql_refusal
from .sql_connection import NONSENSE, Connection, Trouble, limits

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_CONNECT, _ANSWER = 4, 10
"""Seconds to wait for a connection, and for an answer."""

_EXISTS = frozenset({ER.DB_CREATE_EXISTS, ER.CANNOT_USER})
_REFUSALS = frozenset(
    {ER.UNKNOWN_CHARACTER_SET, ER.UNKNOWN_COLLATION, ER.COLLATION_CHARSET_MISMATCH, ER.TOO_LONG_IDENT}
)
"""Errors that the driver takes for trouble of the server, though only a change of the spec mends them."""


def quoted(identifier: str) -> str:
    """Return an identifier as statements quote it, safe also where the driver fills in `%s`."""
    return "`" + identifier.replace("`", "``").replace("%", "%%") + "`"


def literal(schema: str) -> str:
    """Return a schema's name as GRANT expects it: there `_` and `%` are wildcards, and nova_api would match novaXapi
    too.
    """
    return re.sub(r"([\\_%])", r"\\\1", schema)


def hashed(password: str) -> str:
    """Return the hash that mysql_native_password stores, so that the password itself is in no statement and no log."""
    once = hashlib.sha1(password.encode(), usedforsecurity=False).digest()
    return "*" + hashlib.sha1(once, usedforsecurity=False).hexdigest().upper()


Rows = Sequence[Sequence[str | None]]


class Server:
    """A connection to MariaDB as root."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def run(self, statement: str, *arguments: str, secret: bool = False) -> None:
        """Run a statement. With `secret` the server's words, which quote it, are kept out of the log, too.

        Raises Transient where trying again may help, Refused where it cannot.
        """
        self._rows(statement, arguments, secret=secret)

    def rows(
        self, columns: int, statement: str, *arguments: str, secret: bool = False
    ) -> Sequence[Sequence[str | None]]:
        """Return the rows of a statement, each with so many columns of text. Raises as `run` does, and Transient where
        the server answers something else.
        """
        rows = self._rows(statement, arguments, secret=secret)
        for row in rows:
            if len(row) != columns or not all(value is None or isinstance(value, str) for value in row):
                raise strange("MariaDB", f"a row is not one of {columns} texts")
        return rows

    def _rows(self, statement: str, arguments: Sequence[str], *, secret: bool) -> list[tuple[Any, ...]]:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement, arguments)
                return list(cursor.fetchall())
        except pymysql.MySQLError as error:
            raise _judged(error, secret=secret) from None
        except NONSENSE as error:
            raise Transient(f"MariaDB: the server broke its protocol ({type(error).__name__})") from None


def _code(error: pymysql.MySQLError) -> int:
    """Return the number of the error; 0 for one without."""
    return next((code for code in error.args[:1] if isinstance(code, int)), 0)


def _text(error: pymysql.MySQLError) -> str:
    """Explain the error without the server's text, which the driver's errors hold."""
    if isinstance(error, Trouble):
        return f"MariaDB: {error}"
    # Of the system, which the driver has put into its own.
    if isinstance(cause := getattr(error, "original_exception", None), OSError):
        return f"MariaDB: cannot connect ({cause})"
    why = sql_refusal(code := _code(error))
    return f"MariaDB: error {code}" + (f": {why}" if why else "")


def _judged(error: pymysql.MySQLError, *, secret: bool) -> Exception:
    code, text = _code(error), _text(error)
    if not secret:
        _log.debug("MariaDB refuses", error=one_line(str(error)))
    if code in _EXISTS:
        return Conflict(text)
    if code in _REFUSALS or isinstance(error, pymysql.ProgrammingError | pymysql.DataError):
        return Refused(text)
    # A server that starts, stops, joins its cluster, is read-only, full or has just gone.
    return Transient(text)


@contextmanager
def connected(host: str, port: int, password: str, trust: str = "", user: str = "root") -> Generator[Server]:
    """Yield a connection of an administrator, closed at the end. The server's certificate is checked if there are
    authorities (`trust`, in PEM). Raises Transient if it cannot be made.
    """
    with limits(), _connection(host, port, password, trust, user) as connection:
        yield Server(connection)


def _connection(host: str, port: int, password: str, trust: str, user: str) -> Connection:
    try:
        return Connection(
            host=host,
            port=port,
            user=user,
            password=password,
            charset="utf8mb4",
            autocommit=True,
            # Without a CA to check against, TLS protects from no attacker, and it costs 15 ms of CPU a connection. No
            # password crosses the wire: logins are challenged, statements carry hashes.
            ssl=ssl.create_default_context(cadata=trust) if trust else None,
            ssl_disabled=not trust,
            connect_timeout=_CONNECT,
            read_timeout=_ANSWER,
            write_timeout=_ANSWER,
        )
    except pymysql.MySQLError as error:
        raise Transient(f"{_text(error)} (at {host}:{port})") from None
    except NONSENSE as error:
        raise Transient(
            f"MariaDB: the server at {host}:{port} does not speak its protocol ({type(error).__name__})"
        ) from None
