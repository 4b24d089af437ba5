"""Connections to the API server: those of informers apart from all others, with the login of a kubeconfig."""

from __future__ import annotations

import ssl
from typing import Any

import httpcore2
import httpx2 as httpx

from ...kubeconfig import Connection, KubeconfigError, Login
from .network import Backend

INFORMER: dict[str, Any] = {"informer": True}
"""Extension of the requests that fill a store."""
_UNAUTHORIZED = 401


_IDLE_CONNECTIONS, _IDLE_SECONDS = 32, 60.0
"""Connections that are kept while unused, and how long."""


class _Pool(httpx.AsyncHTTPTransport):
    """Connections to a server without a proxy."""

    def __init__(self, trust: ssl.SSLContext) -> None:
        super().__init__(verify=trust, trust_env=False)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=trust,
            max_connections=None,
            max_keepalive_connections=_IDLE_CONNECTIONS,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=Backend(),
        )


class Transport(httpx.AsyncBaseTransport):
    """Two pools of connections: one for informers, and one for all other requests. A pool looks at each of its
    connections for each request, and informers keep a hundred busy.
    """

    def __init__(self, connection: Connection) -> None:
        """Take the way to a server. Raises KubeconfigError for certificates that are none."""
        self._connection = connection
        self._certificate = ""
        self._pools = self._new_pools()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request over a connection of its pool, as the user of the kubeconfig."""
        if self._connection.server_name:
            request.extensions["sni_hostname"] = self._connection.server_name
        credentials = self._connection.credentials
        if credentials is None:
            return await self._send(request, Login())
        login = await credentials.login()
        response = await self._send(request, login)
        if response.status_code != _UNAUTHORIZED:
            return response
        renewed = await credentials.renewed(login)
        if renewed == login:
            return response
        await response.aclose()
        return await self._send(request, renewed)

    async def aclose(self) -> None:
        """End all connections."""
        for each in self._pools:
            await each.aclose()

    async def _send(self, request: httpx.Request, login: Login) -> httpx.Response:
        if login.certificate != self._certificate:
            # Connections that are open belong to the user of the certificate before.
            self._certificate, before = login.certificate, self._pools
            self._pools = self._new_pools()
            for each in before:
                await each.aclose()
        if login.token:
            request.headers["Authorization"] = f"Bearer {login.token}"
        informer_pool, default_pool = self._pools
        return await (informer_pool if "informer" in request.extensions else default_pool).handle_async_request(request)

    def _new_pools(self) -> list[httpx.AsyncHTTPTransport]:
        trust = self._connection.trust(self._certificate)
        if not self._connection.proxy:
            return [_Pool(trust) for _ in range(2)]
        limits = httpx.Limits(
            max_connections=None, max_keepalive_connections=_IDLE_CONNECTIONS, keepalive_expiry=_IDLE_SECONDS
        )
        try:
            proxy = _proxy(self._connection.proxy)
            return [
                httpx.AsyncHTTPTransport(verify=trust, trust_env=False, limits=limits, proxy=proxy) for _ in range(2)
            ]
        except ImportError:
            text = "kubeconfig: proxy-url: socks5 needs the extra `cli`, as docs/reference/cli.md says"
            raise KubeconfigError(text) from None


def _proxy(url: str) -> httpx.Proxy | None:
    if not url:
        return None
    try:
        return httpx.Proxy(url, ssl_context=ssl.create_default_context() if url.startswith("https:") else None)
    except (httpx.InvalidURL, ValueError):
        raise KubeconfigError("kubeconfig: proxy-url: is not a URL") from None
