"""Errors of applications under uWSGI, with the module that serves each API in its pods."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from openstack_operator import agents
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.services.placement.model import PlacementSpec
from tests.unit.polling import TIMEOUT
from tools.localcluster.ports import free_port

APPLICATION = '''
import logging, sys

logging.basicConfig(stream=sys.stderr)


class Wrapped(Exception):
    """As oslo.db and SQLAlchemy wrap the errors of a driver."""

    def __init__(self, **causes):
        super().__init__("wrapped")
        vars(self).update(causes)


class DBDataError(Exception):
    pass


def parts(start_response, *rest):
    start_response("200 OK", [("Content-Type", "text/plain")])
    yield from rest
    raise RuntimeError("in the middle")


class Body:
    def __init__(self, environ):
        self.environ = environ

    def __iter__(self):
        yield b"as "
        yield b"usual"

    def close(self):
        print("closed", file=sys.stderr, flush=True)


def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/named":
        environ["openstack.request_id"] = "req-of-the-middleware"
    if path == "/started":
        start_response("200 OK", [("Content-Type", "text/plain"), ("X-Lost", "yes")])
    if path == "/first":
        return parts(start_response)
    if path == "/later":
        return parts(start_response, b"a beginning")
    if path == "/emoji":
        raise Wrapped(inner_exception=Wrapped(orig=Exception(1366, "Incorrect string value for column `name`")))
    if path == "/long":
        raise DBDataError("INSERT INTO users VALUES ('secret')")
    if path == "/surrogate":
        "\\ud800".encode()
    if path == "/ok":
        start_response("201 Created", [("Content-Type", "text/plain"), ("X-Own", "yes")])
        return Body(environ)
    if path == "/empty":
        start_response("204 No Content", [])
        return []
    if path == "/write":
        start_response("200 OK", [])(b"written")
        return [b" and returned"]
    if path == "/starts-again":
        start_response("200 OK", [])
        try:
            raise ValueError("late")
        except ValueError:
            start_response("503 Service Unavailable", [], sys.exc_info())
        return [b"sorry"]
    raise RuntimeError("secret text of an exception")
'''
MODULE = "wsgi_errors:application"
SERVICES = (
    "placement-api",
    "barbican-api",
    "heat-api",
    "heat-api-cfn",
    "horizon-api",
    "designate-api",
    "octavia-api",
    "neutron-api",
    "nova-api",
    "nova-metadata",
    "cinder-api",
)


class Answer(NamedTuple):
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        """The error in the body."""
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)["error"]


class Server:
    """A uWSGI."""

    def __init__(self, port: int, log: Path) -> None:
        self._port, self._log = port, log

    def ask(self, path: str, method: str = "GET") -> Answer:
        """Return the answer. Raises BadStatusLine or IncompleteRead if the connection ends before it."""
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT)) as connection:
            connection.request(method, path, headers={"Connection": "close"})
            with connection.getresponse() as answer:
                headers = {name.lower(): text for name, text in answer.getheaders()}
                return Answer(answer.status, headers, answer.read())

    @property
    def log(self) -> str:
        """All that it logged."""
        return self._log.read_text(encoding="utf-8")


def start(application: str, module: str, folder: Path, stack: ExitStack) -> Server:
    """Start uWSGI with the module that the image has, until it listens."""
    (folder / "wsgi_errors.py").write_text(agents.text("api/wsgi_errors.py"), encoding="utf-8")
    port, log = free_port(), folder / "log"
    words = [str(Path(sys.executable).parent / "uwsgi"), "--need-app", "--lazy-apps", "--master", "--die-on-term"]
    words += ["--http-socket", f"127.0.0.1:{port}", "--pythonpath", str(folder), "--module", module]
    errors = stack.enter_context(log.open("w", encoding="utf-8"))
    # This uWSGI is a module of a Python that has read its environment before --env is.
    env = {**os.environ, "WSGI_APPLICATION": application}
    process = stack.enter_context(subprocess.Popen(words, env=env, stderr=errors, stdin=subprocess.DEVNULL))
    stack.callback(process.terminate)
    while True:
        assert process.poll() is None, log.read_text(encoding="utf-8")
        try:
            # Until its worker has loaded the application, connections wait.
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            continue
        return Server(port, log)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("wsgi")
    (folder / "service.py").write_text(APPLICATION, encoding="utf-8")
    with ExitStack() as stack:
        yield start("service:application", MODULE, folder, stack)


def test_uwsgi_alone_ends_the_connection_without_an_answer(tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(APPLICATION, encoding="utf-8")
    with ExitStack() as stack:
        plain = start("", "service:application", tmp_path, stack)
        assert plain.ask("/ok").status == 201
        with pytest.raises(http.client.BadStatusLine):
            plain.ask("/any")


@pytest.mark.parametrize("path", ["/any", "/started", "/first", "/%ff", "/named"])
def test_an_unexpected_error_is_json_with_the_request_id_of_the_log(server: Server, path: str) -> None:
    answer = server.ask(path)
    assert answer.status == 500
    assert "x-lost" not in answer.headers
    request = answer.headers["x-openstack-request-id"]
    assert re.fullmatch("req-of-the-middleware" if path == "/named" else "req-[0-9a-f-]{36}", request)
    assert (answer.error["code"], answer.error["title"]) == (500, "Internal Server Error")
    assert request in answer.error["message"]
    assert "secret" not in answer.body.decode()
    assert re.search(rf"ERROR:wsgi_errors:{request}: GET .* ended with an unexpected error\nTraceback", server.log)


@pytest.mark.parametrize("path", ["/emoji", "/long", "/surrogate"])
def test_a_value_that_the_database_refuses_is_a_400(server: Server, path: str) -> None:
    answer = server.ask(path, "POST")
    assert (answer.status, answer.error["code"], answer.error["title"]) == (400, 400, "Bad Request")
    assert "emoji" in answer.error["message"]
    [line] = [line for line in server.log.splitlines() if answer.headers["x-openstack-request-id"] in line]
    assert line.startswith("WARNING:wsgi_errors:")
    assert "INSERT" not in line


def test_a_head_request_gets_no_body(server: Server) -> None:
    answer = server.ask("/any", "HEAD")
    assert (answer.status, answer.body) == (500, b"")


def test_other_answers_are_those_of_the_application(server: Server) -> None:
    answer = server.ask("/ok")
    assert (answer.status, answer.body, answer.headers["x-own"]) == (201, b"as usual", "yes")
    assert "closed" in server.log
    assert server.ask("/empty").status == 204
    assert server.ask("/write").body == b"written and returned"
    assert (server.ask("/starts-again").status, server.ask("/starts-again").body) == (503, b"sorry")


def test_an_answer_that_has_begun_ends_with_its_connection(server: Server) -> None:
    assert server.ask("/later").body == b"a beginning", "no error is written into it"
    assert "in the middle" in server.log


@pytest.mark.parametrize("version", ["2025.1", "2025.2", "2026.1"])
@pytest.mark.parametrize("component", SERVICES)
def test_each_service_is_served_with_answers_to_errors(component: str, version: str) -> None:
    command = list(ReleaseFiles()(PlacementSpec.model_validate({"release": version}))[component].command)
    assert command[-2:] == ["--module", MODULE]
    assert any(word.startswith("WSGI_APPLICATION=") for word in command)


def test_a_service_may_be_a_file(tmp_path: Path) -> None:
    script = tmp_path / "octavia-wsgi"
    script.write_text(APPLICATION, encoding="utf-8")
    with ExitStack() as stack:
        server = start(str(script), MODULE, tmp_path, stack)
        assert (server.ask("/ok").status, server.ask("/any").status) == (201, 500)
