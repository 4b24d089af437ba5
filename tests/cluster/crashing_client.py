"""An operator that dies right after its n-th write: the cluster has it, the process never learns."""

from __future__ import annotations

import asyncio

import httpx2 as httpx

from openstack_operator.kubeconfig import connection
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.transport import Transport

from .harness import TIMEOUT


class CrashingTransport(httpx.AsyncBaseTransport):
    """Lets so many writes through; the answer to the last, and every later write, is kept back for ever.

    No optional kind is discovered, as where the operator alone is installed: each would cost each of hundreds of lives
    a list and a connection.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport, writes: int) -> None:
        self.dead = asyncio.Event()
        """Set once the last write is in the cluster."""
        self.made: list[str] = []
        self._inner = inner
        self._left = writes

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/apis":
            return httpx.Response(200, json={"kind": "APIGroupDiscoveryList", "items": []}, request=request)
        if request.method == "GET":
            return await self._inner.handle_async_request(request)
        self._left -= 1
        if self._left < 0:
            await asyncio.Event().wait()
        last = self._left == 0
        response = await self._inner.handle_async_request(request)
        self.made.append(f"{request.method} {request.url.path} {response.status_code}")
        if last:
            await response.aread()
            self.dead.set()
            await asyncio.Event().wait()
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def crashing_client(writes: int) -> tuple[Client, CrashingTransport]:
    """A connection to the tests' API server that ends after so many writes."""
    way = connection()
    transport = CrashingTransport(Transport(way), writes)
    http = httpx.AsyncClient(
        base_url=way.server, headers=dict(way.headers), transport=transport, timeout=TIMEOUT, trust_env=False
    )
    return Client(http), transport
