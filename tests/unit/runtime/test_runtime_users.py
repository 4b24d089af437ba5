"""What ports show to who asks, as real TLS."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from openstack_operator import pki
from openstack_operator.plan import Context, Release, TrustInUse
from openstack_operator.runtime.kubernetes.errors import Forbidden
from openstack_operator.runtime.kubernetes.kinds import SECRET
from openstack_operator.runtime.reconcile.observers import Observer, certificate
from openstack_operator.services.mariadb.handshake import start_tls
from openstack_operator.services.pki.model import PKI
from openstack_operator.testing import context

BY = pki.authority("ours", "ours", datetime.now(UTC))
PAIR = pki.issue(BY, pki.Request(common="x", names=frozenset({"localhost"})), "x", datetime.now(UTC))


def tls(folder: Path, *, mutual: bool = False) -> ssl.SSLContext:
    (folder / "pem").write_text(PAIR.cert + PAIR.key)
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=BY.cert)
    made.load_cert_chain(folder / "pem")
    made.verify_mode = ssl.CERT_REQUIRED if mutual else ssl.CERT_NONE
    return made


async def ends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def test_a_port_shows_its_certificate_and_needs_to_be_told_nothing(tmp_path: Path) -> None:
    for mutual in (False, True):
        shows = tls(tmp_path, mutual=mutual)
        async with await asyncio.start_server(ends, "127.0.0.1", 0, ssl=shows) as server:
            assert await certificate(*server.sockets[0].getsockname()) == PAIR.cert


async def test_a_port_that_shows_nothing_says_nothing(tmp_path: Path) -> None:
    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        assert await certificate(host, port) == ""
        assert await certificate(host, port, start_tls) == ""
    assert await certificate(host, port) == ""


async def test_mariadb_is_asked_for_tls(tmp_path: Path) -> None:
    def greets(server: socket.socket) -> bytes:
        plain, _ = server.accept()
        with plain:
            plain.sendall(b"\x05\x00\x00\x00hello")
            asked = plain.recv(36, socket.MSG_WAITALL)
            with tls(tmp_path).wrap_socket(plain, server_side=True):
                return asked

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        served = asyncio.get_running_loop().run_in_executor(None, greets, server)
        assert await certificate("127.0.0.1", server.getsockname()[1], start_tls) == PAIR.cert
        asked = await served
    assert asked[:4] == b"\x20\x00\x00\x01"
    assert int.from_bytes(asked[4:8], "little") & 0x800, "CLIENT_SSL"


@pytest.mark.security
async def test_a_greeting_has_a_bound() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"\xff\xff\xff\x00" + b"x" * 5000)
    with pytest.raises(EOFError):
        await start_tls(reader, Silent())


class Silent:
    def write(self, data: bytes, /) -> None:
        raise AssertionError(data)


def test_a_port_that_does_not_say_goodbye_keeps_no_connection(tmp_path: Path) -> None:
    done = threading.Event()

    def stays(server: socket.socket) -> None:
        plain, _ = server.accept()
        with tls(tmp_path).wrap_socket(plain, server_side=True):
            done.wait()

    with socket.create_server(("127.0.0.1", 0)) as server:
        # If nobody connects, the thread ends all the same.
        server.settimeout(60)
        serving = threading.Thread(target=stays, args=(server,))
        serving.start()
        try:
            assert asyncio.run(certificate(*server.getsockname())) == PAIR.cert
            # A connection that is still open says so when it is collected, and that fails a test.
            gc.collect()
        finally:
            done.set()
            serving.join()


class Listing:
    """Answers lists, in pages of one."""

    def __init__(self, **items: list[dict[str, Any]]) -> None:
        self._items = items

    async def page(self, kind: Any, namespace: str, query: Mapping[str, str]) -> bytes:
        items, at = self._items[kind.plural], int(query.get("continue", 0))
        following = {"continue": str(at + 1)} if at + 1 < len(items) else {}
        return msgspec.json.encode({"metadata": following, "items": items[at : at + 1]})


class Issuers:
    """Answers with an issuer, with none, or that it may not be read."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.paths: list[str] = []

    async def get(self, kind: Any, namespace: str | None, name: str) -> Any:
        self.paths.append(kind.path(namespace, name))
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


async def test_an_issuer_is_read_where_the_operator_may(release: Release) -> None:
    target = (SECRET, "openstack", "x")
    trust, ctx = TrustInUse(lambda _: False, lambda _: False, lambda _: target), context(PKI, release=release)
    for answer, facts in (({"spec": {}}, {"issuer": {"spec": {}}}), (None, {}), (Forbidden("no"), {})):
        client: Any = Issuers(answer)
        assert await Observer(client, {}).observe(trust, ctx) == facts
        assert client.paths == [SECRET.path("openstack", "x")]


async def test_only_what_is_needed_is_looked_at_and_no_key(tmp_path: Path, release: Release) -> None:
    asked: list[Mapping[str, Any]] = []

    def nearly(ctx: Context[Any]) -> bool:
        asked.append(ctx.facts)
        return bool(ctx.annotations)

    held = {"metadata": {"name": "tls"}, "data": {"ca.crt": "YQ==", "tls.crt": "Yg==", "tls.key": "Yw=="}}
    other = {"metadata": {"name": "other"}, "data": {"password": "YQ=="}}
    async with await asyncio.start_server(ends, "127.0.0.1", 0, ssl=tls(tmp_path)) as server:
        host, port = server.sockets[0].getsockname()
        spec = {
            "volumes": [{"secret": {"secretName": "tls"}}],
            "containers": [{"name": "x", "ports": [{"containerPort": port}]}],
        }
        pods = [{"metadata": {"name": name}, "spec": spec, "status": {"podIP": host}} for name in ("a", "b")]
        client: Any = Listing(secrets=[held, other], pods=pods)
        ctx = context(PKI, release=release)
        observer = Observer(client, {})
        assert await observer.observe(TrustInUse(lambda _: False, nearly), ctx) == {}
        trust = TrustInUse(lambda _: True, nearly)
        found = await observer.observe(trust, ctx)
        assert [set(item["data"]) for item in found["secrets"]] == [{"ca.crt", "tls.crt"}]
        assert len(found["pods"]) == 2
        assert "shown" not in found
        found = await observer.observe(trust, context(PKI, release=release, annotations={"a": "b"}))
        assert found["shown"] == {"a": [PAIR.cert], "b": [PAIR.cert]}
        assert "pods" in asked[0]
