"""Sessions that are shared: found again by who logs in, without keeping a password to find them by."""

from __future__ import annotations

import gc
import types

from openstack_operator import actuators
from openstack_operator.actuators import http, keystone, messaging
from openstack_operator.actuators.http import Sessions

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


def test_no_password_is_in_what_a_session_is_found_by() -> None:
    sessions = Sessions(Session)
    sessions("u", SECRET)
    assert SECRET not in repr(vars(sessions))


def test_no_cache_of_functions_is_keyed_by_a_password() -> None:
    """lru_cache keeps its arguments for as long as it lives."""
    modules = [each for each in vars(actuators).values() if isinstance(each, types.ModuleType)]
    assert {http, keystone, messaging} <= {*modules, http, keystone, messaging}
    cached = [
        each
        for each in gc.get_objects()
        if hasattr(type(each), "cache_info") and str(getattr(each, "__module__", "")).startswith("openstack_operator")
    ]
    assert cached
    for each in cached:
        assert not {"password", "secret", "login"} & set(each.__wrapped__.__annotations__), each
