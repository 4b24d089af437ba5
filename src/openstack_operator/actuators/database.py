"""MariaDBDatabase: a schema and the account that owns it, over SQL."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from ..plan import Context, SpecError, Transient
from . import access, loop, sql
from .loop import Facets
from .models import MariaDBDatabaseSpec
from .name_claims import fold
from .sql import Server, hashed, literal, quoted

_GRANT = re.compile(r"GRANT (?P<what>.*) TO .*?(?P<option> WITH GRANT OPTION)?", re.DOTALL)


@contextmanager
def _connected(ctx: Context[MariaDBDatabaseSpec]) -> Generator[Server]:
    ref = ctx.spec.mariadb_ref
    host, port = access.published(ctx, ref, "host"), int(access.published(ctx, ref, "port"))
    user, password = access.admin(ctx, ref, "user", default="root"), access.admin(ctx, ref, "root")
    with sql.connected(host, port, password, access.trust(ctx, ref), user) as server:
        yield server


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
    def desired(self) -> Facets:
        collation = {"collation": self._collation} if self._collation else {}
        return {"character set": self._character_set, **collation}

    def find(self) -> Facets | None:
        rows = self._server.rows(
            3,
            "SELECT schema_name, default_character_set_name, default_collation_name"
            " FROM information_schema.schemata WHERE schema_name = %s",
            self._schema,
        )
        # information_schema compares without regard to case, tables on disk do not.
        for name, character_set, collation in rows:
            if name == self._schema:
                facets = {"character set": character_set, "collation": collation}
                return {facet: facets[facet] for facet in self.desired}
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
    """An account, from any host, with all privileges in one schema and no other; or, of `tables` in it, with SELECT."""

    path = "spec.user"

    def __init__(self, server: Server, user: str, schema: str, password: str, tables: Sequence[str] = ()) -> None:
        self.name = f"account {user}"
        self._server = server
        self._user = user
        self._schema = schema
        self._tables = tables
        # A schema's name is no pattern where a table follows.
        read = tuple(f"SELECT ON {quoted(schema)}.{quoted(table)}" for table in tables)
        self._grants = read or (f"ALL PRIVILEGES ON {quoted(literal(schema))}.*",)
        self._privileges = frozenset({"USAGE ON *.*", *(grant.replace("%%", "%") for grant in self._grants)})
        self._hash = hashed(password)
        self._excess = False

    @property
    def desired(self) -> Facets:
        return {"password": self._hash, "locked": False, "privileges": self._privileges}

    def find(self) -> Facets | None:
        rows = self._server.rows(
            3,
            "SELECT json_value(priv, '$.plugin'), json_value(priv, '$.authentication_string'),"
            " json_value(priv, '$.account_locked') FROM mysql.global_priv WHERE user = %s AND host = '%%'",
            self._user,
        )
        if not rows:
            return None
        plugin, stored, locked = rows[0]
        privileges = frozenset(
            f"{grant['what']}{grant['option'] or ''}"
            for (text,) in self._server.rows(1, "SHOW GRANTS FOR %s@'%%'", self._user, secret=True)
            if (grant := _GRANT.fullmatch(text or ""))
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
        self._check_tables()
        for grant in self._grants:
            self._server.run(f"GRANT {grant} TO %s@'%%'", self._user)

    def _check_tables(self) -> None:
        """Raise Transient while a table is missing: MariaDB grants nothing on it, and services make theirs later."""
        if not self._tables:
            return
        statement = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
        missing = {*self._tables} - {name for (name,) in self._server.rows(1, statement, self._schema)}
        if missing:
            raise Transient(f"MariaDB: schema {self._schema} has no table {', '.join(sorted(missing))} yet")

    def delete(self) -> None:
        self._server.run("DROP USER IF EXISTS %s@'%%'", self._user)


def _administers(ctx: Context[MariaDBDatabaseSpec]) -> bool:
    return fold(ctx.spec.user) == fold(access.admin(ctx, ctx.spec.mariadb_ref, "user", default="root"))


def ensure(ctx: Context[MariaDBDatabaseSpec]) -> list[str]:
    """Make schema and account as the spec says, and return what was changed. A dropped schema comes back empty."""
    spec = ctx.spec
    if _administers(ctx):
        raise SpecError("spec.user", f"{spec.user!r} administers the server; choose another name")
    password = access.password(ctx, spec.password_secret_ref)
    with _connected(ctx) as server:
        account = Account(server, spec.user, spec.database, password, spec.readable_tables or ())
        return loop.ensure((Schema(server, spec), account))


def remove(ctx: Context[MariaDBDatabaseSpec]) -> None:
    """Drop the account, and the schema where the spec says so."""
    spec = ctx.spec
    with _connected(ctx) as server:
        things: list[loop.Thing] = []
        if "spec.user" not in ctx.conflicting_fields and not _administers(ctx):
            things.append(Account(server, spec.user, spec.database, ""))
        if "spec.database" not in ctx.conflicting_fields and spec.deletion_policy == "Delete":
            things.append(Schema(server, spec))
        loop.remove(things)
