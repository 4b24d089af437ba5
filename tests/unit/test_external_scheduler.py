"""What asks an external scheduler, against real servers; the build of Nova's image runs it inside Nova's scheduler."""

from __future__ import annotations

import importlib.util
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import urllib3

from openstack_operator import pki
from tools.localcluster.kubernetes import ROOT

SOURCE = ROOT / "images" / "nova" / "external_scheduler" / "client.py"


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("external_scheduler_client", SOURCE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


client: Any = loaded()


class Scheduler(ThreadingHTTPServer):
    """Answers as a test says."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.status, self.body, self.pause, self.headers = 200, b'{"hosts": []}', 0.0, dict[str, str]()
        self.asked: list[bytes] = []
        self.written = 0
        """Bytes of answers that were sent."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asks may be gone."""

    @property
    def url(self) -> str:
        return f"http://localhost:{self.server_address[1]}/scheduler/nova/external"


class Answering(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Scheduler)
        server.asked.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(server.status)
        for name, value in {"Content-Length": str(len(server.body)), **server.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        for byte in server.body:
            self.wfile.write(bytes([byte]))
            server.written += 1
            time.sleep(server.pause)

    def do_GET(self) -> None:
        raise AssertionError("it asks by POST")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    server = Scheduler()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def asked(server: Scheduler, timeout: float = 60, **more: Any) -> list[str]:
    return client.ask(server.url, b'{"spec": {}}', timeout=timeout, **more)


def test_the_answer_is_names_in_their_order(scheduler: Scheduler) -> None:
    scheduler.body = json.dumps({"hosts": ["node2", "node1"]}).encode()
    assert asked(scheduler) == ["node2", "node1"]
    assert scheduler.asked == [b'{"spec": {}}']


def test_an_empty_answer_is_one(scheduler: Scheduler) -> None:
    assert asked(scheduler) == []


@pytest.mark.parametrize("body", [b"", b"no JSON", b"[]", b"{}", b'{"hosts": "node1"}', b'{"hosts": [1]}', b"\xff"])
def test_an_invalid_answer_of_the_scheduler_is_a_failure(scheduler: Scheduler, body: bytes) -> None:
    scheduler.body = body
    with pytest.raises(client.Unavailable, match="hosts"):
        asked(scheduler)


@pytest.mark.parametrize("status", [301, 500, 503])
def test_a_status_that_says_no_is_a_failure(scheduler: Scheduler, status: int) -> None:
    scheduler.status, scheduler.headers = status, {"Location": scheduler.url}
    with pytest.raises(client.Unavailable, match=str(status)):
        asked(scheduler)


def test_a_request_it_does_not_take_says_nothing_of_the_next_one(scheduler: Scheduler) -> None:
    scheduler.status, scheduler.body = 400, b"weights: nothing for 'node1'"
    with pytest.raises(client.Refused, match="400 weights: nothing for 'node1'"):
        asked(scheduler)


def test_a_refused_connection_to_the_scheduler_is_a_failure() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(client.Unavailable, match="refused"):
            client.ask(f"http://127.0.0.1:{free.getsockname()[1]}/", b"{}", timeout=60)


def test_a_url_that_is_none_is_a_failure() -> None:
    with pytest.raises(client.Unavailable):
        client.ask("nowhere", b"{}", timeout=60)


def test_a_silent_scheduler_is_abandoned_at_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(client.Unavailable, match="imed out"):
        client.ask(f"http://127.0.0.1:{silent.getsockname()[1]}/", b"{}", timeout=0.3)


@pytest.fixture(params=["as it is", "before version 2"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """urllib3, which has no `read1` before version 2."""
    if request.param != "as it is":
        for part in (urllib3.response.BaseHTTPResponse, urllib3.response.HTTPResponse):
            monkeypatch.delattr(part, "read1")


@pytest.mark.usefixtures("library")
def test_an_answer_in_parts_is_read_with_each_urllib3(scheduler: Scheduler) -> None:
    scheduler.body = json.dumps({"hosts": [f"node{number}" for number in range(20)]}).encode()
    assert len(asked(scheduler)) == 20


@pytest.mark.usefixtures("library")
def test_an_answer_that_drips_is_given_up(scheduler: Scheduler) -> None:
    # Half an hour of it, of which no part takes long.
    scheduler.body, scheduler.pause = b" " * 90_000, 0.02
    with pytest.raises(client.Unavailable):
        asked(scheduler, timeout=0.5)
    assert scheduler.written < len(scheduler.body), "it did not wait for the end"


def test_an_answer_without_end_is_not_kept(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ENOUGH", 100)
    scheduler.body = b" " * 1000
    with pytest.raises(client.Unavailable, match="more than"):
        asked(scheduler)


def test_no_proxy_of_the_environment_hears_of_it(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert asked(scheduler) == []


def test_certificate_of_the_scheduler_is_verified_with_the_given_authority(
    scheduler: Scheduler, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    signer, stranger = (pki.authority(name, name, now) for name in ("own", "another"))
    pair = pki.issue(signer, pki.Request(common="cortex", names=frozenset({"localhost"})), "drawn", now)
    for name, text in {"key": pair.key, "cert": pair.cert, "own": signer.cert, "another": stranger.cert}.items():
        (tmp_path / name).write_text(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    scheduler.socket = context.wrap_socket(scheduler.socket, server_side=True)
    url = scheduler.url.replace("http:", "https:")
    assert client.ask(url, b"{}", timeout=60, cafile=str(tmp_path / "own")) == []
    for wrong in (str(tmp_path / "another"), str(tmp_path / "missing"), None):
        with pytest.raises(client.Unavailable, match=r"certificate|CA"):
            client.ask(url, b"{}", timeout=60, cafile=wrong)
    with pytest.raises(client.Unavailable, match=r"127\.0\.0\.1"):
        client.ask(url.replace("localhost", "127.0.0.1"), b"{}", timeout=60, cafile=str(tmp_path / "own"))


def test_the_breaker_leaves_who_failed_alone_and_lets_one_through_again() -> None:
    now = [0.0]
    breaker = client.Breaker(30, clock=lambda: now[0])
    assert breaker.lets_through()
    assert [breaker.failed(), breaker.failed()] == [True, False]
    now[0] = 29.9
    assert not breaker.lets_through()
    now[0] = 30.0
    assert [breaker.lets_through(), breaker.lets_through()] == [True, False]
    assert not breaker.failed()
    now[0] = 59.9
    assert not breaker.lets_through()
    now[0] = 60.0
    assert breaker.lets_through()
    assert [breaker.answered(), breaker.answered()] == [True, False]
    assert breaker.lets_through()
    assert breaker.lets_through()
