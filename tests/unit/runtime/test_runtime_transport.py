"""Connections to the API server."""

from __future__ import annotations

import asyncio

import httpx2 as httpx

from openstack_operator.kubeconfig import Connection
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import SECRET
from openstack_operator.runtime.kubernetes.transport import INFORMER, Transport


async def test_the_api_server_hears_the_name_of_this_program() -> None:
    """It becomes the manager of fields that a request names none for, in place of the HTTP library's name."""
    headers: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := (await reader.readline()).decode().strip().lower():
            headers.append(line)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        client = Client.over(Connection(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        await client.get(SECRET, "openstack", "a")
        await client.close()
    [agent] = [line for line in headers if line.startswith("user-agent: ")]
    assert agent.startswith("user-agent: openstack-operator/")


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


async def test_the_same_path_with_other_parameters_is_another_request() -> None:
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode().split()[1])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        client = Client.over(Connection(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/cluster"))
        for _ in range(2):
            for lines in (1, 2):
                await client.log("openstack", "a b", "c&d", lines=lines)
            await client.get(SECRET, "openstack", "a")
        await client.close()
    log = "/cluster/api/v1/namespaces/openstack/pods/a%20b/log?container=c%26d&tailLines={}&previous=false"
    assert asked == 2 * [log.format(1), log.format(2), "/cluster/api/v1/namespaces/openstack/secrets/a"]
