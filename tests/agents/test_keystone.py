"""The program that serves Keystone, with the files of the plan, a small Keystone, and a database of SQLite."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Release, key
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.keystone.service import plan
from openstack_operator.testing import context

CONTRACTS = {
    "MariaDB": {"host": "mariadb.openstack", "port": "3306"},
    "Memcached": {"servers": "memcached-0:11211"},
}
MODULES = ("identity_application", "identity_generation", "wsgi_errors")


class DBError(Exception):
    """oslo.db's error."""


class DBNonExistentTable(DBError):
    """Error of a table that does not exist."""


class NotFound(Exception):
    """Keystone's 404."""


class InvalidToken(Exception):
    """keystonemiddleware's 401."""


class Engine:
    """SQLAlchemy's engine on a file, as far as the program uses it."""

    listeners: dict[str, Callable[..., None]] = {}

    def __init__(self, path: Path) -> None:
        self._path = path
        self.is_broken = False
        self.connections = 0

    @contextmanager
    def connect(self) -> Generator[Connection]:
        self.connections += 1
        if self.is_broken:
            raise DBError("the server has gone away")
        with closing(sqlite3.connect(self._path)) as database, database:
            yield Connection(database)

    @contextmanager
    def begin(self) -> Generator[Connection]:
        with self.connect() as connection:
            try:
                yield connection
            except BaseException:
                self.listeners["rollback"](connection)
                connection.database.rollback()
                raise
            self.listeners["commit"](connection)


class Connection:
    """SQLAlchemy's connection."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database
        self.info: dict[str, Any] = {}

    def execute(self, statement: str, parameters: dict[str, str] | None = None) -> Any:
        Engine.listeners["before_cursor_execute"](self, None, statement, parameters, None, False)
        try:
            rows = self.database.execute(statement, parameters or {}).fetchall()
        except sqlite3.OperationalError as error:
            raise DBNonExistentTable(str(error)) from None
        return SimpleNamespace(scalar_one=lambda: rows[0][0])


class CacheRegion:
    """dogpile's region."""

    def set(self, key: Any, value: Any) -> None:
        raise AssertionError(f"{key} is stored by a request that wrote it")


class RegionInvalidationManager:
    """Keystone's manager of a region of its cache."""

    region_id = "region"

    def invalidate_region(self) -> None:
        raise AssertionError("a region is emptied through Memcached")


class RBACEnforcer:
    """Keystone's enforcer of policy."""

    loads = 0
    suppress_deprecation_warnings = False

    @property
    def _enforcer(self) -> Any:
        return SimpleNamespace(load_rules=self._load)

    def _load(self) -> None:
        assert self.suppress_deprecation_warnings
        RBACEnforcer.loads += 1


def fetch_token(middleware: Any, token: str, **options: Any) -> dict[str, Any]:
    """Return what Keystone knows of a token."""
    if token == "foreign":
        raise NotFound("no such user")
    return {"token": token, **options}


class Keystone:
    """A process of Keystone."""

    def __init__(self, application: Any, engine: Engine, middleware: Any) -> None:
        self.application, self.engine, self.middleware = application, engine, middleware
        self.manager = RegionInvalidationManager()
        self.requests: list[str] = []

    def request(self, path: str = "/v3/users") -> str:
        """Answer a request, and return the region of its keys in the cache."""
        assert self.answer(path) == ("200 OK", b"answer")
        return self.requests[-1]

    def answer(self, path: str) -> tuple[str, bytes]:
        """Return the status and the body of an answer."""
        statuses: list[str] = []

        def start_response(status: str, _: object) -> None:
            statuses.append(status)

        body = self.application({"PATH_INFO": path, "REQUEST_METHOD": "POST"}, start_response)
        return statuses[-1], b"".join(body)

    @property
    def mark(self) -> str:
        """Mark in the database."""
        with self.engine.connect() as connection:
            return connection.execute("SELECT mark FROM operator_generation").scalar_one()


@pytest.fixture
def keystone(release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keystone]:
    """A process that has served nothing yet."""
    objects = {key(obj): obj for obj in plan(context(KEYSTONE, release=release, published=CONTRACTS)).objects}
    files = kube.secret_data(objects["Secret", "keystone-config"])
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(files[f"{name}.py"], encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    [container, *_] = objects["Deployment", "keystone-api"]["spec"]["template"]["spec"]["containers"]
    words = container["command"]
    module, _, function = words[words.index("--module") + 1].partition(":")
    engine = Engine(tmp_path / "database")
    with engine.connect() as connection:
        connection.database.execute("CREATE TABLE project (id INTEGER)")
    middleware = type("AuthContextMiddleware", (), {"fetch_token": fetch_token})
    process = Keystone(None, engine, middleware)

    def answer(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        process.requests.append(process.manager.region_id)
        if error := _UNEXPECTED.get(environ["PATH_INFO"]):
            raise error
        start_response("200 OK", [])
        return [b"answer"]

    _install(monkeypatch, engine, middleware, answer)
    monkeypatch.syspath_prepend(tmp_path)
    process.application = getattr(import_module(module), function)
    yield process
    for name in MODULES:
        sys.modules.pop(name, None)


def _install(monkeypatch: pytest.MonkeyPatch, engine: Engine, middleware: Any, answer: Any) -> None:
    """Install the modules that Keystone's image has."""
    monkeypatch.setattr(Engine, "listeners", {})
    monkeypatch.setattr(RBACEnforcer, "loads", 0)
    monkeypatch.setattr(RBACEnforcer, "suppress_deprecation_warnings", False)
    for owner, attribute in ((CacheRegion, "set"), (RegionInvalidationManager, "invalidate_region")):
        monkeypatch.setattr(owner, attribute, getattr(owner, attribute))
    monkeypatch.setattr(RegionInvalidationManager, "region_id", "region")
    side = SimpleNamespace(get_engine=lambda: engine)
    transactions = SimpleNamespace(reader=side, writer=side)
    auth_context = SimpleNamespace(AuthContextMiddleware=middleware)
    contents: dict[str, dict[str, Any]] = {
        "dogpile.cache.region": {"CacheRegion": CacheRegion},
        "keystone": {"exception": SimpleNamespace(NotFound=NotFound)},
        "keystone.common.cache": {"core": SimpleNamespace(RegionInvalidationManager=RegionInvalidationManager)},
        "keystone.common.rbac_enforcer.enforcer": {"RBACEnforcer": RBACEnforcer},
        "keystone.common.sql": {"core": SimpleNamespace(_get_main_context_manager=lambda: transactions)},
        "keystone.server.flask.request_processing.middleware": {"auth_context": auth_context},
        "keystone.wsgi.api": {"application": answer},
        "keystonemiddleware": {"auth_token": SimpleNamespace(InvalidToken=InvalidToken)},
        "oslo_db.exception": {
            "DBError": DBError,
            "DBDuplicateEntry": type("DBDuplicateEntry", (DBError,), {}),
            "DBNonExistentTable": DBNonExistentTable,
        },
        "sqlalchemy": {"event": SimpleNamespace(listen=_listen), "text": str},
        "sqlalchemy.engine": {"Engine": Engine},
        "sqlalchemy.exc": {name: type(name, (Exception,), {}) for name in _SQLALCHEMY_ERRORS},
    }
    for name, content in contents.items():
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            parent = ".".join(parts[:length])
            if parent not in sys.modules or length == len(parts):
                monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
        vars(sys.modules[name]).update(content)


def _listen(target: type[Engine], name: str, listener: Callable[..., None]) -> None:
    target.listeners[name] = listener


_UNEXPECTED = {
    # int() of a query, as of ?limit=x.
    "/number": ValueError("invalid literal for int()"),
    "/emoji": DBError(1366, "Incorrect string value"),
}
_SQLALCHEMY_ERRORS = ("NoResultFound", "ProgrammingError", "SQLAlchemyError")


def test_the_first_request_makes_the_mark_and_the_next_ones_use_it(keystone: Keystone) -> None:
    first = keystone.request()
    assert first == keystone.mark
    assert keystone.request() == first


def test_a_change_replaces_the_mark_in_its_own_transaction(keystone: Keystone) -> None:
    first = keystone.request()
    with keystone.engine.begin() as connection:
        connection.execute("INSERT INTO project (id) VALUES (1)")
        regions = {keystone.manager.region_id, keystone.manager.region_id, first}
        assert len(regions) == 3, "nothing of an open transaction is shared"
    assert keystone.mark != first
    assert keystone.manager.region_id == keystone.mark
    assert keystone.request() == keystone.mark


def test_a_change_that_is_undone_keeps_the_mark(keystone: Keystone) -> None:
    first = keystone.request()
    with pytest.raises(ValueError, match="undone"), keystone.engine.begin() as connection:
        connection.execute("INSERT INTO project (id) VALUES (1)")
        raise ValueError("undone")
    assert keystone.manager.region_id == first == keystone.mark


def test_a_transaction_that_only_reads_keeps_the_mark(keystone: Keystone) -> None:
    first = keystone.request()
    with keystone.engine.begin() as connection:
        connection.execute("SELECT id FROM project")
        assert keystone.manager.region_id == first
    assert keystone.mark == first


def test_a_request_sees_the_mark_of_another_process(keystone: Keystone) -> None:
    keystone.request()
    with keystone.engine.connect() as connection:
        connection.database.execute("UPDATE operator_generation SET mark = 'another'")
    assert keystone.request() == "another"


def test_a_request_shares_nothing_while_the_database_does_not_answer(keystone: Keystone) -> None:
    first = keystone.request()
    keystone.engine.is_broken = True
    assert len({keystone.request(), keystone.request(), first}) == 3


def test_a_health_check_reads_no_mark(keystone: Keystone) -> None:
    before = keystone.engine.connections
    keystone.request("/healthcheck")
    assert keystone.engine.connections == before


def test_keystone_neither_stores_what_it_wrote_nor_empties_a_region(keystone: Keystone) -> None:
    keystone.request()
    CacheRegion().set("key", "value")
    keystone.manager.invalidate_region()


def test_a_token_of_a_deleted_user_is_invalid(keystone: Keystone) -> None:
    middleware = keystone.middleware()
    assert middleware.fetch_token("mine", allow_expired=True) == {"token": "mine", "allow_expired": True}
    with pytest.raises(InvalidToken, match="no such user"):
        middleware.fetch_token("foreign")


def test_policy_is_loaded_before_the_first_request(keystone: Keystone) -> None:
    assert (RBACEnforcer.loads, keystone.requests) == (1, [])


@pytest.mark.parametrize(
    ("path", "status", "title"), [("/number", 500, "Internal Server Error"), ("/emoji", 400, "Bad Request")]
)
def test_an_error_that_keystone_does_not_answer_is_answered(
    keystone: Keystone, path: str, status: int, title: str
) -> None:
    line, body = keystone.answer(path)
    assert line == f"{status} {title}"
    assert json.loads(body)["error"].items() >= {"code": status, "title": title}.items()
