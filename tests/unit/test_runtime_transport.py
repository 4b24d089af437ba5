"""Connections to the API server."""

from __future__ import annotations

import asyncio

import httpx2 as httpx

from openstack_operator.kubeconfig import Connection
from openstack_operator.runtime.transport import INFORMER, Transport


async def test_informers_share_no_connection_with_other_requests() -> None:
    served: list[list[str]] = []
    ended = asyncio.Semaphore(0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        paths: list[str] = []
        served.append(paths)
        while request := await reader.readline():
            paths.append(request.split()[1].decode())
            while (await reader.readline()).strip():
                pass
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()
        await writer.wait_closed()
        ended.release()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with (
        server,
        httpx.AsyncClient(base_url=url, trust_env=False, transport=Transport(Connection(server=url))) as http,
    ):
        for path, extensions in (("/list", INFORMER), ("/get", {}), ("/watch", INFORMER), ("/apply", {})):
            assert (await http.get(path, extensions=extensions)).text == "{}"
    for _ in served:
        await ended.acquire()
    assert served == [["/list", "/watch"], ["/get", "/apply"]]
