"""MariaDBDatabase: a schema and the account that owns it, over SQL."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pymysql
from pymysql.constants import ER

from ..plan import Context, Transient
from . import access, loop
from .loop import Conflict, Facets, Refused
from .models import MariaDBDatabaseSpec

_CONNECT, _ANSWER = 4, 10
"""Seconds to wait for a connection, and for an answer."""

_EXISTS = frozenset({ER.DB_CREATE_EXISTS, ER.CANNOT_USER})
_REFUSALS = frozenset(
    {ER.UNKNOWN_CHARACTER_SET, ER.UNKNOWN_COLLATION, ER.COLLATION_CHARSET_MISMATCH, ER.TOO_LONG_IDENT}
)
"""What the driver takes for trouble of the server's, though only the spec can change it."""

_GRANT = re.compile(r"GRANT (?P<what>.*) TO .*?(?P<option> WITH GRANT OPTION)?", re.DOTALL)


def quoted(identifier: str) -> str:
    """An identifier as it stands in a statement, safe also where the driver fills in `%s`."""
    return "`" + identifier.replace("`", "``").replace("%", "%%") + "`"


def literal(schema: str) -> str:
    """A schema's name as GRANT wants it: there `_` and `%` are wildcards, and nova_api would match novaXapi too."""
    return re.sub(r"([\\_%])", r"\\\1", schema)


def hashed(password: str) -> str:
    """The password as mysql_native_password keeps it, so that the password itself is in no statement and no log."""
    once = hashlib.sha1(password.encode(), usedforsecurity=False).digest()
    return "*" + hashlib.sha1(once, usedforsecurity=False).hexdigest().upper()


class Server:
    """A connection to MariaDB as root."""

    def __init__(self, connection: pymysql.connections.Connection[Any]) -> None:
        self._connection = connection

    def run(self, statement: str, *arguments: str, secret: bool = False) -> list[tuple[Any, ...]]:
        """The rows. With `secret` the server's words, which quote the statement, are kept out of every error.

        Raises Transient where trying again may help, Refused where it cannot.
        """
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement, arguments)
                return list(cursor.fetchall())
        except pymysql.MySQLError as error:
            raise _judged(error, secret=secret) from None


def _judged(error: pymysql.MySQLError, *, secret: bool) -> Exception:
    code, said = (*error.args, 0, "")[:2]
    text = f"MariaDB: error {code}" if secret else f"MariaDB: error {code} {said}"
    if code in _EXISTS:
        return Conflict(text)
    if code in _REFUSALS or isinstance(error, pymysql.ProgrammingError | pymysql.DataError):
        return Refused(text)
    # A server that starts, stops, joins its cluster, is read-only, full or has just gone.
    return Transient(text)


@contextmanager
def _connected(ctx: Context[MariaDBDatabaseSpec]) -> Generator[Server]:
    ref = ctx.spec.mariadb_ref
    host, port = access.published(ctx, ref, "host"), int(access.published(ctx, ref, "port"))
    root = access.admin(ctx, ref, "root")
    try:
        connection = pymysql.connect(
            host=host,
            port=port,
            user="root",
            password=root,
            charset="utf8mb4",
            autocommit=True,
            # Without a CA to check against TLS keeps nobody out, and it costs 15 ms of CPU a connection. No password
            # crosses the wire: logins are challenged, statements carry hashes.
            ssl_disabled=True,
            connect_timeout=_CONNECT,
            read_timeout=_ANSWER,
            write_timeout=_ANSWER,
        )
    except pymysql.MySQLError as error:
        raise Transient(f"{ref.kind} {ref.name} at {host}:{port} does not let root in: error {error.args[0]}") from None
    with connection:
        yield Server(connection)


class Schema:
    """A schema with its character set."""

    path = "spec.database"

    def __init__(self, server: Server, spec: MariaDBDatabaseSpec) -> None:
        self.name = f"schema {spec.database}"
        self._server = server
        self._schema = spec.database
        self._collation = spec.collation
        self._character_set = spec.character_set

    @property
    def wanted(self) -> Facets:
        collation = {"collation": self._collation} if self._collation else {}
        return {"character set": self._character_set, **collation}

    def find(self) -> Facets | None:
        rows = self._server.run(
            "SELECT schema_name, default_character_set_name, default_collation_name"
            " FROM information_schema.schemata WHERE schema_name = %s",
            self._schema,
        )
        # information_schema compares without regard to case, tables on disk do not.
        for name, character_set, collation in rows:
            if name == self._schema:
                found = {"character set": character_set, "collation": collation}
                return {facet: found[facet] for facet in self.wanted}
        return None

    def _write(self, verb: str) -> None:
        collate = " COLLATE %s" if self._collation else ""
        values = (self._character_set, *([self._collation] if self._collation else []))
        self._server.run(f"{verb} DATABASE {quoted(self._schema)} CHARACTER SET %s{collate}", *values)

    def create(self) -> None:
        self._write("CREATE")

    def update(self, changed: frozenset[str]) -> None:
        self._write("ALTER")

    def delete(self) -> None:
        self._server.run(f"DROP DATABASE IF EXISTS {quoted(self._schema)}")


class Account:
    """An account, from any host, with all privileges in one schema and no other."""

    path = "spec.user"

    def __init__(self, server: Server, user: str, schema: str, password: str) -> None:
        self.name = f"account {user}"
        self._server = server
        self._user = user
        self._schema = quoted(literal(schema))
        self._privileges = frozenset({"USAGE ON *.*", f"ALL PRIVILEGES ON {self._schema.replace('%%', '%')}.*"})
        self._hash = hashed(password)
        self._excess = False

    @property
    def wanted(self) -> Facets:
        return {"password": self._hash, "locked": False, "privileges": self._privileges}

    def find(self) -> Facets | None:
        rows = self._server.run(
            "SELECT json_value(priv, '$.plugin'), json_value(priv, '$.authentication_string'),"
            " json_value(priv, '$.account_locked') FROM mysql.global_priv WHERE user = %s AND host = '%%'",
            self._user,
        )
        if not rows:
            return None
        plugin, stored, locked = rows[0]
        privileges = frozenset(
            f"{grant['what']}{grant['option'] or ''}"
            for (text,) in self._server.run("SHOW GRANTS FOR %s@'%%'", self._user, secret=True)
            if (grant := _GRANT.fullmatch(text))
        )
        self._excess = not privileges <= self._privileges
        return {
            "password": stored if plugin == "mysql_native_password" else "",
            "locked": locked in ("1", "true"),
            "privileges": privileges,
        }

    def create(self) -> None:
        self._identify("CREATE USER")
        self._grant()

    def update(self, changed: frozenset[str]) -> None:
        if self._excess:
            # REVOKE does not take roles and proxies away; connections that are open outlive this.
            self.delete()
            self.create()
            return
        if changed & {"password", "locked"}:
            self._identify("ALTER USER")
        if "privileges" in changed:
            self._grant()

    def _identify(self, verb: str) -> None:
        statement = f"{verb} %s@'%%' IDENTIFIED VIA mysql_native_password USING %s ACCOUNT UNLOCK"
        self._server.run(statement, self._user, self._hash, secret=True)

    def _grant(self) -> None:
        self._server.run(f"GRANT ALL PRIVILEGES ON {self._schema}.* TO %s@'%%'", self._user)

    def delete(self) -> None:
        self._server.run("DROP USER IF EXISTS %s@'%%'", self._user)


def ensure(ctx: Context[MariaDBDatabaseSpec]) -> list[str]:
    """Schema and account are as the spec says; what was changed comes out. A dropped schema comes back empty."""
    spec = ctx.spec
    password = access.password(ctx, spec.password_secret_ref)
    with _connected(ctx) as server:
        return loop.ensure((Schema(server, spec), Account(server, spec.user, spec.database, password)))


def remove(ctx: Context[MariaDBDatabaseSpec]) -> None:
    """The account is gone, and the schema where the spec says so."""
    spec = ctx.spec
    with _connected(ctx) as server:
        schema = (Schema(server, spec),) if spec.deletion_policy == "Delete" else ()
        loop.remove((Account(server, spec.user, spec.database, ""), *schema))
