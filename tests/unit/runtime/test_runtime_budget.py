"""What one namespace may take of the operator's memory, and who goes without where that is too much."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from openstack_operator.kube import INSTANCE, IRREPLACEABLE, KIND
from openstack_operator.runtime.cache.budget import BYTES, Budget, Listing, size
from openstack_operator.runtime.cache.entries import Cached, Change, cached
from openstack_operator.runtime.cache.store import Store
from openstack_operator.runtime.kubernetes.kinds import CHILDREN, SECRET, Kind
from tests.unit.polling import TIMEOUT

CONFIG_MAP = next(kind for kind in CHILDREN if kind.kind == "ConfigMap")
OURS = {KIND: "keystone", INSTANCE: "keystone"}
_MEBIBYTE = 1 << 20


def made(
    name: str, namespace: str = "x", *, at: int = 0, version: int = 1, kilobytes: int = 1, **labels: str
) -> Cached:
    meta = {
        "name": name,
        "namespace": namespace,
        "uid": name,
        "resourceVersion": str(version),
        "creationTimestamp": f"2026-01-01T00:00:{at:02}Z",
        "labels": {{"kind": KIND, "instance": INSTANCE}[key]: value for key, value in labels.items()},
    }
    return cached(json.dumps({"metadata": meta, "data": {"a": "x" * (kilobytes << 10)}}).encode(), CONFIG_MAP)


OWN: dict[str, Any] = {"kind": "keystone", "instance": "keystone"}


class Stores:
    """Two stores with a budget in which one resource is known, a Keystone in the namespace x."""

    def __init__(self, kilobytes: int, objects: int = 1000) -> None:
        self.changes: list[Change] = []
        self.budget = Budget(self._is_ours, limit=kilobytes << 10, objects=objects)
        self.maps, self.secrets = (Store(kind, self.changes.append, self.budget) for kind in (CONFIG_MAP, SECRET))

    @staticmethod
    def _is_ours(_: Kind, meta: Any) -> bool:
        return meta.owner_labels == ("x", "keystone", "keystone")

    def names(self) -> set[str]:
        return {item.meta.name for store in (self.maps, self.secrets) for item in store}


def test_the_newest_of_nobody_goes_first() -> None:
    stores = Stores(110)
    stores.maps.put(made("old", at=1, kilobytes=30))
    stores.secrets.put(made("ours", at=2, kilobytes=30, **OWN))
    stores.maps.put(made("new", at=3, kilobytes=30))
    assert stores.names() == {"old", "ours", "new"}
    # What belongs to a resource comes in, the newest of all as it is.
    stores.secrets.put(made("ours-too", at=4, kilobytes=30, **OWN))
    assert stores.names() == {"old", "ours", "ours-too"}
    stores.maps.put(made("newest", at=5, kilobytes=30))
    assert stores.names() == {"old", "ours", "ours-too"}
    # Another namespace has what it had.
    stores.maps.put(made("old", "y", kilobytes=90))
    assert len(stores.maps) == 2


def test_a_resource_whose_objects_are_not_kept_is_known() -> None:
    stores = Stores(100)
    stores.maps.put(made("first", at=1, kilobytes=80, **OWN))
    assert not stores.budget.refused_kinds(("x", "keystone", "keystone"))
    stores.maps.put(made("second", at=2, kilobytes=80, **OWN))
    assert stores.budget.refused_kinds(("x", "keystone", "keystone")) == [CONFIG_MAP]
    assert stores.budget.lacks(CONFIG_MAP, "x")
    assert not stores.budget.refused_kinds(("x", "glance", "glance"))
    assert not stores.budget.lacks(SECRET, "x")
    # A list without it says that it is gone.
    listing = Listing(stores.budget, stores.maps, None)
    there = [item for item in stores.maps if listing.keeps(item)]
    # Of another store of the same kind nothing is known by that.
    Listing(stores.budget, Store(CONFIG_MAP, stores.changes.append, stores.budget), None).complete()
    # Until it is complete, nobody plans by it.
    assert stores.budget.refused_kinds(("x", "keystone", "keystone"))
    listing.complete()
    stores.maps.replace(None, there, "2")
    assert not stores.budget.refused_kinds(("x", "keystone", "keystone"))


def test_an_object_that_grows_over_the_budget_is_dropped() -> None:
    stores = Stores(100)
    stores.maps.put(made("ours", at=1, kilobytes=50, **OWN))
    stores.maps.put(made("ours", at=1, version=2, kilobytes=120, **OWN))
    assert stores.names() == set()
    assert stores.budget.refused_kinds(("x", "keystone", "keystone"))
    stores.maps.put(made("ours", at=1, version=3, kilobytes=50, **OWN))
    assert stores.names() == {"ours"}


def test_small_objects_are_counted() -> None:
    stores = Stores(10_000, objects=10)
    for number in range(40):
        stores.maps.put(made(f"a-{number}", at=number))
    assert 9 <= len(stores.maps) <= 10
    stores.secrets.put(made("ours", at=50, **OWN))
    assert "ours" in stores.names()


def test_removed_objects_free_budget() -> None:
    stores = Stores(100)
    for number in range(50):
        stores.maps.put(made("same", at=1, version=2 * number + 1, kilobytes=60))
        stores.maps.remove(made("same", version=2 * number + 2))
    stores.maps.put(made("other", kilobytes=60))
    assert stores.names() == {"other"}


@pytest.mark.security
def test_removed_secrets_are_remembered_up_to_a_share() -> None:
    """Who creates and deletes Secrets again and again takes no memory by it."""
    stores = Stores(100)
    for number in range(50):
        item = made(f"a-{number}", at=1, version=2 * number + 1, kilobytes=10, **OWN)
        item = replace(item, meta=msgspec.structs.replace(item.meta, annotations={IRREPLACEABLE: "true"}))
        stores.secrets.put(item)
        stores.secrets.remove(made(f"a-{number}", version=2 * number + 2))
    assert [item.meta.name for item in stores.secrets.deleted("keystone", "x", "keystone")] == ["a-0", "a-1"]


class Flooded:
    """An API server that lists 500 ConfigMaps of a megabyte in one namespace, and one in another."""

    def __init__(self) -> None:
        self.limits: list[int] = []
        self.names = [("flooded", f"map-{number:03}") for number in range(500)] + [("other", "map")]

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                query = {key: value[0] for key, value in parse_qs(urlsplit(head.split(b" ")[1].decode()).query).items()}
                if "watch" in query:
                    # There is nothing to tell; the client goes.
                    await reader.read()
                    break
                await self._list(int(query["limit"]), int(query.get("continue", 0)), writer)
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    async def _list(self, limit: int, start: int, writer: asyncio.StreamWriter) -> None:
        self.limits.append(limit)
        names, left = self.names[start : start + limit], self.names[start + limit :]
        meta = {"resourceVersion": "9"} | ({"continue": str(start + limit)} if left else {})
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        self._chunk(writer, b'{"metadata": %b, "items": [' % json.dumps(meta).encode())
        for number, (namespace, name) in enumerate(names):
            item = {
                "metadata": {"name": name, "namespace": namespace, "resourceVersion": "5"},
                "data": {"a": "x" * _MEBIBYTE},
            }
            self._chunk(writer, (b"," if number else b"") + json.dumps(item).encode())
            await writer.drain()
        self._chunk(writer, b"]}")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    @staticmethod
    def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))


_OPERATOR = """
import asyncio, sys
import httpx2 as httpx
from openstack_operator.runtime.cache.budget import Budget
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.cache.informer import Informer
from openstack_operator.runtime.kubernetes.kinds import CHILDREN
from openstack_operator.runtime.cache.store import Store

def peak():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

async def main():
    kind = next(kind for kind in CHILDREN if kind.kind == "ConfigMap")
    store = Store(kind, lambda change: None, Budget(lambda kind, meta: False))
    async with httpx.AsyncClient(base_url=sys.argv[1], trust_env=False, timeout=None) as http:
        informer = Informer(Client(http), store)
        before = peak()
        task = asyncio.ensure_future(informer.run())
        await informer.synced.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    held = sum(len(item.raw) for item in store.of_namespace("flooded"))
    print(peak() - before, held, len(store.of_namespace("other")))

asyncio.run(main())
"""


@pytest.mark.seconds
@pytest.mark.security
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
async def test_a_flooded_namespace_takes_no_more_than_its_share() -> None:
    """Half a gigabyte in one namespace. The process that lists it grows by some pages, and serves another namespace."""
    api = Flooded()
    async with api.serving() as url, asyncio.timeout(TIMEOUT):
        command = [sys.executable, "-c", _OPERATOR, url]
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        output, _ = await process.communicate()
    grown, kept, others = (int(part) for part in output.splitlines()[-1].split())
    assert kept <= BYTES
    assert others == 1
    assert grown < 150 << 10, f"{grown >> 10} MiB"
    assert max(api.limits[1:]) < api.limits[0] == 500


def test_the_size_of_an_object_counts_what_is_kept_of_it() -> None:
    item = made("a", kilobytes=10)
    assert size(item) > len(item.raw) > 10 << 10
