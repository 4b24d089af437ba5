"""Keys that replace one another in steps."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from openstack_operator.parts.secrets.key_ring import KeyRing, next_ring, read_ring

BOTH = {1: "a", 2: "b"}


def step(ring: KeyRing | None, desired: int = 2, *, all_read_it: bool = True, is_retired: bool = True) -> KeyRing:
    def retire(old: KeyRing) -> KeyRing:
        return old.without_old_keys() if is_retired else old

    return next_ring(ring, desired, lambda: "b", all_read_it=all_read_it, retire=retire)


def test_the_first_key_has_the_desired_generation() -> None:
    assert step(None, 3) == KeyRing({3: "b"}, 3)


def test_a_key_is_readable_everywhere_from_before_use_until_removal() -> None:
    first = KeyRing({1: "a"}, 1)
    staged = step(first)
    assert staged == KeyRing(BOTH, 1)
    assert staged.in_order == ["a", "b"]
    assert step(staged, all_read_it=False) == staged
    used = step(staged)
    assert used == KeyRing(BOTH, 2)
    assert used.in_order == ["b", "a"]
    assert step(used, all_read_it=False) == step(used, is_retired=False) == used
    assert step(used) == KeyRing({2: "b"}, 2)


@pytest.mark.parametrize("desired", [1, 4])
def test_a_smaller_generation_or_the_present_one_changes_nothing(desired: int) -> None:
    ring = KeyRing({4: "d"}, 4)
    assert step(ring, desired) == ring


def test_an_order_during_a_replacement_waits_for_its_end() -> None:
    ring = step(KeyRing(BOTH, 1), 3, all_read_it=False)
    assert ring == KeyRing(BOTH, 1)
    ring = step(ring, 3)
    assert ring == KeyRing(BOTH, 2)
    ring = step(ring, 3)
    assert ring == KeyRing({2: "b"}, 2)
    assert step(ring, 3) == KeyRing({2: "b", 3: "b"}, 2)


def test_keys_that_a_user_brings_back_are_used() -> None:
    assert read_ring({"kek.1": "a", "kek.3": "c"}, "kek") == KeyRing({1: "a", 3: "c"}, 3)


@pytest.mark.parametrize("ring", [KeyRing({7: "a"}, 7), KeyRing(BOTH, 1), KeyRing(BOTH, 2, "2026-01-01T00:00:00+0000")])
def test_a_stored_key_ring_is_read_back(ring: KeyRing) -> None:
    assert read_ring(ring.data("kek"), "kek") == ring
    assert read_ring(ring.data("kek"), "key") is None


def test_entries_that_are_no_keys_are_left_out() -> None:
    data = {"kek.1": "a", "kek.2": "b", "kek.x": "c", "kek.3": "", "active": "9", "until": "yesterday"}
    assert read_ring(data, "kek") == KeyRing(BOTH, 2)
    assert read_ring({"active": "1"}, "kek") is None


def test_only_old_keys_have_an_end() -> None:
    ring = KeyRing(BOTH, 2, "2026-01-01T00:00:00+0000")
    assert ring.ends == datetime(2026, 1, 1, tzinfo=UTC)
    assert replace(ring, active=1).ends is replace(ring, keys={2: "b"}).ends is None
