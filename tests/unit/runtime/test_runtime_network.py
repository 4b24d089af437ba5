"""Connections of asyncio under the HTTP library: what a server does to them, with and without TLS."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2 as httpx
import pytest

from openstack_operator import pki
from openstack_operator.kubeconfig import Connection
from openstack_operator.runtime.kubernetes.transport import Transport
from tests.unit.polling import eventually

LARGE = 1 << 20
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
TLS = tuple[ssl.SSLContext | None, bytes]


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def tls(request: pytest.FixtureRequest, tmp_path: Path) -> TLS:
    """The server's side of TLS and its authority; nothing for a server without it."""
    if not request.param:
        return None, b""
    now = datetime.now(UTC)
    authority = pki.authority("k" * 64, "test", now - timedelta(hours=1))
    wanted = pki.Request(common="api", names=frozenset({"localhost"}), life=timedelta(days=1))
    shown = pki.issue(authority, wanted, "api", now)
    (tmp_path / "tls.pem").write_text(shown.cert + shown.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.pem")
    return context, authority.cert.encode()


@asynccontextmanager
async def serving(answer: Answer, tls: TLS) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of a server that answers each request so, and closes the connection when that raises EOFError."""
    connections: list[asyncio.StreamWriter] = []
    ended: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        try:
            while True:
                await answer(reader, writer)
        except (EOFError, OSError):
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        finally:
            ended.append(writer)

    context, authority = tls
    server = await asyncio.start_server(serve, "localhost", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    url = f"{'https' if context else 'http'}://localhost:{port}"
    transport = Transport(Connection(server=url, authority=authority))
    async with server, httpx.AsyncClient(base_url=url, transport=transport, timeout=300) as client:
        yield client
    await eventually("all connections to end", lambda: len(ended) == len(connections))


async def request_of(reader: asyncio.StreamReader) -> bytes:
    """The body of the next request. Raises EOFError at the end."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    _, _, rest = head.partition(b"content-length: ")
    return await reader.readexactly(int(rest.split()[0]) if rest else 0)


def say(writer: asyncio.StreamWriter, content: bytes) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content)


async def test_large_bodies_pass_both_ways_over_one_connection(tls: TLS):
    peers: set[object] = set()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = await request_of(reader)
        peers.add(writer.get_extra_info("peername"))
        say(writer, body)
        await writer.drain()

    body = bytes(range(256)) * (LARGE // 256)
    async with serving(echo, tls) as client:
        for _ in range(3):
            assert (await client.post("/", content=body)).content == body
    assert len(peers) == 1


async def test_a_connection_takes_little_memory(tls: TLS):
    """The operator has one for each kind that it watches."""
    waiting, is_over = asyncio.Semaphore(0), asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        waiting.release()
        await is_over.wait()
        say(writer, b"ok")

    tracemalloc.start()
    try:
        async with serving(wait, tls) as client, asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(client.get("/"))
            for _ in range(8):
                await waiting.acquire()
            asyncio_alone = tracemalloc.Filter(inclusive=True, filename_pattern=f"{Path(asyncio.__file__).parent}/*")
            traces = tracemalloc.take_snapshot().filter_traces([asyncio_alone]).traces
            is_over.set()
    finally:
        tracemalloc.stop()
    # Both ends of each are here.
    assert sum(trace.size for trace in traces) < 16 * (64 << 10)


async def test_a_connection_that_the_server_closed_is_not_used_again(tls: TLS):
    closed: list[asyncio.StreamWriter] = []

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        say(writer, b"ok")
        await writer.drain()
        closed.append(writer)
        raise EOFError

    async with serving(answer_once, tls) as client:
        for number in range(1, 4):
            assert (await client.get("/")).content == b"ok"
            await eventually("an answer", lambda number=number: len(closed) == number)
            await closed[-1].wait_closed()


async def test_an_answer_that_breaks_off_is_an_error(tls: TLS):
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
        await writer.drain()
        raise EOFError

    async with serving(break_off, tls) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get("/")


async def test_a_silent_server_is_waited_for_as_long_as_told(tls: TLS):
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)

    async with serving(say_nothing, tls) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.get("/", timeout=httpx.Timeout(300, read=0.01))


async def test_pieces_arrive_as_they_are_sent(tls: TLS):
    go_on = asyncio.Event()

    async def two_pieces(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await go_on.wait()
        writer.write(b"3\r\ntwo\r\n0\r\n\r\n")

    async with serving(two_pieces, tls) as client, client.stream("GET", "/") as response:
        pieces = response.aiter_raw()
        assert await anext(pieces) == b"one"
        go_on.set()
        assert [piece async for piece in pieces] == [b"two"]


@pytest.mark.parametrize("tls", [True], indirect=True, ids=["tls"])
async def test_a_server_of_another_authority_gets_no_request(tls: TLS):
    requests: list[bytes] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await request_of(reader))

    other = pki.authority("o" * 64, "other", datetime.now(UTC))
    async with serving(note, (tls[0], other.cert.encode())) as client:
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await client.get("/")
    assert not requests


async def test_no_server_is_an_error_of_the_connection():
    server = await asyncio.start_server(lambda reader, writer: None, "localhost", 0)
    url = f"http://localhost:{server.sockets[0].getsockname()[1]}"
    server.close()
    await server.wait_closed()
    async with httpx.AsyncClient(base_url=url, transport=Transport(Connection(server=url))) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get("/")
