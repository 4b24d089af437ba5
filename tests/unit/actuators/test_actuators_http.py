"""Servers of others that answer slowly, at length, or packed: a request ends, and takes no more than it may."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from threading import Event
from typing import Any, cast

import pytest

from openstack_operator.actuators import within
from openstack_operator.actuators.http import Api
from openstack_operator.plan import Transient
from tests.unit.tcp_server import tcp_server

pytestmark = pytest.mark.security

HEAD = b"HTTP/1.1 200 OK\r\n"
Speech = Callable[[Event], Iterator[bytes]]


@contextmanager
def speaking(speech: Speech) -> Generator[str]:
    """The URL of a server that says the same to everybody, piece by piece."""
    over = Event()

    def speak(connection: socket.socket) -> None:
        connection.recv(65536)
        for piece in speech(over):
            connection.sendall(piece)
            if over.is_set():
                break

    with tcp_server(speak) as port:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            over.set()


def slowly(pieces: Iterator[bytes], over: Event) -> Iterator[bytes]:
    """Often enough that no wait for a piece is too long."""
    for piece in pieces:
        yield piece
        over.wait(0.01)


def endless_headers(over: Event) -> Iterator[bytes]:
    return slowly(chain([HEAD, b"X: "], repeat(b"y")), over)


def endless_body(over: Event) -> Iterator[bytes]:
    return slowly(chain([HEAD + b"Content-Length: 1000000\r\n\r\n"], repeat(b"y")), over)


def endless_chunks(over: Event) -> Iterator[bytes]:
    return slowly(chain([HEAD + b"Transfer-Encoding: chunked\r\n\r\n"], repeat(b"1\r\ny\r\n")), over)


def large(_: Event) -> Iterator[bytes]:
    return chain([HEAD + b"Transfer-Encoding: chunked\r\n\r\n"], repeat(b"100000\r\n" + b"y" * 2**20 + b"\r\n"))


def packed(_: Event) -> Iterator[bytes]:
    body = gzip.compress(b"0" * 10_000_000)
    yield HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def plain(_: Event) -> Iterator[bytes]:
    yield HEAD + b'Connection: close\r\nContent-Length: 9\r\n\r\n{"a": 42}'


@pytest.mark.parametrize("speech", [endless_headers, endless_body, endless_chunks])
def test_an_answer_that_never_ends_does(speech: Speech) -> None:
    with speaking(speech) as url, pytest.raises(Transient, match="Test is unreachable"):
        Api("Test", url, seconds=0.5).call("GET", "/")


@pytest.mark.parametrize(("speech", "what"), [(large, "more than 8 MiB"), (packed, "compresses its answers")])
def test_an_answer_takes_no_more_memory_than_it_may(speech: Speech, what: str) -> None:
    with speaking(speech) as url, pytest.raises(Transient, match=what):
        Api("Test", url, seconds=60).call("GET", "/")


def test_any_other_answer_is_read() -> None:
    with speaking(plain) as url:
        api = Api("Test", url, seconds=60)
        for _ in range(2):
            response = api.call("GET", "/")
            assert response
            assert response.json() == {"a": 42}


def test_a_look_that_makes_requests_without_end_is_over() -> None:
    def answered(over: Event) -> Iterator[bytes]:
        yield HEAD + b"Content-Length: 2\r\nConnection: close\r\n\r\n{}"

    with speaking(answered) as url:
        api = Api("other", url, seconds=60)

        def endless(_: Any) -> None:
            while True:
                api.call("GET", "/again")

        with pytest.raises(Transient, match="take longer than 1 s as a whole"):
            within(1.0, endless)(cast("Any", None))
