"""Who may read metrics, as an API server decides it, and how much it can be made to decide."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from structlog.testing import capture_logs

from openstack_operator.runtime.kubernetes.errors import LeadershipLostError
from openstack_operator.runtime.serve.scrapers import (
    BUSY,
    FORBIDDEN,
    NO_RIGHT,
    UNANSWERED,
    UNAUTHORIZED,
    Refusal,
    Scrapers,
)
from tests.unit.polling import eventually
from tests.unit.review_api import BAD, EXTRA, GOOD, OTHER, READER, ReviewApi

pytestmark = pytest.mark.security

NOT_ALLOWED = {"message": 'tokenreviews is forbidden: User "x" cannot create resource "tokenreviews"'}


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def api() -> ReviewApi:
    return ReviewApi()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def scrapers(api: ReviewApi, clock: Clock) -> Scrapers:
    return Scrapers(api.client(), clock, patience=300)


@pytest.mark.parametrize(
    ("token", "expected", "questions"), [(GOOD, None, 2), (OTHER, FORBIDDEN, 2), (BAD, UNAUTHORIZED, 1)]
)
async def test_the_api_server_decides(
    api: ReviewApi, scrapers: Scrapers, token: str, expected: Refusal | None, questions: int
):
    assert await scrapers.refusal(token) == expected
    assert len(api.specs) == questions


async def test_all_that_is_known_of_an_account_counts(api: ReviewApi, scrapers: Scrapers):
    """Bindings are of groups, too, and authorizers look at what is extra."""
    await scrapers.refusal(GOOD)
    assert api.specs == [
        {"token": GOOD},
        {
            "user": READER["username"],
            "uid": "u1",
            "groups": READER["groups"],
            "extra": EXTRA,
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    ]


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "é", "x" * 9000, "=", "a=b"])
async def test_an_invalid_token_is_not_reviewed(api: ReviewApi, scrapers: Scrapers, token: str):
    assert await scrapers.refusal(token) == UNAUTHORIZED
    assert api.specs == []


async def test_answers_count_for_ten_seconds(api: ReviewApi, scrapers: Scrapers, clock: Clock):
    expected = {GOOD: None, OTHER: FORBIDDEN, BAD: UNAUTHORIZED}
    for _ in range(3):
        assert {token: await scrapers.refusal(token) for token in expected} == expected
    assert sorted(api.tokens) == sorted(expected)
    clock.now += 11
    # What was taken back, or granted, counts from then on.
    api.readers = {"somebody"}
    assert await scrapers.refusal(GOOD) == FORBIDDEN
    assert await scrapers.refusal(OTHER) is None
    assert len(api.tokens) == 5


async def test_tokens_are_not_kept_and_answers_are_few(api: ReviewApi, scrapers: Scrapers, clock: Clock):
    for number in range(600):
        clock.now += 0.2
        name = f"token-{number}"
        api.users[name] = READER if number % 2 else {"username": "somebody"}
        assert await scrapers.refusal(name) == (None if number % 2 else FORBIDDEN)
    state = vars(scrapers)
    assert "token-" not in str(state)
    assert len(state["_allowed"]) == len(state["_refused"]) == 256


async def test_invented_tokens_make_few_reviews_at_once_and_keep_no_reader_out(
    api: ReviewApi, scrapers: Scrapers, clock: Clock
):
    assert await scrapers.refusal(GOOD) is None
    clock.now += 60
    api.waiting = asyncio.Event()
    strangers = [asyncio.ensure_future(scrapers.refusal(f"invented-{number}")) for number in range(10)]
    await eventually("reviews to begin", lambda: len(api.tokens) == 5)
    reader = asyncio.ensure_future(scrapers.refusal(GOOD))
    await eventually("the reader's review to begin", lambda: len(api.tokens) == 6)
    api.waiting.set()
    answers = await asyncio.gather(*strangers)
    assert (answers.count(UNAUTHORIZED), answers.count(BUSY)) == (4, 6)
    assert await reader is None


async def test_invented_tokens_make_few_reviews_a_second(api: ReviewApi, scrapers: Scrapers, clock: Clock):
    assert await scrapers.refusal(GOOD) is None
    answers = [await scrapers.refusal(f"invented-{number}") for number in range(50)]
    assert (answers.count(UNAUTHORIZED), answers.count(BUSY)) == (19, 31)
    clock.now += 11
    api.specs.clear()
    [await scrapers.refusal(f"more-{number}") for number in range(50)]
    assert len(api.tokens) == 20
    # Who was good before is no stranger.
    assert await scrapers.refusal(GOOD) is None


async def test_an_api_server_that_does_not_answer_lets_nobody_in(api: ReviewApi, clock: Clock):
    scrapers = Scrapers(api.client(), clock, patience=300)
    assert await scrapers.refusal(GOOD) is None
    clock.now += 11
    with capture_logs() as logs:
        api.down = True
        assert [await scrapers.refusal(GOOD) for _ in range(3)] == [UNANSWERED] * 3
        api.down = False
        assert await scrapers.refusal(GOOD) is None
    # Not each time: Prometheus comes again and again.
    assert [log["log_level"] for log in logs] == ["warning", "info"]
    assert GOOD not in str(logs)


async def test_a_kept_connection_that_ended_is_no_failure(api: ReviewApi, scrapers: Scrapers):
    api.broken = 1
    assert await scrapers.refusal(GOOD) is None


async def test_an_api_server_that_takes_too_long_is_not_waited_for(api: ReviewApi, clock: Clock):
    api.waiting = asyncio.Event()
    assert await Scrapers(api.client(), clock, patience=0.01).refusal(GOOD) == UNANSWERED


async def test_an_operator_without_the_right_says_so_once(api: ReviewApi, scrapers: Scrapers):
    api.fault = 403, NOT_ALLOWED
    with capture_logs() as logs:
        assert [await scrapers.refusal(GOOD) for _ in range(3)] == [NO_RIGHT] * 3
    assert "tokenreviews.authentication.k8s.io" in NO_RIGHT.reason
    assert [log["event"] for log in logs] == ["the operator has no right to check tokens"]


async def test_a_replica_that_does_not_lead_checks_tokens(api: ReviewApi, clock: Clock):
    def fence() -> None:
        raise LeadershipLostError

    client = api.client()
    client.fence = fence
    assert await Scrapers(client, clock, patience=300).refusal(GOOD) is None
