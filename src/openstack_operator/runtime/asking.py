"""Direct questions to the members of a cluster: their answers are newer than what Kubernetes knows of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import httpx2 as httpx

from ..plan import Context
from .registry import Observer

if TYPE_CHECKING:
    from .client import Client

Questions = Callable[[Context[Any]], Mapping[str, str]]
"""The URLs to ask, by the name of the member that answers; pure."""

TIMEOUT = 1.0
"""Seconds; a pass waits that long at most, however many do not answer."""


def member_probe(questions: Questions) -> Observer:
    """Return an observer whose facts are the JSON objects that members answered, by name; None where one did not."""

    async def observe(client: Client, ctx: Context[Any]) -> Mapping[str, Any]:
        urls = questions(ctx)
        answers = await asyncio.gather(*(_ask(client.members, url) for url in urls.values()))
        return dict(zip(urls, answers, strict=True))

    return observe


async def _ask(http: httpx.AsyncClient, url: str) -> Any:
    try:
        async with asyncio.timeout(TIMEOUT):
            response = await http.get(url, timeout=TIMEOUT)
            answer = response.json() if response.status_code == 200 else None
    except (httpx.HTTPError, TimeoutError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None
