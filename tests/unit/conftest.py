"""What tests of the runtime share: an API server of the worst kind, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2 as httpx
import pytest

from openstack_operator.runtime.kubernetes.client import Client
from tests.unit.faulty_api import FaultyApi


@pytest.fixture
async def api() -> AsyncIterator[FaultyApi]:
    """An API server that answers as it is told."""
    async with FaultyApi() as api:
        yield api


@pytest.fixture
async def client(api: FaultyApi) -> AsyncIterator[Client]:
    """Connected to `api`."""
    client = Client(httpx.AsyncClient(base_url=api.url, trust_env=False, timeout=300))
    yield client
    await client.close()
