"""What the kubelet and Prometheus are told."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import httpx2 as httpx

from openstack_operator.runtime.health import Health
from openstack_operator.runtime.process import any_of


async def listening(client: httpx.AsyncClient) -> None:
    """Returns once somebody answers."""
    async with asyncio.timeout(300):
        while True:
            with contextlib.suppress(httpx.ConnectError):
                await client.get("/other")
                return
            await asyncio.sleep(0.01)


async def test_health():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ready = False
    task = asyncio.ensure_future(Health(lambda: ready).serve(("127.0.0.1", port)))
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
