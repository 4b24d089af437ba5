"""Sessions that are shared: found again by who logs in, without keeping a password to find them by."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from openstack_operator.actuators import http, keystone, messaging
from openstack_operator.actuators.http import IDLE, Api, Sessions

SECRET = "a-password-nobody-else-has"


class Session:
    def __init__(self, url: str, password: str) -> None:
        self.works = bool(url and password)


def test_a_session_is_shared_by_who_logs_in_alike() -> None:
    sessions = Sessions(Session)
    assert sessions("u", SECRET) is sessions("u", SECRET)
    assert sessions("u", SECRET) is not sessions("u", "another")
    assert sessions("uu", "p") is not sessions("u", "up")


def test_the_oldest_is_given_up() -> None:
    sessions = Sessions(Session, most=2)
    first, second = sessions("1", "p"), sessions("2", "p")
    assert sessions("1", "p") is first
    assert sessions("3", "p") is not second
    assert sessions("1", "p") is first
    assert sessions("2", "p") is not second


def test_an_idle_session_is_dropped() -> None:
    now = 0.0
    sessions = Sessions(Session, clock=lambda: now)
    old, used = sessions("old", "p"), sessions("used", "p")
    now = IDLE
    assert sessions("used", "p") is used
    now += 1
    assert sessions("used", "p") is used
    assert sessions("old", "p") is not old


def test_connections_close_when_the_last_user_of_a_session_ends() -> None:
    def made(name: str) -> Api:
        return Api("Test", name, seconds=1)

    sessions = Sessions(made, most=1)
    in_use, client = sessions("one"), client_of(sessions("one"))
    sessions("two")
    assert not client.is_closed, "a thread may be in the middle of a request"
    del in_use
    gc.collect()
    assert client.is_closed
    assert not client_of(sessions("two")).is_closed


def test_an_unshared_client_is_closed_after_use() -> None:
    client = client_of(Api("Test", "http://127.0.0.1", seconds=1))
    gc.collect()
    assert client.is_closed


def client_of(api: Api) -> Any:
    return api._client  # pyright: ignore[reportPrivateUsage]


@pytest.mark.security
def test_no_password_is_in_what_a_session_is_found_by() -> None:
    sessions = Sessions(Session)
    sessions("u", SECRET)
    assert SECRET not in repr(vars(sessions))


@pytest.mark.security
def test_no_cache_of_functions_is_keyed_by_a_password() -> None:
    """lru_cache keeps its arguments for as long as it lives."""
    names = [name for name in sys.modules if name.startswith("openstack_operator.")]
    found = [each for name in names for each in vars(sys.modules[name]).values()]
    # Methods, too; what is frozen, the garbage collector does not tell.
    found += [method for each in found if isinstance(each, type) for method in vars(each).values()]
    cached = [each for each in found if hasattr(type(each), "cache_info")]
    assert {http.__name__, keystone.__name__, messaging.__name__} <= {*names}
    assert cached
    for each in cached:
        assert not {"password", "secret", "login"} & set(each.__wrapped__.__annotations__), each
