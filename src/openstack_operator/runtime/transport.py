"""Connections to the API server: those of informers apart from all others."""

from __future__ import annotations

import ssl
from typing import Any

import httpx2 as httpx

INFORMER: dict[str, Any] = {"informer": True}
"""Extension of the requests that fill a store."""


class Transport(httpx.AsyncBaseTransport):
    """Two pools of connections: one for informers, and one for all other requests. A pool looks at each of its
    connections for each request, and informers keep a hundred busy.
    """

    def __init__(self, *, verify: ssl.SSLContext | str | bool) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=60)
        self._informers, self._others = (
            httpx.AsyncHTTPTransport(verify=verify, trust_env=False, limits=limits) for _ in range(2)
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request over a connection of its pool."""
        pool = self._informers if "informer" in request.extensions else self._others
        return await pool.handle_async_request(request)

    async def aclose(self) -> None:
        """End all connections."""
        await self._informers.aclose()
        await self._others.aclose()
