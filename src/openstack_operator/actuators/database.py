"""MariaDBDatabase: a schema and the account that owns it, over SQL."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager

from ..plan import Context, SpecError
from . import access, loop, sql
from .claims import fold
from .loop import Facets
from .models import MariaDBDatabaseSpec
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
    def wanted(self) -> Facets:
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
        self._server.run(f"GRANT ALL PRIVILEGES ON {self._schema}.* TO %s@'%%'", self._user)

    def delete(self) -> None:
        self._server.run("DROP USER IF EXISTS %s@'%%'", self._user)


def _administers(ctx: Context[MariaDBDatabaseSpec]) -> bool:
    return fold(ctx.spec.user) == fold(access.admin(ctx, ctx.spec.mariadb_ref, "user", default="root"))


def ensure(ctx: Context[MariaDBDatabaseSpec]) -> list[str]:
    """Schema and account are as the spec says; what was changed comes out. A dropped schema comes back empty."""
    spec = ctx.spec
    if _administers(ctx):
        raise SpecError("spec.user", f"{spec.user!r} administers the server; choose another name")
    password = access.password(ctx, spec.password_secret_ref)
    with _connected(ctx) as server:
        return loop.ensure((Schema(server, spec), Account(server, spec.user, spec.database, password)))


def remove(ctx: Context[MariaDBDatabaseSpec]) -> None:
    """The account is gone, and the schema where the spec says so."""
    spec = ctx.spec
    with _connected(ctx) as server:
        things: list[loop.Thing] = []
        if "spec.user" not in ctx.taken and not _administers(ctx):
            things.append(Account(server, spec.user, spec.database, ""))
        if "spec.database" not in ctx.taken and spec.deletion_policy == "Delete":
            things.append(Schema(server, spec))
        loop.remove(things)
