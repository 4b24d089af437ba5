"""What the versions in answers of an API server say of its storage."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.history import History, number
from openstack_operator.runtime.kubernetes.kinds import SECRET
from tests.unit.faulty_api import Answer, FaultyApi


def answer(version: object, uid: str = "u") -> bytes:
    return json.dumps({"metadata": {"uid": uid, "resourceVersion": str(version)}}).encode()


def epochs(answers: Iterable[bytes]) -> int:
    """How often the storage was put back, where each request was sent after the answer to the one before."""
    history = History()
    for each in answers:
        history.note(each, history.moment())
    return history.epoch


@pytest.mark.parametrize(
    ("answers", "times"),
    [
        ([answer(5), answer(5), answer(7)], 0),
        ([answer(5), answer(4)], 1),
        # From there on the lower versions are right.
        ([answer(9), answer(4), answer(5), answer(6)], 1),
        ([answer(9), answer(4), answer(8), answer(3)], 2),
        # A read of what was written long ago.
        ([answer(9, "a"), answer(2, "b"), answer(9, "a")], 0),
        # A definition of an aggregated API server, which has versions of its own, or none.
        ([answer(9, "a"), answer("", "a"), answer("one", "a"), answer(0, "a"), answer("²", "a")], 0),
        ([answer(9), b'{"kind": "Status"}', b"", b"[]", b"no JSON", b'{"metadata": {"uid": 1}}'], 0),
        # Another object of the same name.
        ([answer(9, "a"), answer(3, "b")], 0),
        # Versions grow by digits, not as text.
        ([answer(9), answer(10), answer(99), answer(100)], 0),
    ],
)
def test_a_lower_version_of_the_same_object_shows_another_history(answers: list[bytes], times: int):
    assert epochs(answers) == times


def test_answers_in_another_order_than_that_of_their_requests_show_nothing():
    history = History()
    early, late = history.moment(), history.moment()
    history.note(answer(6), late)
    history.note(answer(5), early)
    assert history.epoch == 0
    # What is remembered is the later version.
    history.note(answer(5), history.moment())
    assert history.epoch == 1


def test_a_request_from_before_shows_nothing_more():
    history = History()
    history.note(answer(9), history.moment())
    before = history.moment()
    history.note(answer(4), history.moment())
    history.note(answer(6), history.moment())
    history.note(answer(5), before)
    assert history.epoch == 1


def test_memory_of_versions_ends():
    history = History()
    for index in range(20_000):
        history.note(answer(100, str(index)), history.moment())
    history.note(answer(1, "0"), history.moment())
    assert history.epoch == 0, "it was forgotten"
    history.note(answer(1, "19999"), history.moment())
    assert history.epoch == 1


@pytest.mark.parametrize("verb", ["get", "apply", "replace", "delete"])
async def test_answers_to_each_verb_count(api: FaultyApi, client: Client, verb: str):
    def secret(version: int) -> Answer:
        return 200, {"kind": "Secret", "metadata": {"uid": "u", "resourceVersion": str(version)}}, {}

    rewinds = list[int]()
    client.history.on_rewind = lambda: rewinds.append(client.history.epoch)
    thing = {"metadata": {"name": "s", "namespace": "x"}}
    api.answers += [secret(9), secret(8)]
    await client.get(SECRET, "x", "s")
    match verb:
        case "get":
            await client.get(SECRET, "x", "s")
        case "delete":
            await client.delete(SECRET, "x", "s", "u", "Background")
        case _:
            await getattr(client, verb)(SECRET, thing)
    assert rewinds == [1]


def test_invalid_revision_numbers_count_as_zero():
    assert [number(text) for text in ("", "0", "12", "-1", "1.0", "x")] == [0, 0, 12, 0, 0, 0]
