"""MariaDBDatabase against a server in memory, which reads statements the way MariaDB quotes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysql.converters import escape_string

from openstack_operator.actuators import ACTUATORS, sql
from openstack_operator.actuators.sql import hashed, literal, quoted
from openstack_operator.plan import Context, ResolvedRef, SpecError, Transient
from tests.unit.fake_http import context

DATABASE = ACTUATORS[0]
PASSWORD = "s3'c\\ret%s"

_TOKEN = re.compile(r"`((?:``|[^`])*)`|'((?:\\.|[^'\\])*)'", re.DOTALL)


def parsed(text: str) -> tuple[str, list[str]]:
    """A statement with `?` for every quoted token, and what the tokens say."""
    values = [
        found[1].replace("``", "`") if found[1] is not None else re.sub(r"\\(.)", r"\1", found[2])
        for found in _TOKEN.finditer(text)
    ]
    return _TOKEN.sub("?", text), values


class MariaDB:
    """Schemas and accounts of a server, and a connection to it."""

    def __init__(self) -> None:
        self.schemas: dict[str, tuple[str, str]] = {"mysql": ("utf8mb4", "utf8mb4_general_ci")}
        self.accounts: dict[str, dict[str, Any]] = {}
        self.tables: dict[str, set[str]] = {}
        """By schema."""
        self.statements: list[str] = []
        self.fault: pymysql.MySQLError | None = None
        self.root = "rootpw"
        self.rows: list[tuple[Any, ...]] = []

    def connect(self, *, password: str, **_: Any) -> MariaDB:
        if password != self.root:
            raise pymysql.OperationalError(1045, "Access denied for user 'root'@'10.0.0.1'")
        return self

    def cursor(self) -> MariaDB:
        return self

    def __enter__(self) -> MariaDB:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The next pass connects again."""

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.rows

    def execute(self, statement: str, arguments: tuple[str, ...]) -> None:
        text = statement % tuple(f"'{escape_string(argument)}'" for argument in arguments)
        self.statements.append(text)
        verb, values = parsed(text)
        if self.fault and not verb.startswith(("SELECT", "SHOW")):
            raise self.fault
        self.rows = []
        if "information_schema.schemata" in verb:
            self.rows = [(n, *rest) for n, rest in self.schemas.items() if n.lower() == values[-1].lower()]
        elif "information_schema.tables" in verb:
            self.rows = [(name,) for name in self.tables.get(values[-1], ())]
        elif "mysql.global_priv" in verb:
            account = self.accounts.get(values[-2])
            self.rows = [(account["plugin"], account["hash"], account["locked"])] if account else []
        elif verb == "SHOW GRANTS FOR ?@?":
            self.rows = [(text,) for text in self.grants(values[0])]
        else:
            self.write(verb, values)

    def grants(self, user: str) -> list[str]:
        account = self.accounts[user]
        usage = f"GRANT USAGE ON *.* TO `{user}`@`%` IDENTIFIED BY PASSWORD '{account['hash']}'"
        return [usage, *(grant.replace("{to}", f"TO `{user}`@`%`") for grant in sorted(account["grants"]))]

    def write(self, verb: str, values: list[str]) -> None:
        match verb:
            case "CREATE DATABASE ? CHARACTER SET ?" | "ALTER DATABASE ? CHARACTER SET ?":
                self.schemas[values[0]] = (values[1], f"{values[1]}_uca1400_ai_ci")
            case "CREATE DATABASE ? CHARACTER SET ? COLLATE ?" | "ALTER DATABASE ? CHARACTER SET ? COLLATE ?":
                self.schemas[values[0]] = (values[1], values[2])
            case "DROP DATABASE IF EXISTS ?":
                self.schemas.pop(values[0], None)
            case "CREATE USER ?@? IDENTIFIED VIA mysql_native_password USING ? ACCOUNT UNLOCK":
                self.accounts[values[0]] = {**self.login(values[2]), "grants": set()}
            case "ALTER USER ?@? IDENTIFIED VIA mysql_native_password USING ? ACCOUNT UNLOCK":
                self.accounts[values[0]].update(self.login(values[2]))
            case "GRANT ALL PRIVILEGES ON ?.* TO ?@?":
                name = values[0].replace("`", "``")
                held = self.accounts[values[1]]["grants"]
                held -= {grant for grant in held if f"ON `{name}`.*" in grant and "OPTION" not in grant}
                held.add(f"GRANT ALL PRIVILEGES ON `{name}`.* {{to}}")
            case "GRANT SELECT ON ?.? TO ?@?" if values[1] not in self.tables.get(values[0], ()):
                raise pymysql.ProgrammingError(1146, "Table doesn't exist")
            case "GRANT SELECT ON ?.? TO ?@?":
                self.accounts[values[2]]["grants"].add(f"GRANT SELECT ON `{values[0]}`.`{values[1]}` {{to}}")
            case "DROP USER IF EXISTS ?@?":
                self.accounts.pop(values[0], None)
            case _:
                raise pymysql.ProgrammingError(1064, f"You have an error in your SQL syntax near {verb}")

    def login(self, stored: str) -> dict[str, Any]:
        return {"plugin": "mysql_native_password", "hash": stored, "locked": "0"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> MariaDB:
    server = MariaDB()
    monkeypatch.setattr(sql, "Connection", server.connect)
    return server


def wanted(**spec: Any) -> Context[Any]:
    names = {"database": "nova_api", "user": "nova_api", "passwordSecretRef": {"name": "p", "key": "k"}}
    return context(
        DATABASE,
        names | spec,
        {"host": "mariadb.openstack.svc", "port": "3306", "adminSecret": "a"},
        {"a": {"root": "rootpw"}, "p": {"k": PASSWORD}},
    )


def healthy(server: MariaDB) -> bool:
    account = server.accounts["nova_api"]
    return server.schemas["nova_api"][0] == "utf8mb3" and account == {
        "plugin": "mysql_native_password",
        "hash": hashed(PASSWORD),
        "locked": "0",
        "grants": {"GRANT ALL PRIVILEGES ON `nova\\_api`.* {to}"},
    }


def test_everything_is_made_once(server: MariaDB) -> None:
    assert DATABASE.ensure(wanted()) == ["schema nova_api created", "account nova_api created"]
    assert healthy(server)
    before = len(server.statements)
    assert DATABASE.ensure(wanted()) == []
    assert all(text.startswith(("SELECT", "SHOW")) for text in server.statements[before:])


def account(server: MariaDB) -> dict[str, Any]:
    return server.accounts["nova_api"]


DRIFTS: dict[str, Callable[[MariaDB], object]] = {
    "dropped schema": lambda server: server.schemas.pop("nova_api"),
    "dropped user": lambda server: server.accounts.pop("nova_api"),
    "changed password": lambda server: account(server).update(hash=hashed("other")),
    "locked": lambda server: account(server).update(locked="true"),
    "another plugin": lambda server: account(server).update(plugin="ed25519"),
    "revoked": lambda server: account(server).update(grants=set()),
    "fewer": lambda server: account(server).update(grants={"GRANT SELECT, INSERT ON `nova\\_api`.* {to}"}),
    "elsewhere": lambda server: account(server)["grants"].add("GRANT SELECT ON `keystone`.* {to}"),
    "wildcard": lambda server: account(server)["grants"].add("GRANT ALL PRIVILEGES ON `nova_api`.* {to}"),
    "may grant": lambda server: account(server)["grants"].add(
        "GRANT ALL PRIVILEGES ON `nova\\_api`.* {to} WITH GRANT OPTION"
    ),
    "role": lambda server: account(server)["grants"].add("GRANT `admins` {to}"),
}


@pytest.mark.parametrize("drift", DRIFTS)
def test_drift_is_repaired(server: MariaDB, drift: str) -> None:
    DATABASE.ensure(wanted())
    DRIFTS[drift](server)
    changes = DATABASE.ensure(wanted())
    assert len(changes) == 1
    assert hashed(PASSWORD) not in changes[0]
    assert healthy(server)
    assert DATABASE.ensure(wanted()) == []


TABLES = {"console_auth_tokens", "instances"}
READS = {f"GRANT SELECT ON `nova_api`.`{table}` {{to}}" for table in TABLES}


def reading() -> Context[Any]:
    return wanted(readableTables=sorted(TABLES))


def test_an_account_reads_the_tables_it_is_given_and_does_nothing_else(server: MariaDB) -> None:
    server.tables["nova_api"] = {*TABLES, "services"}
    assert DATABASE.ensure(reading()) == ["schema nova_api created", "account nova_api created"]
    assert account(server)["grants"] == READS
    assert DATABASE.ensure(reading()) == []


def test_an_account_waits_for_its_tables(server: MariaDB) -> None:
    server.tables["nova_api"] = {"instances"}
    with pytest.raises(Transient, match="schema nova_api has no table console_auth_tokens yet"):
        DATABASE.ensure(reading())
    assert account(server)["grants"] == set()
    server.tables["nova_api"] |= TABLES
    assert DATABASE.ensure(reading()) == ["account nova_api repaired: privileges"]
    assert account(server)["grants"] == READS


@pytest.mark.parametrize(
    "more",
    [
        "GRANT SELECT ON `nova_api`.`services` {to}",
        "GRANT ALL PRIVILEGES ON `nova\\_api`.* {to}",
        "GRANT SELECT, INSERT ON `nova_api`.`instances` {to}",
        "GRANT SELECT ON `nova_api`.`instances` {to} WITH GRANT OPTION",
        "GRANT FILE ON *.* {to}",
    ],
)
def test_extra_privileges_of_a_reading_account_are_revoked(server: MariaDB, more: str) -> None:
    server.tables["nova_api"] = TABLES
    DATABASE.ensure(reading())
    account(server)["grants"].add(more)
    assert DATABASE.ensure(reading()) == ["account nova_api repaired: privileges"]
    assert account(server)["grants"] == READS


def test_an_account_that_did_everything_reads_from_now_on_and_back(server: MariaDB) -> None:
    server.tables["nova_api"] = TABLES
    DATABASE.ensure(wanted())
    DATABASE.ensure(reading())
    assert account(server)["grants"] == READS
    DATABASE.ensure(wanted())
    assert healthy(server)


def test_a_new_password_in_the_secret_reaches_the_server(server: MariaDB) -> None:
    DATABASE.ensure(wanted())
    ctx = wanted()
    rotated = replace(ctx, secrets={**ctx.secrets, "p": {"k": "new"}})
    assert DATABASE.ensure(rotated) == ["account nova_api repaired: password"]
    assert account(server)["hash"] == hashed("new")


def test_another_schema_that_differs_only_in_case_is_not_taken_for_ours(server: MariaDB) -> None:
    server.schemas["NOVA_API"] = ("latin1", "latin1_swedish_ci")
    DATABASE.ensure(wanted())
    assert server.schemas["NOVA_API"] == ("latin1", "latin1_swedish_ci")
    assert healthy(server)


def test_character_set_and_collation_follow_the_spec(server: MariaDB) -> None:
    DATABASE.ensure(wanted())
    ctx = wanted(characterSet="utf8mb4", collation="utf8mb4_bin")
    assert DATABASE.ensure(ctx) == ["schema nova_api repaired: character set, collation"]
    assert server.schemas["nova_api"] == ("utf8mb4", "utf8mb4_bin")
    assert DATABASE.ensure(ctx) == []


def test_removal_keeps_the_schema_unless_told_otherwise(server: MariaDB) -> None:
    DATABASE.ensure(wanted())
    DATABASE.remove(wanted())
    assert "nova_api" not in server.accounts
    assert "nova_api" in server.schemas
    DATABASE.ensure(wanted())
    DATABASE.remove(wanted(deletionPolicy="Delete"))
    DATABASE.remove(wanted(deletionPolicy="Delete"))
    assert set(server.schemas) == {"mysql"}
    assert server.accounts == {}


def test_removal_keeps_database_and_user_of_another_resource(server: MariaDB) -> None:
    DATABASE.ensure(wanted())
    going = wanted(deletionPolicy="Delete")
    DATABASE.remove(replace(going, conflicting_fields=frozenset({"spec.database", "spec.user"})))
    assert healthy(server)
    DATABASE.remove(replace(going, conflicting_fields=frozenset({"spec.database"})))
    assert ("nova_api" in server.schemas, server.accounts) == (True, {})


@pytest.mark.parametrize(("admin", "user"), [("root", "Root"), ("rdsadmin", "rdsadmin"), ("rdsadmin", "RDSAdmin")])
def test_the_administrator_is_nobodys_account(server: MariaDB, admin: str, user: str) -> None:
    server.accounts[user] = {"plugin": "ed25519", "hash": "x", "locked": "0", "grants": {"GRANT SUPER ON *.* {to}"}}
    before = dict(server.accounts)
    ctx = wanted(user=user)
    ctx = replace(ctx, secrets={**ctx.secrets, "a": {"user": admin, "root": "rootpw"}})
    with pytest.raises(SpecError, match=r"spec\.user: .* administers the server"):
        DATABASE.ensure(ctx)
    DATABASE.remove(ctx)
    assert server.accounts == before


def test_no_statement_holds_the_password(server: MariaDB) -> None:
    DATABASE.ensure(wanted())
    assert not any(PASSWORD in text or escape_string(PASSWORD) in text for text in server.statements)


EVIL = [
    "x`; DROP DATABASE mysql; -- %s",
    "y'@'%'; DROP DATABASE mysql; -- ",
    "back\\slash' or 1=1",
    "per%cent%s_",
    "a``b",
]


@pytest.mark.parametrize("name", EVIL)
def test_names_that_try_to_be_statements_stay_names(server: MariaDB, name: str) -> None:
    ctx = wanted()
    evil = replace(ctx, spec=ctx.spec.model_copy(update={"database": name, "user": name, "deletion_policy": "Delete"}))
    DATABASE.ensure(evil)
    assert set(server.schemas) == {"mysql", name}
    assert set(server.accounts) == {name}
    assert DATABASE.ensure(evil) == []
    DATABASE.remove(evil)
    assert set(server.schemas) == {"mysql"}
    assert server.accounts == {}


@given(st.text())
def test_an_identifier_is_one_token(name: str) -> None:
    assert parsed(quoted(name) % ()) == ("?", [name])


def test_wildcards_of_grant_are_taken_literally() -> None:
    assert literal("nova_api") == r"nova\_api"
    assert literal("a%b\\c") == r"a\%b\\c"


def test_hashes_as_the_server_makes_them() -> None:
    # SELECT PASSWORD('mypass') in the server's manual.
    assert hashed("mypass") == "*6C8989366EAF75BB670AD8EA7A7FC1176A95CEF4"


@pytest.mark.parametrize(
    "fault",
    [
        pymysql.OperationalError(2013, "Lost connection to MySQL server during query"),
        pymysql.OperationalError(1047, "WSREP has not yet prepared node for application use"),
        pymysql.OperationalError(1290, "The server is running with the --read-only option"),
        pymysql.InterfaceError(0, ""),
        pymysql.ProgrammingError(1007, "Can't create database 'nova_api'; database exists"),
    ],
)
def test_trouble_of_the_server_is_transient(server: MariaDB, fault: pymysql.MySQLError) -> None:
    server.fault = fault
    with pytest.raises(Transient, match=f"error {fault.args[0]}"):
        DATABASE.ensure(wanted())


def test_a_refusal_by_mariadb_names_the_field_and_hides_the_hash(server: MariaDB) -> None:
    server.fault = pymysql.OperationalError(1273, "Unknown collation: 'utf8mb3_nope'")
    with pytest.raises(SpecError, match=r"spec\.database: MariaDB: error 1273: the server lacks this collation"):
        DATABASE.ensure(wanted(collation="utf8mb3_nope"))
    server.schemas["nova_api"] = ("utf8mb3", "utf8mb3_general_ci")
    server.fault = pymysql.ProgrammingError(1064, f"error near '{hashed(PASSWORD)}'")
    with pytest.raises(SpecError, match=r"spec\.user: MariaDB: error 1064") as caught:
        DATABASE.ensure(wanted())
    assert hashed(PASSWORD) not in str(caught.value)


def test_a_server_that_does_not_let_us_in_yet_is_tried_again(server: MariaDB) -> None:
    server.root = "other"
    with pytest.raises(Transient, match="error 1045: it does not accept the administrator's login") as caught:
        DATABASE.ensure(wanted())
    assert "rootpw" not in str(caught.value)
    with pytest.raises(Transient, match="no key 'root'"):
        DATABASE.ensure(replace(wanted(), secrets={"p": {"k": PASSWORD}}))


def test_a_server_nobody_listens_for_is_transient() -> None:
    ctx = wanted()
    nowhere = ResolvedRef({"host": "127.0.0.1", "port": "1", "adminSecret": "a"})
    with pytest.raises(Transient, match=r"MariaDB: cannot connect .*refused"):
        DATABASE.ensure(replace(ctx, refs=dict.fromkeys(ctx.refs, nowhere)))
