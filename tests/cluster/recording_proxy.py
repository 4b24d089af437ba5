"""An API server seen through a window: everything a client sends it is noted."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2 as httpx
import yaml

from openstack_operator.kubeconfig import connection
from openstack_operator.runtime.kubernetes.transport import Transport

ORDER = itertools.count()


class RecordedRequest(NamedTuple):
    """A request that has come in whole."""

    number: int
    """Of all requests that came through any window, in the order in which they came."""
    begun: int
    """The same of its head."""
    method: str
    path: str

    @property
    def write(self) -> bool:
        """Whether it may change anything but the lease."""
        return self.method != "GET" and "/leases" not in self.path


class RecordingProxy:
    """Plain HTTP on loopback before a real API server."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.sent: list[RecordedRequest] = []
        self._http = http

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
                method, path, _ = first.split(" ")
                begun = next(ORDER)
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.sent.append(RecordedRequest(next(ORDER), begun, method, path))
                kept = {name: value for name, value in headers.items() if name in ("accept", "content-type")}
                async with self._http.stream(method, path, content=body, headers=kept) as answer:
                    await self._answer(answer, writer)
        except (OSError, EOFError, httpx.HTTPError):
            pass
        finally:
            writer.close()

    async def _answer(self, answer: httpx.Response, writer: asyncio.StreamWriter) -> None:
        head = (
            f"HTTP/1.1 {answer.status_code} X\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        writer.write(head.encode())
        async for chunk in answer.aiter_bytes():
            writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()


@asynccontextmanager
async def recording_proxy(kubeconfig: Path, directory: Path) -> AsyncGenerator[tuple[RecordingProxy, Path]]:
    """A window and the kubeconfig of those who look through it."""
    way = connection(files=[kubeconfig])
    async with httpx.AsyncClient(
        base_url=way.server, transport=Transport(way), headers=dict(way.headers), timeout=None, trust_env=False
    ) as http:
        seen = RecordingProxy(http)
        server = await asyncio.start_server(seen.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        path = directory / f"window-{port}.kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "window", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "window", "user": {}}],
            "contexts": [{"name": "window", "context": {"cluster": "window", "user": "window"}}],
            "current-context": "window",
        }
        path.write_text(yaml.safe_dump(content))
        try:
            yield seen, path
        finally:
            server.close()
