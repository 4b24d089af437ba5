"""Keystone's caches by the mark of the database: several processes, and what each may still see."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openstack_operator.agents.keystone.identity_generation import Generation

pytestmark = pytest.mark.security


@dataclass
class Database:
    """One value and the mark it has; and the Memcached, which never forgets."""

    value: int = 0
    mark: str = "first"
    cache: dict[str, int] = field(default_factory=dict[str, int])


class Process:
    """A request at a time, in steps, as other processes take theirs."""

    def __init__(self, database: Database) -> None:
        self.database, self.generation = database, Generation()
        self.loading: tuple[str, int] | None = None
        self.began_with = 0

    def begin(self) -> None:
        self.loading = None
        self.generation.begin(lambda: self.database.mark)
        self.began_with = self.database.value

    def load(self) -> None:
        """Reads what is not cached, and is held up before it stores it."""
        key = self.generation.mark
        if key not in self.database.cache:
            self.loading = (key, self.database.value)

    def store(self) -> None:
        if self.loading:
            self.database.cache[self.loading[0]] = self.loading[1]
            self.loading = None

    def change(self) -> None:
        assert self.generation.note("UPDATE project SET enabled = 0")
        self.generation.commit(lambda mark: setattr(self.database, "mark", mark))
        self.database.value += 1
        self.began_with = self.database.value

    def look(self) -> int:
        return self.database.cache.get(self.generation.mark, self.database.value)


STEPS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["begin", "load", "store", "change", "look"])))


@given(STEPS)
def test_a_request_sees_all_that_was_acknowledged_before_it_began(steps: list[tuple[int, str]]) -> None:
    database = Database()
    processes = [Process(database) for _ in range(3)]
    for process in processes:
        process.begin()
    for number, step in steps:
        process = processes[number]
        getattr(process, step)()
        assert process.look() >= process.began_with


def test_cached_values_are_read_from_the_cache() -> None:
    database = Database()
    one, other = Process(database), Process(database)
    for process in (one, other):
        process.begin()
    one.load()
    one.store()
    database.value = -1
    assert other.look() == 0


@pytest.mark.parametrize("statement", ["INSERT INTO x", "  update x SET y", "DELETE FROM x", "REPLACE INTO x"])
def test_nothing_of_an_open_transaction_is_shared(statement: str) -> None:
    generation = Generation()
    generation.begin(lambda: "mark")
    assert generation.note(statement)
    assert len({generation.mark, generation.mark, "mark"}) == 3
    generation.roll_back()
    assert generation.mark == "mark"


def test_reading_changes_nothing() -> None:
    generation = Generation()
    generation.begin(lambda: "mark")
    assert not generation.note("SELECT 1")
    assert generation.mark == "mark"


def test_nothing_is_cached_without_an_answer_of_the_database() -> None:
    generation = Generation()
    generation.begin(lambda: "mark")

    def lost() -> str:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        generation.begin(lost)
    assert len({generation.mark, generation.mark, "mark"}) == 3
