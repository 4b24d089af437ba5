"""Outages, expired versions, overload and refusals, as an API server of the worst kind gives them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2 as httpx
import pytest
import yaml

from openstack_operator.plan import SpecError, Transient
from openstack_operator.runtime.cache.entries import Change
from openstack_operator.runtime.cache.informer import Informer
from openstack_operator.runtime.cache.store import Store
from openstack_operator.runtime.kubernetes.client import SILENCE, Client
from openstack_operator.runtime.kubernetes.errors import Conflict, Forbidden, Missing, NotAdmitted, retry_after
from openstack_operator.runtime.kubernetes.kinds import SECRET
from tests.unit.faulty_api import FaultyApi
from tests.unit.polling import eventually


class Watched:
    """An informer at work, and what it told of."""

    def __init__(self, client: Client, **options: Any) -> None:
        self.changes: list[Change] = []
        self.store = Store(SECRET, self.changes.append)
        self.informer = Informer(client, self.store, **options)
        self.task = asyncio.ensure_future(self.informer.run())

    async def holds(self, *names: str) -> None:
        await eventually(f"{names}", lambda: {item.meta.name for item in self.store} == set(names))

    @property
    def deleted(self) -> list[str]:
        return [change.meta.name for change in self.changes if change.new is None]


@pytest.fixture
async def watched(client: Client) -> AsyncIterator[Watched]:
    watched = Watched(client)
    yield watched
    watched.task.cancel()
    await asyncio.gather(watched.task, return_exceptions=True)


async def test_lists_of_several_pages_and_changes_in_pieces(api: FaultyApi, watched: Watched):
    for name in "abcde":
        api.put(name)
    await watched.holds(*"abcde")
    api.put("f")
    api.remove("a")
    await watched.holds(*"bcdef")
    assert watched.deleted == ["a"]


async def test_objects_deleted_during_an_outage_are_noticed(api: FaultyApi, watched: Watched):
    for name in "abc":
        api.put(name)
    await watched.holds(*"abc")
    api.down = True
    api.cut()
    api.remove("b")
    api.put("d")
    api.expire()
    await api.asked(2)
    api.down = False
    await watched.holds(*"acd")
    assert watched.deleted == ["b"]


async def test_a_cut_watch_continues_where_it_was(api: FaultyApi, watched: Watched):
    api.put("a")
    await watched.holds("a")
    api.cut()
    api.put("b")
    await watched.holds("a", "b")
    # With a limit of one object it only asks how far the server is.
    assert sum("watch" not in request and "limit=1&" not in f"{request}&" for request in api.requests) == 1


async def test_a_server_that_was_put_back_is_listed_again(api: FaultyApi, watched: Watched):
    api.put("stays")
    snapshot = api.snapshot()
    for name in ("a", "b"):
        api.put(name)
    api.remove("stays")
    await watched.holds("a", "b")
    api.put_back(snapshot)
    await watched.holds("stays")
    # Of versions that were used before.
    api.put("c")
    api.remove("stays")
    await watched.holds("c")
    assert api.version < snapshot.version + 3


async def test_a_version_that_was_used_before_may_stand_for_another_content(api: FaultyApi, watched: Watched):
    snapshot = api.snapshot()
    api.put("a", "first")
    api.put("b")
    await watched.holds("a", "b")
    api.put_back(snapshot)
    api.put("a", "second")

    def data() -> list[Any]:
        return [item.decode().get("type") for item in watched.store]

    await eventually("the other content", lambda: data() == ["second"])


async def test_a_watch_that_goes_back_is_listed_again(api: FaultyApi, watched: Watched):
    api.put("a")
    snapshot = api.snapshot()
    api.put("b")
    api.put("c")
    await watched.holds("a", "b", "c")
    # The API server went on while its etcd was put back: what it sends has versions that it sent before.
    api.put_back(snapshot, cut=False)
    api.put("d")
    api.repeat()
    await watched.holds("a", "d")


async def test_a_watch_that_repeats_events_is_listed_again_and_nothing_else(
    api: FaultyApi, client: Client, watched: Watched
):
    for name in "abc":
        api.put(name)
    await watched.holds("a", "b", "c")
    lists = len([request for request in api.requests if "watch" not in request])
    api.repeat()
    await eventually("a list", lambda: len([each for each in api.requests if "watch" not in each]) > lists)
    api.put("d")
    await watched.holds("a", "b", "c", "d")
    assert client.history.epoch == 0, "its storage was not put back"


async def test_a_silent_watch_is_listed_again():
    lists = list[str]()

    def answer(request: httpx.Request) -> httpx.Response:
        if "watch" in request.url.params:
            raise httpx.ReadTimeout("", request=request)
        lists.append(request.url.params["limit"])
        return httpx.Response(200, json={"metadata": {"resourceVersion": "7"}, "items": []})

    client = Client(httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://api"))
    watched = Watched(client)
    await eventually("lists", lambda: len(lists) > 2)
    assert set(lists) == {"500"}, "it does not ask how far the server is, but for all"
    watched.task.cancel()
    await asyncio.gather(watched.task, return_exceptions=True)
    await client.close()


async def test_an_old_list_is_renewed_when_its_watch_ends(
    api: FaultyApi, watched: Watched, monkeypatch: pytest.MonkeyPatch
):
    """A restore that nothing showed: the server is at the version of the watch, and an object differs."""
    api.put("a")
    await watched.holds("a")
    monkeypatch.setattr(watched.informer, "trusted_seconds", 0)
    del api.objects["a"]
    api.cut()
    await watched.holds()


async def test_a_renewed_list_that_shows_a_restore_begins_an_epoch(
    api: FaultyApi, client: Client, watched: Watched, monkeypatch: pytest.MonkeyPatch
):
    """One object is as it was, and the server has come beyond the version of the watch by now."""
    api.put("a")
    api.put("b")
    await watched.holds("a", "b")
    snapshot = api.snapshot()
    api.put("a", "changed")
    await eventually("the change", lambda: any(item.raw.find(b"changed") >= 0 for item in watched.store))
    monkeypatch.setattr(watched.informer, "trusted_seconds", 0)
    api.put_back(snapshot, cut=False)
    for _ in range(5):
        api.version += 1
    lists = sum("limit=500" in request for request in api.requests)
    api.cut()
    await eventually("the old content", lambda: not any(item.raw.find(b"changed") >= 0 for item in watched.store))
    # One that shows it, and one because of it: each informer lists again in a new epoch.
    await eventually("two lists", lambda: sum("limit=500" in request for request in api.requests) == lists + 2)
    assert client.history.epoch == 1, "the list of the new epoch proves nothing new"


def watch_seconds(api: FaultyApi) -> list[int]:
    """Seconds that each watch so far was to last."""
    targets = (request.split()[1] for request in api.requests)
    queries = (parse_qs(urlsplit(target).query) for target in targets)
    return [int(query["timeoutSeconds"][0]) for query in queries if "watch" in query]


@pytest.mark.parametrize("has_bookmarks", [True, False])
async def test_only_a_kind_without_bookmarks_is_watched_briefly_at_first(
    api: FaultyApi, client: Client, has_bookmarks: bool
):
    watched = Watched(client, has_bookmarks=has_bookmarks)
    await eventually("a watch", lambda: len(watch_seconds(api)) == 1)
    assert (watch_seconds(api)[0] > SILENCE) is has_bookmarks
    api.cut()
    await eventually("another watch", lambda: len(watch_seconds(api)) == 2)
    assert watch_seconds(api)[1] < SILENCE
    watched.task.cancel()
    await asyncio.gather(watched.task, return_exceptions=True)


async def test_a_watch_without_bookmarks_ends_before_it_seems_dead(api: FaultyApi, client: Client):
    watched = Watched(client, has_bookmarks=False)

    def asked() -> list[int]:
        return watch_seconds(api)

    await eventually("a watch", lambda: len(asked()) == 1)
    assert asked()[0] < SILENCE
    # An object is none: a server that sends no bookmarks may have nothing to tell after it.
    api.put("a")
    await watched.holds("a")
    api.cut()
    await eventually("another watch", lambda: len(asked()) == 2)
    assert asked()[1] < SILENCE
    api.bookmark()
    api.put("b")
    await watched.holds("a", "b")
    api.cut()
    await eventually("a third watch", lambda: len(asked()) == 3)
    assert asked()[2] > SILENCE
    api.cut()
    await eventually("a fourth watch", lambda: len(asked()) == 4)
    assert asked()[3] < SILENCE
    watched.task.cancel()
    await asyncio.gather(watched.task, return_exceptions=True)


async def test_an_informer_waits_for_an_api_that_is_not_there_yet(api: FaultyApi, client: Client):
    api.down = True
    watched = Watched(client)
    await api.asked(2)
    assert not watched.informer.synced.is_set()
    api.put("a")
    api.down = False
    await watched.holds("a")
    assert watched.informer.synced.is_set()
    watched.task.cancel()
    await asyncio.gather(watched.task, return_exceptions=True)


_UNTYPED = "failed to create typed patch object (x/s-mon; apps/v1, Kind=StatefulSet): "


def refusal(code: int, message: str, **details: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
    return code, {"kind": "Status", "message": message, "details": details}, {}


@pytest.mark.security
@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (refusal(409, "the object has been modified"), Conflict, "modified"),
        (
            refusal(403, 'secrets "s" is forbidden: User "operator" cannot patch resource "secrets" in API group ""'),
            Forbidden,
            'lacks a permission: secrets "s" is forbidden: User "operator" cannot patch',
        ),
        (
            refusal(403, 'jobs.batch "s" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a'),
            Forbidden,
            "lacks a permission: jobs.batch",
        ),
        (
            refusal(403, 'secrets "s" is forbidden: exceeded quota: few', kind="secrets", name="s"),
            NotAdmitted,
            "^secrets/s: exceeded quota: few$",
        ),
        (refusal(403, "namespace x is being terminated"), Transient, "terminated"),
        (refusal(404, "not found"), Missing, "not found"),
        (refusal(500, "etcd"), Transient, "etcd"),
        (
            refusal(500, f"{_UNTYPED}.spec.tolerations[0].a: field not declared in schema"),
            SpecError,
            "^StatefulSet/s-mon .spec.tolerations\\[0\\].a: field not declared in schema$",
        ),
        (
            refusal(500, f"{_UNTYPED}errors:\n  .spec.a: field not declared in schema\n  .spec.b: expected map"),
            SpecError,
            "^StatefulSet/s-mon .spec.a: field not declared in schema .spec.b: expected map$",
        ),
        (refusal(400, "strict decoding error", kind="Secret", name="s"), SpecError, "Secret/s: strict"),
        (
            refusal(422, "long", kind="Job", name="j", causes=[{"field": "spec.template", "message": "immutable"}]),
            SpecError,
            "^Job/j spec.template: immutable$",
        ),
    ],
)
async def test_errors_say_what_to_do(api: FaultyApi, client: Client, answer: Any, error: type[Exception], text: str):
    api.answers.append(answer)
    with pytest.raises(error, match=text) as raised:
        await client.apply(SECRET, {"metadata": {"name": "s", "namespace": "x"}})
    assert type(raised.value) is error


async def test_an_overloaded_server_is_asked_again_when_it_says(api: FaultyApi, client: Client):
    slow = (429, {"message": "later"}, {"Retry-After": "0.01"})
    api.answers += [slow, slow, (200, {"kind": "Secret", "metadata": {}}, {})]
    await client.apply(SECRET, {"metadata": {"name": "s", "namespace": "x"}})
    api.answers += [slow, slow, slow]
    with pytest.raises(Transient, match="429"):
        await client.apply(SECRET, {"metadata": {"name": "s", "namespace": "x"}})


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 1),
        ("7", 7),
        ("0.5", 0.5),
        ("-3", 0),
        ("Thu, 01 Jan 2026 12:00:30 GMT", 30),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0),
        ("soon", 1),
        ("nan", 1),
        ("inf", 1),
    ],
)
def test_a_server_says_when_to_come_again(text: str, seconds: float):
    assert retry_after(text, NOW) == seconds


async def test_a_server_that_is_overloaded_until_a_date(api: FaultyApi, client: Client):
    past = (429, {"message": "later"}, {"Retry-After": "Thu, 01 Jan 2026 12:00:00 GMT"})
    api.answers += [past, (200, {"kind": "Secret", "metadata": {}}, {})]
    assert await client.get(SECRET, "x", "s")
    future = (429, {"message": "later"}, {"Retry-After": "Thu, 01 Jan 2099 12:00:00 GMT"})
    api.answers.append(future)
    with pytest.raises(Transient, match="429"):
        await client.get(SECRET, "x", "s")


async def test_an_unreachable_api_server_is_transient(api: FaultyApi, client: Client):
    api._server.close()  # pyright: ignore[reportPrivateUsage]
    api.cut()
    with pytest.raises(Transient, match="ConnectError"):
        await client.get(SECRET, "x", "s")


@pytest.mark.security
async def test_a_server_that_reads_yaml_gets_every_character_as_it_is(api: FaultyApi, client: Client):
    # Halves of surrogate pairs are no text.
    text = "".join(chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000) + "\U0001f4a9\U0010ffff"
    applied = {"metadata": {"name": "s", "namespace": "x"}, "data": {"text": text, "quote": '"\\u0085"\x85'}}
    api.answers.append((200, {}, {}))
    await client.apply(SECRET, applied)
    assert not re.search("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", api.body.decode()), "PyYAML reads some of them"
    assert yaml.safe_load(api.body) == json.loads(api.body) == applied


@pytest.mark.security
async def test_a_late_answer_is_waited_for_longer_the_next_time() -> None:
    limits, late = list[float](), True

    def answer(request: httpx.Request) -> httpx.Response:
        limits.append(request.extensions["timeout"]["read"])
        if late:
            raise httpx.ReadTimeout("", request=request)
        return httpx.Response(200, json={"kind": "Secret", "metadata": {}})

    async def apply(name: str = "s") -> None:
        await client.apply(SECRET, {"metadata": {"name": name, "namespace": "x"}})

    client = Client(httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://api", timeout=10))
    for _ in range(5):
        with pytest.raises(Transient, match="ReadTimeout"):
            await apply()
    late = False
    await apply("another")
    await apply()
    await apply()
    assert limits == [10, 20, 40, 60, 60, 10, 60, 10]
