"""Asking members directly: those that answer, those that do not, and those that answer nonsense."""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast

import pytest

from openstack_operator.runtime import asking
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.testing import context


async def answering(text: bytes | None) -> tuple[asyncio.Server, str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if text is None:
            await reader.read()
        else:
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + text)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def test_whoever_answers_is_heard_and_nobody_is_waited_for_long(
    release: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "TIMEOUT", 0.2)
    servers = [await answering(text) for text in (b'{"seqno": 7}', b"hello", b"[1]", None)]
    urls = dict(zip(("good", "text", "list", "silent"), (url for _, url in servers), strict=True))
    observe = asking.asking(lambda ctx: {**urls, "gone": "http://127.0.0.1:1/"})
    started = time.monotonic()
    facts = await observe(cast("Any", None), context(MARIADB, release=release))
    assert facts == {"good": {"seqno": 7}, "text": None, "list": None, "silent": None, "gone": None}
    assert time.monotonic() - started < 1
    for server, _ in servers:
        server.close()
