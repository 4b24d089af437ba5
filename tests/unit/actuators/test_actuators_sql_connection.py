"""MariaDB servers of others that are hostile: they get no password, no time and no memory."""

from __future__ import annotations

import socket
import ssl
import struct
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from openstack_operator import pki
from openstack_operator.actuators import sql, sql_connection
from openstack_operator.plan import Transient
from tests.unit.tcp_server import tcp_server

pytestmark = pytest.mark.security

PASSWORD = "correct-horse"
OK = b"\x00\x00\x00\x02\x00\x00\x00"
CAPABILITIES = 0x00080000 | 0x00008000 | 0x00000200 | 0x00200000 | 0x00000008
"""PLUGIN_AUTH, SECURE_CONNECTION, PROTOCOL_41, PLUGIN_AUTH_LENENC_CLIENT_DATA, CONNECT_WITH_DB (MySQL's protocol)."""


class Talk:
    """The server's side of a conversation in MySQL's protocol."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.heard = b""

    def say(self, number: int, payload: bytes) -> None:
        self.connection.sendall(struct.pack("<I", len(payload))[:3] + bytes([number]) + payload)

    def hear(self) -> bytes:
        piece = self.connection.recv(65536)
        self.heard += piece
        return piece

    def greet(self, method: bytes = b"mysql_native_password") -> None:
        low, high = CAPABILITIES & 0xFFFF, CAPABILITIES >> 16
        head = b"\x0a11.8.3-MariaDB\x00" + struct.pack("<I", 1) + b"12345678\x00" + struct.pack("<H", low)
        self.say(0, head + struct.pack("<BHHB", 45, 2, high, 21) + bytes(10) + b"123456789012\x00" + method + b"\x00")

    def let_in(self) -> None:
        """Greets, and agrees to the login and to the statement that the driver begins with."""
        self.greet()
        self.hear()
        self.say(2, OK)
        self.hear()
        self.say(1, OK)


def outcome(speak: Callable[[Talk], object]) -> tuple[str, bytes]:
    """The error of one who asks such a server for rows, and what the server got to hear."""
    talks: list[Talk] = []

    def one(connection: socket.socket) -> None:
        talks.append(Talk(connection))
        speak(talks[-1])

    with (
        tcp_server(one) as port,
        pytest.raises(Transient) as error,
        sql.connected("127.0.0.1", port, PASSWORD) as server,
    ):
        server.run("SELECT 1")
    return str(error.value), talks[0].heard


METHODS = (b"mysql_clear_password", b"dialog", b"sha256_password", b"caching_sha2_password", b"mysql_old_password")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("when", ["first", "later"])
def test_a_method_that_tells_the_password_is_refused(method: bytes, when: str) -> None:
    def speak(talk: Talk) -> None:
        talk.greet(method if when == "first" else b"mysql_native_password")
        talk.hear()
        if when == "later":
            prompt = b"\x04Password: " if method == b"dialog" else b"12345678901234567890\x00"
            talk.say(2, b"\xfe" + method + b"\x00" + prompt)
            talk.hear()

    error, heard = outcome(speak)
    assert f"the server asks for the password in clear text ('{method.decode()}')" in error
    assert PASSWORD.encode() not in heard


def columns(talk: Talk) -> None:
    """Begins a result of one column."""
    talk.hear()
    talk.say(1, b"\x01")
    talk.say(2, b"\x03def\x00\x00\x00\x01x\x01x\x0c\x2d\x00\x04\x00\x00\x00\xfd\x00\x00\x00\x00\x00")
    talk.say(3, b"\xfe\x00\x00\x02\x00")


def test_rows_without_end_are_read_no_further_than_they_may() -> None:
    def speak(talk: Talk) -> None:
        talk.let_in()
        columns(talk)
        for number in count(4):
            talk.say(number % 256, b"\xfc\xff\xff" + bytes(65535))

    assert "its answers are longer than 2 MiB" in outcome(speak)[0]


def test_an_answer_that_comes_byte_by_byte_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_connection, "_WHOLE", 1.0)

    def speak(talk: Talk) -> None:
        # A packet of 64 KiB, each byte of which comes in time for a read of its own.
        talk.connection.sendall(b"\xff\xff\x00\x00")
        while True:
            talk.connection.sendall(b"x")
            talk.connection.settimeout(0.01)
            try:
                if not talk.hear():
                    return
            except TimeoutError:
                pass

    assert "its answers take longer than 1 s as a whole" in outcome(speak)[0]


def test_a_file_of_the_operators_is_not_sent() -> None:
    def speak(talk: Talk) -> None:
        talk.let_in()
        talk.hear()
        talk.say(1, b"\xfb/etc/hostname")
        talk.hear()

    error, heard = outcome(speak)
    assert "the server broke its protocol (RuntimeError)" in error
    quits = b"\x01\x00\x00\x00\x01"
    assert heard.removesuffix(quits).endswith(b"SELECT 1")


@pytest.mark.parametrize("greeting", [b"", b"\x0a", b"HTTP/1.1 400 Bad Request", bytes(range(200)), b"\x0a5\xff"])
def test_an_invalid_greeting_is_no_mariadb(greeting: bytes) -> None:
    assert "MariaDB: " in outcome(lambda talk: talk.say(0, greeting))[0]


MARK = b"internal-7f3a"


@pytest.mark.parametrize("code", [1045, 2003, 2013, 9999])
def test_no_words_of_a_foreign_server_are_told(code: int) -> None:
    """A greeting, a way to log in and a refusal are what any server of that address may say."""
    refusal = b"\xff" + struct.pack("<H", code) + b"#28000" + MARK

    def after_login(talk: Talk) -> None:
        talk.greet()
        talk.hear()
        talk.say(2, refusal)

    speeches: list[Callable[[Talk], object]] = [
        lambda talk: talk.connection.sendall(MARK),
        lambda talk: talk.say(0, MARK),
        lambda talk: talk.say(0, refusal),
        lambda talk: talk.greet(MARK),
        after_login,
    ]
    for speech in speeches:
        assert MARK.decode() not in outcome(speech)[0]
    assert f"MariaDB: error {code}" in outcome(after_login)[0]


AUTHORITY = pki.authority("x", "x", datetime.now(UTC)).cert


def asked_with_trust(speak: Callable[[Talk], object]) -> tuple[str, bytes]:
    """The error of one who trusts an authority, and what the server got to hear."""
    talks: list[Talk] = []

    def one(connection: socket.socket) -> None:
        talks.append(Talk(connection))
        speak(talks[-1])

    with (
        tcp_server(one) as port,
        pytest.raises(Transient) as error,
        sql.connected("127.0.0.1", port, PASSWORD, AUTHORITY),
    ):
        pass
    return str(error.value), talks[0].heard


def test_no_login_is_sent_without_tls_if_there_is_an_authority() -> None:
    def speak(talk: Talk) -> None:
        talk.greet()
        talk.hear()

    error, heard = asked_with_trust(speak)
    assert "it offers no TLS" in error
    assert b"root" not in heard


def test_a_login_waits_for_tls_where_there_is_an_authority(monkeypatch: pytest.MonkeyPatch) -> None:
    tls = 0x00000800
    monkeypatch.setattr(sys.modules[__name__], "CAPABILITIES", CAPABILITIES | tls)

    def speak(talk: Talk) -> None:
        talk.greet()
        while len(talk.heard) < 50:
            talk.hear()

    error, heard = asked_with_trust(speak)
    assert "MariaDB" in error
    assert struct.unpack("<I", heard[4:8])[0] & tls
    # A packet of 32 bytes asks for TLS. A handshake follows.
    assert (heard[:4], heard[36:38]) == (b"\x20\x00\x00\x01", b"\x16\x03")
    assert b"root" not in heard


def test_rows_come_through_tls(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    ours = pki.authority("ours", "ours", now)
    pair = pki.issue(ours, pki.Request(common="db", names=frozenset({"127.0.0.1"})), "db", now)
    (tmp_path / "crt").write_text(pair.cert)
    (tmp_path / "key").write_text(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")

    def speak(connection: socket.socket) -> None:
        plain = Talk(connection)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys.modules[__name__], "CAPABILITIES", CAPABILITIES | 0x800)
            plain.greet()
        assert len(connection.recv(36)) == 36
        with context.wrap_socket(connection, server_side=True) as secured:
            talk = Talk(secured)
            talk.hear()
            talk.say(3, OK)
            talk.hear()
            talk.say(1, OK)
            columns(talk)
            talk.say(4, b"\x03abc")
            talk.say(5, b"\xfe\x00\x00\x02\x00")
            talk.hear()

    with tcp_server(speak) as port, sql.connected("127.0.0.1", port, PASSWORD, ours.cert) as server:
        assert server.rows(1, "SELECT x") == [("abc",)]
