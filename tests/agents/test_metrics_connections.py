"""Clients and programs that are slow, send much or come in numbers: a Prometheus gets its metrics beside them."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import pki
from openstack_operator.agents.metrics import answers, libvirt, serve, upstream
from openstack_operator.agents.metrics.connections import CLIENTS, SECONDS, Connections
from openstack_operator.agents.metrics.serve import REQUEST, Server

pytestmark = pytest.mark.security

TIMEOUT = 60
"""Seconds after which a test that hangs ends."""
PROMETHEUS, OTHER = "127.0.0.1", "127.0.0.2"


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class ObservedServer(Server):
    """A server of which a test knows when it has taken a connection."""

    def __init__(self, make: Callable[[], bytes], tls_folder: str, clock: Callable[[], float]) -> None:
        super().__init__(make, 0, tls_folder, clock=clock)
        self.taken = threading.Semaphore(0)

    def process_request(self, request: Any, client_address: Any) -> None:
        super().process_request(request, client_address)
        self.taken.release()


class Exporter:
    """A server of a page, whose clock stands still."""

    def __init__(self, make: Callable[[], bytes] = lambda: b"x 1\n", tls_folder: str = "") -> None:
        self.clock = Clock()
        self.server = ObservedServer(make, tls_folder, self.clock)
        self.port = int(self.server.server_address[1])

    def connect(self, address: str = OTHER, first: bytes = b"G") -> socket.socket:
        """Return a connection of a slow client, which sent its first bytes."""
        client = socket.create_connection(("127.0.0.1", self.port), TIMEOUT, (address, 0))
        assert self.server.taken.acquire(timeout=TIMEOUT)
        client.sendall(first)
        return client

    def get(self) -> tuple[int, bytes]:
        """Return the answer that a Prometheus gets."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, TIMEOUT, (PROMETHEUS, 0))
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            assert self.server.taken.acquire(timeout=TIMEOUT)
            return answer.status, answer.read()


@contextmanager
def exporter(make: Callable[[], bytes] = lambda: b"x 1\n", tls_folder: str = "") -> Generator[Exporter]:
    made = Exporter(make, tls_folder)
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join(TIMEOUT)


def has_ended(client: socket.socket) -> bool:
    """Wait for what the server does with a connection."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def is_open(client: socket.socket) -> bool:
    """Tell whether the server has not ended a connection so far."""
    client.setblocking(False)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        client.settimeout(TIMEOUT)


def test_a_client_sending_a_byte_a_second_ends_at_the_limit() -> None:
    with exporter() as made, made.connect() as client:
        while made.clock.now < 1000 + SECONDS - 1:
            made.clock.now += 1
            made.server.service_actions()
            assert is_open(client)
            client.sendall(b"x")
        made.clock.now += 1
        assert has_ended(client)
        assert made.get() == (200, b"x 1\n")


def test_a_client_that_begins_no_handshake_ends_too(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    request = pki.Request(common="metrics", names=frozenset({"localhost"}))
    pair = pki.certificate(None, request, pki.authority("drawn", "ca", now), lambda: "drawn", now)
    (tmp_path / "tls.crt").write_text(pair.cert, encoding="utf-8")
    (tmp_path / "tls.key").write_text(pair.key, encoding="utf-8")
    with exporter(tls_folder=str(tmp_path)) as made, made.connect(first=b"\x16\x03") as client:
        assert is_open(client)
        made.clock.now += SECONDS
        assert has_ended(client)


def test_slow_clients_in_any_number_keep_no_prometheus_away() -> None:
    with exporter() as made:
        slow = [made.connect() for _ in range(3 * CLIENTS)]
        assert made.get() == (200, b"x 1\n")
        for each in slow[:-CLIENTS]:
            assert has_ended(each)
        for each in slow:
            each.close()


def test_a_client_with_many_connections_ends_its_own_alone() -> None:
    with exporter() as made:
        prometheus = made.connect(PROMETHEUS, b"GET /metrics HTTP/1.0\r\n")
        slow = [made.connect() for _ in range(3 * CLIENTS)]
        assert all(has_ended(each) for each in slow[: 2 * CLIENTS])
        prometheus.sendall(b"\r\n")
        assert prometheus.recv(15) == b"HTTP/1.0 200 OK"
        for each in (prometheus, *slow):
            each.close()


def test_clients_that_wait_for_a_page_make_room_too() -> None:
    silent, begun = threading.Event(), threading.Event()

    def make() -> bytes:
        begun.set()
        silent.wait(TIMEOUT)
        return b"x 1\n"

    request = b"GET /metrics HTTP/1.0\r\n\r\n"
    with exporter(make) as made:
        waiting = [made.connect(OTHER, request) for _ in range(CLIENTS)]
        assert begun.wait(TIMEOUT)
        prometheus = made.connect(PROMETHEUS, request)
        assert has_ended(waiting[0])
        silent.set()
        assert prometheus.recv(15) == b"HTTP/1.0 200 OK"
        for each in (prometheus, *waiting):
            each.close()


def test_a_waiting_client_shares_the_failure_of_a_page(capfd: pytest.CaptureFixture[str]) -> None:
    def make() -> bytes:
        raise OSError("silent")

    with exporter(make) as made:
        assert [made.get()[0] for _ in range(3)] == [502] * 3
        assert capfd.readouterr().err == "exporter: silent\n"
        made.clock.now += serve.FRESH + 0.1
        assert made.get()[0] == 502
        assert capfd.readouterr().err == "exporter: silent\n"


@pytest.mark.parametrize("line", [b"x" * (REQUEST + 1), b"x: y\r\n" * (REQUEST // 6 + 1)])
def test_a_request_has_a_bound(line: bytes) -> None:
    with exporter() as made, made.connect(first=b"GET /metrics HTTP/1.0\r\n") as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(line)
        assert has_ended(client)


def test_threads_have_a_bound_though_none_ends() -> None:
    connections, clock = Connections(), Clock()
    with socket.socket() as request:
        running = [connections.open(request, OTHER, clock()) for _ in range(3 * CLIENTS)]
        made = [each for each in running if each]
        assert len(made) == 2 * CLIENTS
        assert [each.has_ended for each in made] == [True] * CLIENTS + [False] * CLIENTS
        connections.close(made[0])
        made[0] = connections.open(request, PROMETHEUS, clock()) or made[0]
        assert not made[0].has_ended
        for each in made:
            connections.close(each)


@contextmanager
def program(send: Callable[[socket.socket], object]) -> Generator[int]:
    """A program that takes a connection, and sends what a function says."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            with contextlib.suppress(OSError), listener.accept()[0] as connection:
                send(connection)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        thread.join(TIMEOUT)


def test_a_program_sending_a_byte_a_second_is_silent_at_the_limit() -> None:
    clock = Clock()
    near, far = socket.socketpair()
    with near, far:
        received = []
        far.sendall(b"x")
        with pytest.raises(TimeoutError, match="longer than 5 s"):
            for block in answers.blocks(near, 5, clock):
                received.append(block)
                clock.now += 1
                far.sendall(b"x")
                assert len(received) < 10
        assert len(received) == 5


def test_an_answer_without_an_end_takes_no_memory_without_end() -> None:
    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65536)

    with program(endless) as port, pytest.raises(OSError, match="more than"):
        upstream.fetch(port)


def test_output_without_an_end_takes_no_memory_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "yes-virsh"
    path.write_text("#!/bin/sh\nexec yes\n", encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setattr(libvirt, "COMMAND", (str(path),))
    with pytest.raises(OSError, match="more than"):
        libvirt.virsh("list")
