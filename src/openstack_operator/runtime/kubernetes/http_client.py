"""Requests to an API server: counted, fenced, and made again where that is safe."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Self

import httpx2 as httpx

from ... import __version__
from ...kube import MANAGED_BY
from ...kubeconfig import Connection, connection
from ...plan import Transient
from .. import metrics
from ..clock import now
from .bodies import encode_body
from .errors import error_of, retry_after
from .history import History
from .sent_writes import SentWrites
from .transport import Transport

PATIENCE = 3
"""Times a request is made again when the server is overloaded and says how long to wait."""
_LONGEST_WAIT = 5.0
_LONGEST_ANSWER = 60.0
"""Seconds after which the server itself ends a request (`--request-timeout`)."""
_MOST_LATE = 1_000
"""Requests that are remembered as late."""
_MOST_ADDRESSES = 1_000
"""Addresses that are remembered, each of about 2 KB."""
NOT_MODIFIED = 304


class _AsyncClient(httpx.AsyncClient):
    """The client of the HTTP library, which otherwise reads each address three times, sign by sign."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._addresses: dict[tuple[str, ...], httpx.URL] = {}
        """Addresses by path and parameters."""

    async def request(self, method: str, url: httpx.URL | str, *, params: Any = None, **options: Any) -> httpx.Response:
        """Send a request to a path, with parameters that are texts, and return the answer."""
        parameters: Mapping[str, str] = params or {}
        key = str(url), *(text for pair in parameters.items() for text in pair)
        if key not in self._addresses:
            if len(self._addresses) >= _MOST_ADDRESSES:
                self._addresses.clear()
            self._addresses[key] = self.build_request("GET", url, params=params).url
        return await super().request(method, self._addresses[key], **options)


class HttpClient:
    """A connection to one API server, and another to members of clusters; it knows nothing of kinds and verbs."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.namespace = ""
        """Namespace of the kubeconfig's context; empty if it names none."""
        self.writes = 0
        """Requests made that may change something."""
        self.history = History()
        """Versions of the objects in its answers; clients of the same server may share it."""
        self.sent_writes = SentWrites()
        self._read_timeouts: dict[str, float] = {}
        """Seconds to wait for the answer to a request that was late the last time, by its method and path."""
        self.fence: Callable[[], None] = lambda: None
        """Check at the very moment a write is sent; raises where this process may not act. Not for the lease itself."""

    @classmethod
    def connect(cls, context: str | None = None) -> Self:
        """Connect to the cluster of a context of the kubeconfig; without one to that of its current context, then to
        the one this pod runs in. Raises KubeconfigError.
        """
        return cls.over(connection(context))

    @classmethod
    def over(cls, connection: Connection, *, timeout: float = 10) -> Self:
        """Connect to a server; `timeout` is in seconds."""
        plain = [] if connection.is_compressed else [("Accept-Encoding", "identity")]
        # The API server names the writer of a field, and of an audit event, by it.
        program = [("User-Agent", f"{MANAGED_BY}/{__version__}")]
        headers = [(name.encode(), value.encode()) for name, value in [*program, *connection.headers, *plain]]
        client = cls(
            _AsyncClient(
                base_url=connection.server,
                headers=headers,
                timeout=timeout,
                trust_env=False,
                transport=Transport(connection),
            )
        )
        client.namespace = connection.namespace
        return client

    async def close(self) -> None:
        """End all connections."""
        await self._http.aclose()
        if "members" in self.__dict__:
            await self.members.aclose()

    @cached_property
    def members(self) -> httpx.AsyncClient:
        """The client for questions to members of clusters. They change, and with them their addresses: it keeps no
        connection, and a proxy of the environment is meant for the world outside.
        """
        return httpx.AsyncClient(trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))

    async def _request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **options: Any
    ) -> bytes:
        sent = self.history.moment()
        content = (await self._send(method, path, body, content_type, **options)).content
        self.history.note(content, sent)
        return content

    async def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        fenced: bool = True,
    ) -> httpx.Response:
        extensions = None
        if method != "GET":
            self.writes += 1
            extensions = {"trace": self._before_sending} if fenced else None
        content = None if body is None else encode_body(body, content_type)
        headers = {**(headers or {}), "Content-Type": content_type} if content else headers
        request = f"{method} {path}"
        for attempt in range(PATIENCE):
            try:
                with metrics.REQUEST_SECONDS.labels(method).time():
                    sending = self._http.request(
                        method,
                        path,
                        params=params,
                        content=content,
                        headers=headers,
                        extensions=extensions,
                        timeout=self._timeout(request),
                    )
                    response = await (self.sent_writes.finish(sending) if extensions else sending)
                self._read_timeouts.pop(request, None)
            except httpx.TransportError as error:
                metrics.REQUESTS.labels("<error>", method).inc()
                if fenced and isinstance(error, httpx.ReadTimeout):
                    self._wait_longer(request)
                # A kept connection may have been closed at the other end; all but a create may be sent twice.
                if isinstance(error, (httpx.ReadError, httpx.RemoteProtocolError)) and not attempt and method != "POST":
                    continue
                raise Transient(f"{request}: {type(error).__name__} {error}") from error
            metrics.REQUESTS.labels(str(response.status_code), method).inc()
            if response.status_code < 300 or response.status_code == NOT_MODIFIED:
                return response
            await self._wait_or_raise(response, response.content, request, attempt)
        raise Transient(f"{request}: the connection was closed twice")

    def _timeout(self, request: str) -> httpx.Timeout:
        usual = self._http.timeout
        read = self._read_timeouts.get(request, usual.read)
        return httpx.Timeout(connect=usual.connect, write=usual.write, pool=usual.pool, read=read)

    def _wait_longer(self, request: str) -> None:
        """Wait twice as long for the next answer to a request. A busy server goes on with a request whose client has
        gone, so that requests that are repeated too early keep it busy.
        """
        if len(self._read_timeouts) >= _MOST_LATE:
            self._read_timeouts.clear()
        self._read_timeouts[request] = min(2 * (self._timeout(request).read or 0), _LONGEST_ANSWER)

    async def _wait_or_raise(self, response: httpx.Response, content: bytes, request: str, attempt: int) -> None:
        """Raise what an answer means; where a server is overloaded and says how long, wait instead."""
        wait = retry_after(response.headers.get("Retry-After", ""), now())
        if response.status_code != 429 or wait > _LONGEST_WAIT or attempt + 1 == PATIENCE:
            raise error_of(response.status_code, content, request)
        await asyncio.sleep(wait)

    async def _before_sending(self, event: str, _: Mapping[str, Any]) -> None:
        """Check the fence. Not earlier, since a process may be frozen while it waits for a connection. Without its
        body, which is sent last, no request is complete.
        """
        if event.endswith((".send_request_headers.started", ".send_request_body.started")):
            self.fence()
