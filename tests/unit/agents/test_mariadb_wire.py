"""Members that ask each other through TLS."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from openstack_operator import pki
from openstack_operator.agents.mariadb import wire
from tools.localcluster.ports import free_port

NAME = "mariadb.openstack.svc.cluster.local"
NOW = datetime.now(UTC)
OURS, THEIRS = pki.authority("ours", "pki", NOW), pki.authority("theirs", "pki", NOW)


def given(folder: Path, drawn: str, *, by: pki.Pair = OURS, trusts: pki.Pair = OURS, name: str = NAME) -> Path:
    """A certificate in a folder."""
    pair = pki.issue(by, pki.Request(common="mariadb", names=frozenset({name}), calls=True), drawn, NOW)
    folder.mkdir(exist_ok=True)
    for file, text in {"tls.crt": pair.cert, "tls.key": pair.key, "ca.crt": trusts.cert}.items():
        (folder / file).write_text(text)
    return folder


@pytest.fixture
def port() -> int:
    return free_port()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + (b"member" if wire.has_name(writer, NAME) else b"stranger"))
    await writer.drain()
    writer.close()


@pytest.mark.security
def test_only_members_hear_members(tmp_path: Path, port: int) -> None:
    async def asked(folder: Path, name: str = NAME) -> bytes:
        return await wire.ask("127.0.0.1", "/", name, folder, port)

    async def run() -> None:
        own, caller = given(tmp_path / "own", "one"), given(tmp_path / "caller", "two")
        listener = wire.Listener(answer, own, port)
        assert await asked(caller) == b"", "nobody listens yet"
        await listener.follow()
        assert await asked(caller) == b"member"
        assert await asked(caller, "keystone-api.openstack.svc.cluster.local") == b"", "whom it asks bears another name"
        assert await asked(given(tmp_path / "other", "three", name="rabbitmq")) == b"stranger"
        assert await asked(given(tmp_path / "theirs", "four", by=THEIRS)) == b"", "of another authority"
        assert await asked(given(tmp_path / "trusts", "five", trusts=THEIRS)) == b"", "trusts another one"
        listener.close()

    asyncio.run(run())


def test_a_new_certificate_is_shown_and_half_of_one_is_not(tmp_path: Path, port: int) -> None:
    async def run() -> None:
        own, caller = given(tmp_path / "own", "one"), given(tmp_path / "caller", "two", by=THEIRS, trusts=THEIRS)
        listener = wire.Listener(answer, own, port)
        await listener.follow()
        key = (own / "tls.key").read_text()
        given(own, "three", by=THEIRS, trusts=THEIRS)
        new = (own / "tls.key").read_text()
        (own / "tls.key").write_text(key)
        await listener.follow()
        assert await wire.ask("127.0.0.1", "/", NAME, caller, port) == b"", "the key does not belong to it"
        (own / "tls.key").write_text(new)
        await listener.follow()
        assert await wire.ask("127.0.0.1", "/", NAME, caller, port) == b"member"
        listener.close()

    asyncio.run(run())


@pytest.mark.security
def test_a_listener_without_a_certificate_answers_nothing(tmp_path: Path, port: int) -> None:
    async def run() -> None:
        await wire.Listener(answer, tmp_path, port).follow()
        assert await wire.ask("127.0.0.1", "/", NAME, given(tmp_path / "caller", "two"), port) == b""

    asyncio.run(run())


class Counting:
    """A server that sends without end, and counts."""

    def __init__(self) -> None:
        self.sent = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n")
        with contextlib.suppress(OSError):
            while not writer.is_closing():
                writer.write(b"x" * 65536)
                self.sent += 65536
                await writer.drain()
        writer.close()


@pytest.mark.security
async def test_an_answer_without_end_is_read_no_further_than_a_bound(tmp_path: Path, port: int) -> None:
    own, caller, server = given(tmp_path / "own", "one"), given(tmp_path / "caller", "two"), Counting()
    listener = wire.Listener(server, own, port)
    await listener.follow()
    assert await wire.ask("127.0.0.1", "/", NAME, caller, port) == b""
    assert server.sent < 16 << 20
    listener.close()


@pytest.mark.security
@pytest.mark.parametrize(
    "request_text",
    [b"GET / HTTP/1.0\r\n" + b"X: y\r\n" * 20000, b"GET /" + b"x" * 200000, b"", b"\r\n"],
    ids=["headers", "line", "nothing", "short"],
)
async def test_a_request_has_a_bound(request_text: bytes) -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(request_text)
    reader.feed_eof()
    with pytest.raises((ValueError, EOFError)):
        await wire.read_request(reader)


async def test_a_request_is_its_first_line() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n")
    assert await wire.read_request(reader) == ("GET", "/ready")
