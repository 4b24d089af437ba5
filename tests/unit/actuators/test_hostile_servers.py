"""Servers that resources name and that attack whoever reads from them: each client ends, after a bounded number of
bytes and messages.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import chain, count, repeat
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openstack_operator import pki
from openstack_operator.actuators import http, ovsdb, sql, sql_connection, within
from openstack_operator.actuators.budget import Budget, ExhaustedError, current, limited
from openstack_operator.actuators.channel import Channel
from openstack_operator.actuators.frames import Frames
from openstack_operator.actuators.http import Api
from openstack_operator.plan import Transient
from tests.unit.tcp_server import tcp_server
from tools.localcluster.ports import free_port

pytestmark = pytest.mark.security

BUFFERS = 16 << 20
"""Bytes that the system may keep between a server and a client that has stopped to read."""


class Server:
    """A server that says the same to everybody, and counts."""

    def __init__(self, speech: Callable[[], Iterator[bytes]], tls: ssl.SSLContext | None = None) -> None:
        self.sent = self.clients = self.heard = 0
        self._speech, self._tls = speech, tls

    def speak(self, connection: socket.socket) -> None:
        self.clients += 1
        with self._tls.wrap_socket(connection, server_side=True) if self._tls else connection as secured:
            for piece in self._speech():
                secured.settimeout(60)
                secured.sendall(piece)
                self.sent += len(piece)
                secured.settimeout(0)
                with suppress(BlockingIOError, ssl.SSLWantReadError):
                    self.heard += len(secured.recv(65536))


@contextmanager
def attacked(speech: Callable[[], Iterator[bytes]], tls: ssl.SSLContext | None = None) -> Generator[tuple[Server, int]]:
    server = Server(speech, tls)
    with tcp_server(server.speak) as port:
        yield server, port


def transact(port: int, scheme: str = "tcp", files: dict[str, str] | None = None) -> None:
    ovsdb.transact(f"{scheme}:127.0.0.1:{port}", "OVN_Southbound", [], files)


def get(port: int) -> None:
    Api("Keystone", f"http://127.0.0.1:{port}", seconds=60).call("GET", "/")


def select(port: int) -> None:
    with sql.connected("127.0.0.1", port, "secret") as server:
        server.run("SELECT 1")


ECHO = b'{"method":"echo","params":[],"id":"echo"}'
NOTE = b'{"method":"update","params":[],"id":null}'
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
ATTACKS: dict[str, tuple[Callable[[int], None], Callable[[], Iterator[bytes]]]] = {
    "ovsdb echo": (transact, lambda: repeat(ECHO)),
    "ovsdb echoes at once": (transact, lambda: repeat(ECHO * 1000)),
    "ovsdb notifications": (transact, lambda: repeat(NOTE)),
    "ovsdb answers to others": (transact, lambda: repeat(b'{"id":7,"error":null,"result":[]}')),
    "ovsdb spaces": (transact, lambda: repeat(b" " * 65536)),
    "ovsdb text": (transact, lambda: chain([b'{"a":"'], repeat(b"x" * 65536))),
    "ovsdb escapes": (transact, lambda: chain([b'{"a":"'], repeat(b"\\" * 65536))),
    "ovsdb quotes": (transact, lambda: chain([b"{"], repeat(b'"' * 65536))),
    "ovsdb lists": (transact, lambda: chain([b'{"a":'], repeat(b"[" * 65536))),
    "ovsdb objects": (transact, lambda: repeat(b'{"a":' * 8192)),
    "ovsdb closed lists": (transact, lambda: chain([b'{"a":['], repeat(b"[],"))),
    "ovsdb no objects": (transact, lambda: repeat(b"[]")),
    "ovsdb half a letter": (transact, lambda: chain([b'{"a":"\xc3"}'], repeat(ECHO))),
    "http headers": (get, lambda: chain([OK], (b"X-%d: y\r\n" % n for n in count()))),
    "http header": (get, lambda: chain([OK + b"X: "], repeat(b"y" * 65536))),
    "http provisional answers": (get, lambda: repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)),
    "http chunks": (get, lambda: chain([CHUNKED], repeat(b"1\r\ny\r\n" * 1000))),
    "http chunk": (get, lambda: chain([CHUNKED + b"fffffffffff\r\n"], repeat(b"y" * 65536))),
    "http extension": (get, lambda: chain([CHUNKED + b"1;x="], repeat(b"y" * 65536))),
    "http trailers": (get, lambda: chain([CHUNKED + b"0\r\n"], repeat(b"X: y\r\n" * 1000))),
    "http body": (get, lambda: chain([OK + b"\r\n"], repeat(b"y" * 65536))),
    "sql greeting": (select, lambda: chain([b"\xff\xff\xff\x00"], repeat(b"y" * 65536))),
    "sql packets": (select, lambda: (struct.pack("<I", 1)[:3] + bytes([n % 256]) + b"\x0a" for n in count())),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_endless_answer_is_read_up_to_a_bound(name: str) -> None:
    attempt, speech = ATTACKS[name]
    with attacked(speech) as (server, port), pytest.raises(Transient):
        attempt(port)
    assert server.clients == 1
    assert server.sent < BUFFERS


@pytest.mark.parametrize("message", [ECHO, NOTE], ids=["echo", "notification"])
def test_few_messages_that_are_no_answer_are_answered_or_read(message: bytes) -> None:
    with attacked(lambda: repeat(message)) as (server, port), pytest.raises(Transient, match="sends other messages"):
        transact(port)
    reply = len(b'{"result": [], "error": null, "id": "echo"}')
    asked = len(b'{"method": "transact", "params": ["OVN_Southbound"], "id": 0}')
    assert server.heard <= asked + 10 * reply


def test_all_members_together_take_no_longer_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile database may name as many members as it likes."""
    monkeypatch.setattr(ovsdb, "_MOST", 1 << 16)
    with (
        attacked(lambda: chain([b'{"a":"'], repeat(b"x" * 65536))) as (server, port),
        pytest.raises(Transient) as error,
    ):
        ovsdb.transact(",".join([f"tcp:127.0.0.1:{port}"] * 1000), "OVN_Southbound", [])
    assert server.clients == 1
    assert "longer than 65536 bytes" in str(error.value)
    with pytest.raises(Transient) as error:
        ovsdb.transact(",".join([f"tcp:127.0.0.1:{free_port()}"] * 1000), "OVN_Southbound", [])
    assert str(error.value).count("refused") == 16


def drip(text: bytes) -> Iterator[bytes]:
    """Send bytes one by one, each in time for a wait of its own."""
    for letter in chain(text, repeat(b"x"[0])):
        Event().wait(0.01)
        yield bytes([letter])


DRIPS: dict[str, tuple[Callable[[int], None], bytes]] = {
    "ovsdb": (transact, b'{"a":"'),
    "ovsdb spaces": (transact, b" " * 100000),
    "http": (get, OK + b"X: "),
    "http status": (get, b""),
    "sql": (select, b"\xff\xff\x00\x00"),
}


@pytest.mark.parametrize("name", DRIPS)
def test_a_server_that_sends_byte_by_byte_is_left_in_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ovsdb, "_WHOLE", 0.5)
    monkeypatch.setattr(sql_connection, "_WHOLE", 0.5)
    monkeypatch.setattr(http, "_WHOLE", 0.5 / 60)
    attempt, begin = DRIPS[name]
    with attacked(lambda: drip(begin)) as (_, port), pytest.raises(Transient, match=r"longer than 0\.5 s as a whole"):
        attempt(port)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], ssl.SSLContext]:
    """The Secret of a client, and how a server of the same authority secures a connection."""
    now, folder = datetime.now(UTC), tmp_path_factory.mktemp("tls")
    ours = pki.authority("ours", "ours", now - timedelta(hours=1))
    names = frozenset({"ovn-sb", "127.0.0.1"})
    cert = pki.issue(ours, pki.Request(common="ovn", names=names, life=timedelta(days=1), calls=True), "x", now)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (folder / "crt").write_text(cert.cert)
    (folder / "key").write_text(cert.key)
    server.load_cert_chain(folder / "crt", folder / "key")
    return {"ca.crt": ours.cert, "tls.crt": cert.cert, "tls.key": cert.key}, server


RECORDS = {
    # Each is a whole record of TLS: a warning, and one of a handshake that goes on.
    "warnings": lambda: repeat(b"\x15\x03\x03\x00\x02\x01\x5a" * 1000),
    "handshake": lambda: repeat(b"\x16\x03\x03\x00\x04\x02\xff\xff\xff" * 1000),
    "nothing": lambda: repeat(b"\x17\x03\x03\x00\x00" * 1000),
    "no TLS": lambda: repeat(b"HTTP/1.1 400 Bad Request\r\n"),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_handshake_without_end_ends(name: str, files: tuple[dict[str, str], ssl.SSLContext]) -> None:
    with attacked(RECORDS[name]) as (server, port), pytest.raises(Transient):
        transact(port, "ssl", files[0])
    assert server.sent < BUFFERS
    with attacked(RECORDS[name]) as (server, port), pytest.raises(Transient):
        Api("Keystone", f"https://127.0.0.1:{port}", seconds=60).call("GET", "/")
    assert server.sent < BUFFERS


def test_a_slow_handshake_is_left_in_time(
    files: tuple[dict[str, str], ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ovsdb, "_WHOLE", 0.5)
    monkeypatch.setattr(http, "_WHOLE", 0.5 / 60)

    def handshake() -> Iterator[bytes]:
        return drip(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc")

    with attacked(handshake) as (_, port), pytest.raises(Transient, match="as a whole"):
        transact(port, "ssl", files[0])
    with attacked(handshake) as (_, port), pytest.raises(Transient, match="as a whole"):
        Api("Keystone", f"https://127.0.0.1:{port}", seconds=60).call("GET", "/")


def test_records_within_tls_count(files: tuple[dict[str, str], ssl.SSLContext]) -> None:
    with (
        attacked(lambda: repeat(ECHO), files[1]) as (server, port),
        pytest.raises(Transient, match="sends other messages"),
    ):
        transact(port, "ssl", files[0])
    assert server.sent < BUFFERS


def test_a_look_reads_up_to_a_bound_with_any_number_of_requests() -> None:
    body = b"x" * (4 << 20)
    answer = OK + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    def speak(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(answer)

    calls = 0

    def endless(_: Any) -> None:
        nonlocal calls
        while True:
            Api("other", url, seconds=60).call("GET", "/again")
            calls += 1

    with tcp_server(speak) as port:
        url = f"http://127.0.0.1:{port}"
        with pytest.raises(Transient, match="longer than 64 MiB"):
            within(600, endless)(None)  # type: ignore[arg-type]
    assert calls == 15


def test_a_look_takes_no_more_work_than_a_bound() -> None:
    """The CPU of other threads, and time that passes, do not count."""
    work = iter([0.0, 1.0, 2.0, 3.0])
    budget = Budget(cpu=2.0, cpu_clock=lambda: next(work))
    assert budget.wait(5) == 5
    assert budget.wait() is None
    with pytest.raises(ExhaustedError, match="2 s of CPU"):
        budget.wait()


def test_limits_within_limits_all_count() -> None:
    with limited(received=100), pytest.raises(ExhaustedError, match="100"):
        for _ in range(3):
            with limited(received=50):
                current().count(40)
    with limited(received=100), limited(received=10), pytest.raises(ExhaustedError):
        current().count(11)
    current().count(1 << 40)


def test_a_wait_is_the_rest_of_the_time_at_most() -> None:
    now = iter([0.0, 1.0, 8.0, 10.0])
    budget = Budget(seconds=10, clock=lambda: next(now))
    assert budget.wait(5) == 5
    assert budget.wait(5) == 2
    with pytest.raises(ExhaustedError):
        budget.wait(5)


def test_text_before_tls_is_no_text_of_it(files: tuple[dict[str, str], ssl.SSLContext]) -> None:
    """What stands before a handshake in plain text may be of anybody."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.load_verify_locations(cadata=files[0]["ca.crt"])

    def speak(connection: socket.socket) -> None:
        connection.sendall(b"hello, injected")
        with files[1].wrap_socket(connection, server_side=True) as secured:
            secured.sendall(b"secret")

    with tcp_server(speak) as port:
        channel = Channel.connect("127.0.0.1", port, 60)
        assert channel.read_exactly(5) == b"hello"
        with pytest.raises(OSError, match=r"(?i)wrong version|record"):
            channel.secure(tls, "127.0.0.1")
        channel.close()


MESSAGES = st.lists(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=8,
        ),
        max_size=3,
    ),
    max_size=4,
)


@given(MESSAGES, st.data())
def test_messages_are_cut_apart_however_they_come(messages: list[Any], data: st.DataObject) -> None:
    gap = data.draw(st.sampled_from(["", " ", "\n\t "]))
    ascii_only = data.draw(st.booleans())
    text = gap.join(["", *(json.dumps(each, ensure_ascii=ascii_only) for each in messages), ""]).encode()
    size = data.draw(st.integers(1, 40))
    frames = Frames(longest=1 << 20, levels=100)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert [json.loads(each) for piece in pieces for each in frames.cut(piece)] == messages


@given(st.lists(st.binary(max_size=20)))
def test_any_bytes_are_cut_or_refused(pieces: list[bytes]) -> None:
    frames = Frames(longest=100, levels=4)
    with suppress(ValueError):
        for piece in pieces:
            for frame in frames.cut(piece):
                assert frame.startswith(b"{")


def calls_of(work: Callable[[], object]) -> int:
    """Count the calls that some work makes, also those of functions in C."""
    calls = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("letter", [b"x", b"[],", b'"",', b"\\n"])
def test_each_byte_is_looked_at_once(letter: bytes) -> None:
    """A message that comes in pieces is not read from its begin for each."""

    def cut(count: int) -> None:
        frames = Frames(longest=1 << 20, levels=100)
        start = b'{"a":"' if letter in (b"x", b"\\n") else b'{"a":['
        for piece in [start, *[letter] * count]:
            assert list(frames.cut(piece)) == []

    cut(1)
    assert calls_of(lambda: cut(4000)) < 2.1 * calls_of(lambda: cut(2000))


def test_no_other_module_of_actuators_opens_a_connection(root: Path) -> None:
    """All read through a channel, which has a budget."""
    checks = 0
    folder = root / "src/openstack_operator/actuators"
    allowed = {"egress.py": "socket.create_connection", "channel.py": ".recv("}
    for path in folder.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        for word in ("socket.create_connection", ".recv(", 'makefile("', "urlopen", "http.client", "socket.socket("):
            checks += 1
            assert word not in text or allowed.get(path.name) == word, f"{path.name}: {word}"
    assert checks
