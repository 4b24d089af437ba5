"""One question tells which kinds the API serves, and what comes and goes is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from openstack_operator.registry import EXTERNAL_KINDS
from openstack_operator.runtime.cache.informer import Informer
from openstack_operator.runtime.cache.store import Store
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.discovery import Discovery
from openstack_operator.runtime.kubernetes.kinds import Kind
from tests.unit.faulty_api import Answer, FaultyApi
from tests.unit.polling import eventually

CERTIFICATE = next(kind for kind in EXTERNAL_KINDS if kind.kind == "Certificate")
EXTERNAL, EXTERNAL_OLD = (kind for kind in EXTERNAL_KINDS if kind.kind == "ExternalSecret")
FORBIDDEN: Answer = (403, {"message": 'forbidden: User "operator" cannot get path "/apis"'}, {})


def whole(*kinds: Kind, freshness: str = "Current") -> Answer:
    items = [
        {
            "metadata": {"name": kind.group},
            "versions": [{"version": kind.version, "freshness": freshness, "resources": [{"resource": kind.plural}]}],
        }
        for kind in kinds
    ]
    return 200, {"kind": "APIGroupDiscoveryList", "items": items}, {"ETag": f'"{len(kinds)}"'}


def groups(*kinds: Kind) -> Answer:
    return 200, {"groups": [{"name": kind.group, "versions": [{"version": kind.version}]} for kind in kinds]}, {}


class Watched:
    """An informer of one of these kinds, at work."""

    def __init__(self, client: Client, discovery: Discovery, kind: Kind) -> None:
        self.turns = 0
        self.store = Store(kind, lambda change: None)
        self.informer = Informer(client, self.store, discovery=discovery, on_kinds_changed=self._turned)

    def _turned(self) -> None:
        self.turns += 1

    async def wait_until(self, *, served: bool) -> None:
        state = f"{self.store.kind.kind} to be {'' if served else 'not '}served"
        await eventually(state, lambda: self.informer.synced.is_set() and self.informer.is_served is served)


@asynccontextmanager
async def watched(client: Client, *kinds: Kind) -> AsyncGenerator[list[Watched]]:
    discovery = Discovery(client, EXTERNAL_KINDS, period=0.05)
    informers = [Watched(client, discovery, kind) for kind in kinds]
    tasks = [asyncio.ensure_future(each.run()) for each in (discovery, *(each.informer for each in informers))]
    yield informers
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def lists(api: FaultyApi) -> list[str]:
    return [request for request in api.requests if "/apis?" not in request and not request.endswith("/apis")]


async def test_absent_kinds_are_not_listed(api: FaultyApi, client: Client):
    api.groups = whole()
    async with watched(client, *EXTERNAL_KINDS) as informers:
        for each in informers:
            await each.wait_until(served=False)
        # It is asked again and again.
        await api.asked(3)
    assert lists(api) == []


@pytest.mark.parametrize("answer", [whole, groups])
async def test_a_kind_that_comes_and_goes(api: FaultyApi, client: Client, answer: Any):
    api.groups = answer()
    async with watched(client, CERTIFICATE) as (certificates,):
        await certificates.wait_until(served=False)
        api.put("a")
        api.groups = answer(CERTIFICATE)
        await certificates.wait_until(served=True)
        assert (len(certificates.store), certificates.turns) == (1, 1)
        api.groups = answer()
        await certificates.wait_until(served=False)
        assert (len(certificates.store), certificates.turns) == (0, 2)


async def test_an_answer_that_did_not_change_is_not_sent_again(api: FaultyApi, client: Client):
    api.groups = whole(CERTIFICATE)
    content, etag = await client.discover()
    assert content
    assert await client.discover(etag) == (None, etag)


async def test_of_two_versions_the_newer_one_is_watched(api: FaultyApi, client: Client):
    api.groups = whole(EXTERNAL_OLD)
    async with watched(client, EXTERNAL, EXTERNAL_OLD) as (new, old):
        await old.wait_until(served=True)
        assert not new.informer.is_served
        api.groups = whole(EXTERNAL_OLD, EXTERNAL)
        await new.wait_until(served=True)
        await old.wait_until(served=False)


async def test_a_server_that_is_away_takes_nothing_away(api: FaultyApi, client: Client):
    api.groups = whole(CERTIFICATE)
    async with watched(client, CERTIFICATE) as (certificates,):
        await certificates.wait_until(served=True)
        for answer in (whole(CERTIFICATE, freshness="Stale"), (503, {"message": "down"}, {})):
            api.groups = answer
            # The first may have been on its way, and the last is not answered yet.
            await api.asked(3)
            assert certificates.informer.is_served
        assert certificates.turns == 0


async def test_a_forbidden_discovery_does_not_use_an_earlier_answer(api: FaultyApi, client: Client):
    api.groups = whole(CERTIFICATE)
    async with watched(client, EXTERNAL) as (secrets,):
        await secrets.wait_until(served=False)
        api.groups = FORBIDDEN
        await secrets.wait_until(served=True)
        api.groups = whole(CERTIFICATE)
        await secrets.wait_until(served=False)


async def test_kinds_are_asked_one_by_one_if_discovery_is_forbidden(api: FaultyApi, client: Client):
    api.groups = FORBIDDEN
    async with watched(client, CERTIFICATE) as (certificates,):
        await certificates.wait_until(served=True)
    api.answers += [FORBIDDEN, (404, {"message": "page not found"}, {})]
    async with watched(client, CERTIFICATE) as (certificates,):
        await certificates.wait_until(served=False)


async def test_a_forbidden_kind_is_not_waited_for(api: FaultyApi, client: Client):
    api.groups, api.forbidden = whole(CERTIFICATE), True
    api.put("a")
    async with watched(client, CERTIFICATE) as (certificates,):
        await certificates.wait_until(served=False)
        assert certificates.informer.is_forbidden
        # The right comes, and nobody starts the operator anew.
        api.forbidden = False
        await certificates.wait_until(served=True)
        assert (certificates.informer.is_forbidden, len(certificates.store), certificates.turns) == (False, 1, 1)


async def test_objects_stay_when_the_right_to_read_them_goes(api: FaultyApi, client: Client):
    api.groups = whole(CERTIFICATE)
    api.put("a")
    async with watched(client, CERTIFICATE) as (certificates,):
        await certificates.wait_until(served=True)
        api.forbidden = True
        api.cut()
        await certificates.wait_until(served=False)
        assert (certificates.informer.is_forbidden, len(certificates.store)) == (True, 1)
        api.groups = whole()
        await eventually("the kind to go", lambda: not certificates.store)
        assert not certificates.informer.is_forbidden
