"""What the kubelet is told, and Prometheus where metrics are open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator

import httpx2 as httpx
import pytest
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from openstack_operator.runtime import metrics
from openstack_operator.runtime.process import any_of
from openstack_operator.runtime.serve import health
from openstack_operator.runtime.serve.health import Health
from tests.unit.polling import TIMEOUT, eventually
from tools.localcluster.ports import free_port


async def listening(client: httpx.AsyncClient) -> None:
    """Returns once somebody answers."""
    async with asyncio.timeout(300):
        while True:
            with contextlib.suppress(httpx.ConnectError):
                await client.get("/other")
                return
            await asyncio.sleep(0.01)


async def test_health():
    port = free_port()
    ready = False
    task = asyncio.ensure_future(Health(lambda: ready, metrics.exposition()).serve(("127.0.0.1", port)))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=300) as client:
        await listening(client)
        assert (await client.get("/readyz")).status_code == 503
        ready = True
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.get("/healthz")).text == "ok\n"
        assert "controller_runtime_reconcile_time_seconds" in (await client.get("/metrics")).text
        assert (await client.get("/other")).status_code == 404
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"nonsense\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        assert (await client.get("/healthz")).status_code == 200
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.security
async def test_metrics_are_not_where_the_kubelet_asks():
    async with serving(Health(lambda: True)) as (_, client):
        answer = await client.get("/metrics")
        assert (answer.status_code, "reconcile" in answer.text) == (404, False)
        assert (await client.get("/healthz")).status_code == 200


class Large:
    """More than fits between a server and a client that does not read."""

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("large", "x" * (8 << 20), 1)


@contextlib.asynccontextmanager
async def serving(answers: Health) -> AsyncGenerator[tuple[int, httpx.AsyncClient]]:
    """Its port, and a client of it."""
    port = free_port()
    task = asyncio.ensure_future(answers.serve(("127.0.0.1", port)))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=300) as client:
        await listening(client)
        yield port, client
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def mute(port: int) -> asyncio.StreamWriter:
    """A client that asks for metrics, and reads nothing but the begin of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    await reader.readexactly(4)
    return writer


@pytest.mark.security
async def test_endless_connections_of_pods_keep_no_probe_waiting(
    monkeypatch: pytest.MonkeyPatch,
):
    """Each connection takes memory of the operator, and each byte of a request that does not end."""
    monkeypatch.setattr(health, "_PATIENCE", TIMEOUT)
    answers = Health(lambda: True)
    async with serving(answers) as (port, client):
        writers: list[asyncio.StreamWriter] = []
        for number in range(300):
            source = f"127.0.{number % 30 + 1}.1"
            _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
            writer.write(b"GET /healthz HTTP/1.1\r\n")
            writers.append(writer)
            if number % 50 == 49:
                assert (await client.get("/healthz")).status_code == 200
            served = [task for task in asyncio.all_tasks() if "_serve_connection" in repr(task)]
            assert sum(not task.cancelling() for task in served) <= 64
        assert (await client.get("/readyz")).status_code == 200
        for each in writers:
            each.transport.abort()


@pytest.mark.security
@pytest.mark.parametrize(
    "request_text",
    [
        b"GET /healthz HTTP/1.1\r\nX: " + b"y" * 4096,
        b"GET /" + b"y" * 8192,
        b"nonsense\r\n\r\n",
        b"\r\n\r\n",
        b"GET\r\n\r\n",
    ],
    ids=["header", "request line", "no request", "empty", "short"],
)
async def test_a_request_has_a_bound(monkeypatch: pytest.MonkeyPatch, request_text: bytes):
    monkeypatch.setattr(health, "_PATIENCE", TIMEOUT)
    async with serving(Health(lambda: True)) as (port, client):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_text)
        with contextlib.suppress(OSError):
            assert await reader.read() == b""
        writer.transport.abort()
        assert (await client.get("/healthz")).status_code == 200


async def test_clients_that_do_not_read_keep_no_probe_waiting(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(health, "_PATIENCE", TIMEOUT)
    async with serving(Health(lambda: True, metrics.exposition(Large()))) as (port, client):
        clients = [await mute(port) for _ in range(6)]
        assert (await client.get("/metrics")).status_code == 503
        assert (await client.get("/healthz")).status_code == 200
        for each in clients:
            each.transport.abort()


async def test_a_client_that_does_not_read_metrics_is_dropped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(health, "_PATIENCE", 3.0)
    answers = Health(lambda: True, metrics.exposition(Large()))
    async with serving(answers) as (port, _):
        client = await mute(port)
        await eventually("it to be dropped", lambda: not answers._scrapes)  # pyright: ignore[reportPrivateUsage]
        client.transport.abort()


async def test_the_first_part_that_ends_ends_the_others():
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("other")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise LookupError("x")

    try:
        await any_of(forever(), fails())
    except LookupError:
        ended.append("raised")
    assert ended == ["other", "raised"]
