"""keystone.wsgi.api with caches that never return an old value, and with its policy loaded before the first request.

Keystone's processes learn of a change by Memcached. They do not while it is slow, frozen, gone or full; and a value
that a process reads during a change is stored after the cache was emptied for the change. Here each key carries the
mark of the database it was read from (identity_generation), which a change replaces in its own transaction.

A service whose user was deleted and made again sends a token of the former user. Keystone answers 404, as to a request
about a token that does not exist: the service then refuses its clients, and keeps its own token. After 401 it logs in
again (keystone.server.flask.request_processing.middleware.auth_context, AuthContextMiddleware.fetch_token).

Keystone loads its policy during the first request, and other requests use it before it is complete: of several first
requests, all but one could be answered with 403 (keystone.common.rbac_enforcer.enforcer, RBACEnforcer._enforcer).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dogpile.cache.region import CacheRegion  # pyright: ignore[reportMissingImports]
from keystone import exception  # pyright: ignore[reportMissingImports]
from keystone.common.cache import core as cache  # pyright: ignore[reportMissingImports]
from keystone.common.rbac_enforcer.enforcer import RBACEnforcer  # pyright: ignore[reportMissingImports]
from keystone.common.sql import core as sql  # pyright: ignore[reportMissingImports]
from keystone.server.flask.request_processing.middleware import auth_context  # pyright: ignore[reportMissingImports]
from keystone.wsgi.api import application as keystone  # pyright: ignore[reportMissingImports]
from keystonemiddleware import auth_token  # pyright: ignore[reportMissingImports]
from oslo_db.exception import DBDuplicateEntry, DBError, DBNonExistentTable  # pyright: ignore[reportMissingImports]
from sqlalchemy import event, text  # pyright: ignore[reportMissingImports]
from sqlalchemy.engine import Engine  # pyright: ignore[reportMissingImports]
from sqlalchemy.exc import NoResultFound, ProgrammingError, SQLAlchemyError  # pyright: ignore[reportMissingImports]

if TYPE_CHECKING:
    from ..api.wsgi_errors import answer_errors
    from .identity_generation import Generation, new_mark
else:
    # All files are in one folder, which is no package.
    from identity_generation import Generation, new_mark
    from wsgi_errors import answer_errors

__all__ = ["application"]

LOG = logging.getLogger(__name__)
TABLE = "operator_generation"
HEALTH = "/healthcheck"
_CHANGED = "operator_changed"
generation = Generation()


def _read() -> str:
    # From the server of reads: what the request reads there later is no older than its mark.
    engine = sql._get_main_context_manager().reader.get_engine()
    with engine.connect() as connection:
        return str(connection.execute(text(f"SELECT mark FROM {TABLE} WHERE id = 1")).scalar_one())  # noqa: S608


def _make_table() -> None:
    engine = sql._get_main_context_manager().writer.get_engine()
    columns = "id INTEGER NOT NULL PRIMARY KEY, mark VARCHAR(32) NOT NULL"
    with suppress(DBDuplicateEntry), engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE IF NOT EXISTS {TABLE} ({columns})"))
        connection.execute(text(f"INSERT INTO {TABLE} (id, mark) VALUES (1, :mark)"), {"mark": new_mark()})  # noqa: S608


def _write(connection: Any, mark: str) -> None:
    connection.execute(text(f"UPDATE {TABLE} SET mark = :mark WHERE id = 1"), {"mark": mark})  # noqa: S608


def _note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
    if generation.note(statement):
        connection.info[_CHANGED] = True


def _commit(connection: Any) -> None:
    if connection.info.get(_CHANGED):
        generation.commit(lambda mark: _write(connection, mark))
        del connection.info[_CHANGED]


def _roll_back(connection: Any) -> None:
    if connection.info.pop(_CHANGED, False):
        generation.roll_back()


def _region_id(_manager: Any) -> str:
    return generation.mark


def _store_nothing(_region: CacheRegion, _key: Any, _value: Any) -> None:
    pass


def _mark_caches() -> None:
    for name, listener in (("before_cursor_execute", _note), ("commit", _commit), ("rollback", _roll_back)):
        event.listen(Engine, name, listener)
    regions: Any = cache.RegionInvalidationManager
    regions.region_id = property(_region_id)
    # Keystone empties a region of the cache for a change of the database, and that changes the mark.
    regions.invalidate_region = _region_id
    # A request reads again what it has just written: another may have changed it since, and have made this mark.
    setattr(CacheRegion, "set", _store_nothing)  # noqa: B010


def _identity(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a request as Keystone does, with the mark of the database as it is now."""
    if environ.get("PATH_INFO") != HEALTH:
        _begin()
    return keystone(environ, start_response)


def _begin() -> None:
    try:
        generation.begin(_read)
    except (DBNonExistentTable, ProgrammingError, NoResultFound):
        _make_table()
        generation.begin(_read)
    except (DBError, SQLAlchemyError) as error:
        # The request itself reports this error better.
        LOG.debug("nothing is cached for this request: %s", error)


_fetch_token = auth_context.AuthContextMiddleware.fetch_token


def _fetch_token_of_caller(middleware: Any, token: str, **options: Any) -> Any:
    try:
        return _fetch_token(middleware, token, **options)
    except exception.NotFound as error:
        raise auth_token.InvalidToken(str(error)) from error


# As Keystone does within a request: otherwise it warns of each deprecated rule.
RBACEnforcer.suppress_deprecation_warnings = True
RBACEnforcer()._enforcer.load_rules()
_mark_caches()
auth_context.AuthContextMiddleware.fetch_token = _fetch_token_of_caller
application = answer_errors(_identity)
