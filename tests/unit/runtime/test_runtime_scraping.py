"""Metrics over HTTPS: what each kind of client gets, and what it can hold up."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2 as httpx
import pytest
from cryptography import x509

from openstack_operator import pki
from openstack_operator.runtime.serve import scraping
from openstack_operator.runtime.serve.ports import Ports, serve
from openstack_operator.runtime.serve.scrapers import Scrapers
from openstack_operator.runtime.serve.scraping import MetricsServer
from openstack_operator.runtime.serve.serving_certificate import ServingCertificate
from tests.unit.polling import TIMEOUT, eventually
from tests.unit.review_api import BAD, GOOD, OTHER, ReviewApi
from tools.localcluster.ports import free_port

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOST = "127.0.0.1"
TEXT = b"metrics 1\n"


@dataclass
class Site:
    """A server on loopback, and the API server that it asks."""

    api: ReviewApi
    server: MetricsServer
    port: int

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[httpx.AsyncClient]:
        """Looks at no certificate, as Prometheus with insecureSkipVerify."""
        base = f"https://{HOST}:{self.port}"
        async with httpx.AsyncClient(base_url=base, verify=False, trust_env=False, timeout=TIMEOUT) as client:
            yield client

    async def get(self, *authorization: str, path: str = "/metrics", method: str = "GET") -> httpx.Response:
        async with self.client() as client:
            headers = [("Authorization", value) for value in authorization]
            return await client.request(method, path, headers=headers)

    async def connect(self, *, plain: bool = False) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(HOST, self.port, ssl=None if plain else unchecked(), limit=1024)

    def connections(self) -> int:
        return len(vars(self.server)["_listener"])


def unchecked() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@asynccontextmanager
async def serving(
    text: Callable[[], bytes] = lambda: TEXT, certificate: ServingCertificate | None = None
) -> AsyncGenerator[Site]:
    port, api = free_port(), ReviewApi()
    certificate = certificate or ServingCertificate(None, ["operator"])
    server = MetricsServer(text, Scrapers(api.client(), patience=TIMEOUT), certificate, look=0.02)
    task = asyncio.ensure_future(server.serve((HOST, port)))
    await eventually("a certificate", lambda: certificate.context or task.done())
    yield Site(api, server, port)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.security
@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ([f"Bearer {GOOD}"], 200),
        ([f"bearer  {GOOD}"], 200),
        ([f"Bearer {OTHER}"], 403),
        ([f"Bearer {BAD}"], 401),
        ([], 401),
        (["Bearer"], 401),
        (["Bearer a b"], 401),
        ([GOOD], 401),
        ([f"Basic {GOOD}"], 401),
        ([f"Bearer {GOOD}", f"Bearer {GOOD}"], 401),
    ],
    ids=str,
)
async def test_metrics_are_for_those_who_may(authorization: list[str], status: int):
    async with serving() as site:
        answer = await site.get(*authorization)
        assert answer.status_code == status
        assert (answer.content == TEXT) == (status == 200)
        assert answer.headers.get("WWW-Authenticate") == ("Bearer" if status == 401 else None)
        # Without a token, nobody is asked.
        assert len(site.api.tokens) == (1 if status in (200, 403) or BAD in str(authorization) else 0)


@pytest.mark.security
async def test_an_api_server_that_is_down_is_said():
    async with serving() as site:
        site.api.down = True
        answer = await site.get(f"Bearer {GOOD}")
        assert (answer.status_code, TEXT in answer.content) == (503, False)


async def test_nothing_else_is_there():
    async with serving() as site:
        reader = f"Bearer {GOOD}"
        assert (await site.get(reader, path="/metrics?a=b")).status_code == 200
        assert (await site.get(reader, path="/metrics/")).status_code == 404
        assert (await site.get(reader, path="/healthz")).status_code == 404
        assert (await site.get(reader, method="POST")).status_code == 405


@pytest.mark.security
async def test_invalid_requests_get_no_metrics_and_stop_no_others():
    async with serving() as site:
        for plain, words in (
            (True, b"GET /metrics HTTP/1.1\r\n\r\n"),
            (True, b"\x16\x03\x01\x00\x00"),
            (False, b"nonsense\r\n\r\n"),
            (False, b"GET /metrics\r\n\r\n"),
            (False, b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer " + b"x" * (64 << 10) + b"\r\n\r\n"),
        ):
            reader, writer = await site.connect(plain=plain)
            writer.write(words)
            with contextlib.suppress(OSError):
                assert TEXT not in await reader.read()
            writer.transport.abort()
        assert (await site.get(f"Bearer {GOOD}")).status_code == 200


@pytest.mark.security
@pytest.mark.parametrize("plain", [True, False], ids=["no handshake", "no request"])
async def test_a_silent_client_is_dropped(monkeypatch: pytest.MonkeyPatch, plain: bool):
    monkeypatch.setattr(scraping, "_PATIENCE", 3.0)
    async with serving() as site:
        reader, writer = await site.connect(plain=plain)
        await eventually("the connection", site.connections)
        with contextlib.suppress(OSError):
            assert not await reader.read()
        await eventually("it to be dropped", lambda: not site.connections())
        writer.transport.abort()


@pytest.mark.security
async def test_a_client_that_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scraping, "_PATIENCE", 3.0)
    async with serving(lambda: b"x" * (16 << 20)) as site:
        reader, writer = await site.connect()
        writer.write(f"GET /metrics HTTP/1.1\r\nAuthorization: Bearer {GOOD}\r\n\r\n".encode())
        await reader.readexactly(4)
        await eventually("it to be dropped", lambda: not site.connections())
        writer.transport.abort()


@pytest.mark.security
async def test_an_address_has_few_connections_and_ends_its_own():
    async with serving() as site:
        silent = [await site.connect(plain=True) for _ in range(20)]
        await eventually("the last ones", lambda: site.connections() == 8)
        assert (await site.get(f"Bearer {GOOD}")).status_code == 200
        assert site.connections() <= 8
        # The oldest ones were ended.
        assert [await reader.read() for reader, _ in silent[:12]] == [b""] * 12
        for _, writer in silent:
            writer.transport.abort()


@pytest.mark.security
async def test_all_addresses_have_few_connections(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scraping, "_CONNECTIONS", 4)
    async with serving() as site:
        many = [await connect_from(f"127.0.0.{number}", site.port) for number in (2, 3, 3, 3)]
        await eventually("them all", lambda: site.connections() == 4)
        assert (await site.get(f"Bearer {GOOD}")).status_code == 200
        assert site.connections() <= 4
        # The address with most connections has lost its oldest one, and no other has.
        assert await many[1][0].read() == b""
        assert not many[0][0].at_eof()
        for _, writer in many:
            writer.transport.abort()


async def connect_from(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(HOST, port, local_addr=(address, 0))


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        (Ports(), []),
        (Ports(health=(HOST, 1), metrics=(HOST, 2)), ["Health.serve", "MetricsServer.serve"]),
        (Ports(health=(HOST, 1)), ["Health.serve"]),
        (Ports(metrics=(HOST, 2)), ["MetricsServer.serve"]),
        (Ports(health=(HOST, 1), metrics=(HOST, 2), insecure=True), ["Health.serve"]),
    ],
)
def test_metrics_are_at_one_port(ports: Ports, expected: list[str]):
    servers = serve(ports, ReviewApi().client(), lambda: True, lambda: TEXT)
    assert [getattr(server, "__qualname__", "") for server in servers] == expected
    for server in servers:
        server.close()


@pytest.mark.security
@pytest.mark.parametrize(("insecure", "status"), [(False, 404), (True, 200)])
async def test_the_port_for_health_has_metrics_only_where_that_is_said(insecure: bool, status: int):
    ports = Ports(health=(HOST, free_port()), insecure=insecure)
    (server,) = serve(ports, ReviewApi().client(), lambda: True, lambda: TEXT)
    task = asyncio.ensure_future(server)
    async with httpx.AsyncClient(trust_env=False, timeout=TIMEOUT) as client, asyncio.timeout(TIMEOUT):
        while True:
            with contextlib.suppress(httpx.ConnectError):
                assert ports.health
                answer = await client.get(f"http://{HOST}:{ports.health[1]}/metrics")
                break
            await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (answer.status_code, answer.content == TEXT) == (status, insecure)


def written(folder: Path, drawn: str) -> pki.Pair:
    """Another certificate, as cert-manager writes it."""
    signer = pki.authority(drawn, "test", datetime.now(UTC))
    wanted = pki.Request(common="metrics", names=frozenset({"metrics"}))
    pair = pki.issue(signer, wanted, drawn, datetime.now(UTC))
    (folder / "tls.crt").write_text(pair.cert)
    (folder / "tls.key").write_text(pair.key)
    return pair


async def shown(site: Site) -> x509.Certificate:
    """The certificate that a new connection sees."""
    _, writer = await site.connect()
    tls = writer.get_extra_info("ssl_object")
    writer.transport.abort()
    return x509.load_der_x509_certificate(tls.getpeercert(binary_form=True))


async def test_files_are_served_and_read_anew(tmp_path: Path):
    first = written(tmp_path, "first")
    async with serving(certificate=ServingCertificate(tmp_path, [])) as site:
        assert await shown(site) == x509.load_pem_x509_certificate(first.cert.encode())
        second = written(tmp_path, "second")
        async with asyncio.timeout(TIMEOUT):
            while await shown(site) != x509.load_pem_x509_certificate(second.cert.encode()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)


def test_files_that_are_wrong_leave_what_was_good(tmp_path: Path):
    certificate = ServingCertificate(tmp_path, [])
    certificate.refresh()
    assert certificate.context is None
    pair = written(tmp_path, "first")
    certificate.refresh()
    good = certificate.context
    assert good
    # The two may be read from either side of a change.
    for name, text in (("tls.key", pki.authority("x", "x", NOW).key), ("tls.crt", "nonsense"), ("tls.crt", "é")):
        (tmp_path / "tls.crt").write_text(pair.cert)
        (tmp_path / "tls.key").write_text(pair.key)
        (tmp_path / name).write_text(text)
        certificate.refresh()
        assert certificate.context is good


def test_a_certificate_of_its_own_is_renewed_before_it_ends():
    now = NOW
    certificate = ServingCertificate(None, ["operator"], lambda: now)
    certificate.refresh()
    first = certificate.context
    now += timedelta(days=59)
    certificate.refresh()
    assert certificate.context is first
    now += timedelta(days=2)
    certificate.refresh()
    assert certificate.context is not first
