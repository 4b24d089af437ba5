"""Asking members directly: those that answer, those that do not, and those that answer nonsense."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import httpx2 as httpx
import pytest

from openstack_operator.plan import MemberReports
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.reconcile import observers
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.testing import context
from tests.unit.faulty_api import FaultyApi


async def answering(text: bytes | None, others: asyncio.Barrier | None = None) -> tuple[asyncio.Server, str]:
    """A server and its URL; it says nothing where there is no text, and waits until the others are asked, too."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if others:
            await others.wait()
        if text is None:
            await reader.read()
        else:
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + text)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def test_members_are_asked_at_once_and_valid_answers_are_kept(
    client: Client, release: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observers, "ANSWER_TIMEOUT", 300)
    barrier = asyncio.Barrier(3)
    servers = [await answering(text, barrier) for text in (b'{"seqno": 7}', b"hello", b"[1]")]
    urls = dict(zip(("good", "text", "list"), (url for _, url in servers), strict=True))
    reports = MemberReports(lambda ctx: {**urls, "gone": "http://127.0.0.1:1/"})
    facts = await observers.Observer(client, {}).observe(reports, context(MARIADB, release=release))
    assert facts == {"good": {"seqno": 7}, "text": None, "list": None, "gone": None}
    for server, _ in servers:
        server.close()


async def test_a_silent_member_is_awaited_only_for_the_timeout(
    client: Client, release: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observers, "ANSWER_TIMEOUT", 0.2)
    server, url = await answering(None)
    reports = MemberReports(lambda ctx: {"silent": url})
    facts = await observers.Observer(client, {}).observe(reports, context(MARIADB, release=release))
    assert facts == {"silent": None}
    server.close()


@pytest.mark.security
@pytest.mark.parametrize(
    "text",
    [b'{"a": "' + b"x" * (8 << 20) + b'"}', b'{"a": ' + b"[" * 10000 + b"]" * 10000 + b"}"],
    ids=["large", "deep"],
)
async def test_a_report_takes_no_more_memory_than_it_may(
    client: Client, release: Any, monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    monkeypatch.setattr(observers, "ANSWER_TIMEOUT", 300)
    server, url = await answering(text)
    reports = MemberReports(lambda ctx: {"hostile": url})
    facts = await observers.Observer(client, {}).observe(reports, context(MARIADB, release=release))
    assert facts == {"hostile": None}
    server.close()


async def test_a_client_that_ends_leaves_no_connection(api: FaultyApi) -> None:
    client = Client(httpx.AsyncClient(base_url=api.url, trust_env=False))
    members = client.members
    await client.close()
    assert members.is_closed


def test_loading_the_registry_opens_no_connection() -> None:
    """What is made at import is closed by nobody."""
    import_all = "import httpx2, openstack_operator.registry, gc; "
    clients = "print([o for o in gc.get_objects() if isinstance(o, (httpx2.Client, httpx2.AsyncClient))])"
    found = subprocess.run([sys.executable, "-c", import_all + clients], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
