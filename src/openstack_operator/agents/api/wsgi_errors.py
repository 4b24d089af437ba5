"""An answer to each request whose WSGI application raises an exception.

uWSGI ends the connection of such a request without an answer. A client then sees the 502 of a proxy, or no answer, and
no id to look for in the log. Keystone, for one, answers only the exceptions that it knows: it sets PROPAGATE_EXCEPTIONS
of Flask (keystone.server.flask.application).

As a module of uWSGI, this serves the application that the variable WSGI_APPLICATION names, as module:name or as a file.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import Any

__all__ = ["answer_errors", "load"]

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
LOG = logging.getLogger("wsgi_errors")
# Of MariaDB: truncated, out of range, wrong value, invalid characters, too long. oslo.db knows some of them only.
_REFUSED_VALUES = frozenset({1264, 1265, 1292, 1300, 1366, 1406})
_REFUSED = frozenset({"DBDataError", "DBInvalidUnicodeParameter"})
_STATUS = {400: "Bad Request", 500: "Internal Server Error"}
_MESSAGES = {
    400: "A value in the request is too long, out of range, or has characters that the "
    "database cannot store, such as emoji.",
    500: "The service failed unexpectedly. Its log has the error under the request ID.",
}


def answer_errors(application: Application) -> Application:
    """Return the application, with an answer in JSON to each request for which it raises an exception: 400 if the
    database refuses a value of the request, else 500.
    """

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # uWSGI needs the very object that its wrapper of files returned, and that could not be looked into.
        environ.pop("wsgi.file_wrapper", None)
        answer = _Answer(start_response)
        try:
            body = application(environ, answer.start)
            return _Body(body, answer)
        except Exception as error:
            if answer.sent:
                raise
            return _error(environ, start_response, error)

    return serve


class _Answer:
    """The beginning of an answer, which is sent with the first part of its body: until then, it may become an error."""

    def __init__(self, start_response: Callable[..., Any]) -> None:
        self._start_response = start_response
        self._arguments: tuple[Any, ...] = ()
        self._write: Callable[[bytes], Any] | None = None
        self.sent = False

    def start(self, *arguments: Any) -> Callable[[bytes], Any]:
        if self.sent and len(arguments) > 2 and arguments[2]:
            raise arguments[2][1]
        # To uWSGI, the error of an answer that was begun again would be one of this answer.
        self._arguments = arguments[:2]
        return self._write_part

    def _write_part(self, data: bytes) -> None:
        self.send()
        if self._write is not None:
            self._write(data)

    def send(self) -> None:
        if not self.sent:
            self._write = self._start_response(*self._arguments)
            self.sent = True


class _Body(Iterator[bytes]):
    """The body of an answer, whose first part exists."""

    def __init__(self, body: Iterable[bytes], answer: _Answer) -> None:
        self._body, self._parts = body, iter(body)
        try:
            self._first: bytes | None = next(self._parts, b"")
        except BaseException:
            self.close()
            raise
        answer.send()

    def __next__(self) -> bytes:
        if self._first is not None:
            part, self._first = self._first, None
            return part
        return next(self._parts)

    def close(self) -> None:
        close = getattr(self._body, "close", None)
        if close is not None:
            close()


def _error(environ: dict[str, Any], start_response: Callable[..., Any], error: Exception) -> list[bytes]:
    """Log an exception, and answer its request."""
    # The middleware of oslo.middleware has made the one by which the log names the request.
    request_id = str(environ.get("openstack.request_id") or f"req-{uuid.uuid4()}")
    request = f"{request_id}: {environ.get('REQUEST_METHOD')} {environ.get('PATH_INFO')!r}"
    reason = _refused_value(error)
    if reason:
        LOG.warning("%s has a value that cannot be stored: %s", request, reason)
    else:
        LOG.error("%s ended with an unexpected error", request, exc_info=error)
    code = 400 if reason else 500
    fault = {"code": code, "title": _STATUS[code], "message": f"{_MESSAGES[code]} ({request_id})"}
    body = json.dumps({"error": fault}).encode()
    headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        ("x-openstack-request-id", request_id),
    ]
    start_response(f"{code} {_STATUS[code]}", headers)
    return [] if environ.get("REQUEST_METHOD") == "HEAD" else [body]


def _refused_value(error: BaseException) -> str:
    """Return the reason if a value of the request was refused as such; never the statement, which has other values."""
    for cause in _causes(error):
        arguments = cause.args
        if len(arguments) > 1 and arguments[0] in _REFUSED_VALUES:
            return f"{arguments[0]} {arguments[1]}"
        # Such as half of a surrogate pair in JSON, or a path that is not UTF-8.
        if isinstance(cause, UnicodeError) or type(cause).__name__ in _REFUSED:
            return type(cause).__name__
    return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that it was raised for, those that a library wrapped included."""
    waiting: list[object] = [error]
    identities: set[int] = set()
    while waiting:
        cause = waiting.pop()
        if isinstance(cause, BaseException) and id(cause) not in identities:
            identities.add(id(cause))
            yield cause
            # Of oslo.db and of SQLAlchemy.
            waiting += [cause.__cause__, *(getattr(cause, name, None) for name in ("inner_exception", "orig"))]


def load(name: str) -> Application:
    """Return the application module:name, or `application` of a file."""
    if name.startswith("/"):
        loader = SourceFileLoader("wsgi_application", name)
        module = module_from_spec(spec_from_loader(loader.name, loader))  # type: ignore[arg-type]
        loader.exec_module(module)
        return module.application
    path, _, attribute = name.partition(":")
    return getattr(import_module(path), attribute)


if "WSGI_APPLICATION" in os.environ:
    application = answer_errors(load(os.environ["WSGI_APPLICATION"]))
