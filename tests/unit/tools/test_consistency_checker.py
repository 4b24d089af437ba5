"""The checker of histories finds each anomaly, in histories by hand and planted in random ones, and no other."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.unit.consistency_histories import Script, serial
from tools.consistency import checker
from tools.consistency.graph import RT, RW, WR, WW, Builder, Search, components
from tools.consistency.history import Append, Outcome, Read, Transaction, encode, load

SEEDS = range(3)


def names(history: list[Transaction]) -> dict[str, int]:
    return {name: anomaly.count for name, anomaly in checker.check(history).anomalies.items()}


def proof(history: list[Transaction], name: str) -> tuple[int, ...]:
    [(_, numbers)] = checker.check(history).anomalies[name].examples
    return numbers


def test_lost_append_is_absent_from_final_reads() -> None:
    script = Script()
    script.add("append 1 1", 0, 10)
    lost = script.add("append 1 2", 0, 10)
    final = script.add("read 1 [1]", 20, 30, is_final=True)
    assert names(script.history) == {checker.LOST: 1}
    assert proof(script.history, checker.LOST) == (lost, final)


def test_value_that_was_read_and_is_gone_has_vanished() -> None:
    script = Script()
    script.add("append 1 1", 0, 10)
    writer = script.add("append 1 2", 0, 10, Outcome.UNKNOWN)
    reader = script.add("read 1 [1 2]", 20, 30)
    script.add("append 1 3", 40, 50)
    final = script.add("read 1 [1 3]", 60, 70, is_final=True)
    assert names(script.history) == {checker.VANISHED: 1}
    assert proof(script.history, checker.VANISHED) == (writer, reader, final)


def test_append_without_an_answer_may_be_lost() -> None:
    script = Script()
    script.add("append 1 1", 0, 10, Outcome.UNKNOWN)
    script.add("append 1 2", 0, 10, Outcome.FAILED)
    script.add("read 1 []", 20, 30, is_final=True)
    assert names(script.history) == {}


def test_append_without_an_answer_may_take_effect_later() -> None:
    script = Script()
    script.add("append 1 1", 0, 10, Outcome.UNKNOWN)
    script.add("read 1 []", 20, 30)
    script.add("read 1 [1]", 40, 50)
    assert names(script.history) == {}


def test_append_without_final_read_is_not_judged() -> None:
    script = Script()
    script.add("append 1 1")
    verdict = checker.check(script.history)
    assert (verdict.anomalies, verdict.unjudged, verdict.appends) == ({}, 1, 1)


def test_members_that_differ_at_the_end_have_diverged() -> None:
    script = Script()
    script.add("append 1 1", 0, 10)
    script.add("append 1 2", 0, 10)
    readers = [script.add(f"read 1 {values}", 20, 30, is_final=True) for values in ("[1 2]", "[1]")]
    assert names(script.history) == {checker.DIVERGED: 1, checker.STALE: 1}
    assert proof(script.history, checker.DIVERGED) == tuple(readers)


def test_aborted_read() -> None:
    script = Script()
    failed = script.add("append 1 1", outcome=Outcome.FAILED)
    reader = script.add("read 1 [1]")
    assert names(script.history) == {checker.ABORTED: 1}
    assert proof(script.history, checker.ABORTED) == (reader, failed)


def test_intermediate_read() -> None:
    script = Script()
    writer = script.add("append 1 1; append 1 2")
    reader = script.add("read 1 [1]")
    script.add("read 1 [1 2]")
    found = names(script.history)
    assert found[checker.INTERMEDIATE] == 1
    assert proof(script.history, checker.INTERMEDIATE) == (reader, writer)


def test_unwritten_value() -> None:
    script = Script()
    script.add("read 1 [7]")
    assert names(script.history) == {checker.UNWRITTEN: 1}


def test_duplicate_value() -> None:
    script = Script()
    script.add("append 1 1")
    script.add("read 1 [1 1]")
    assert names(script.history) == {checker.DUPLICATE: 1}


def test_incompatible_orders() -> None:
    script = Script()
    script.add("append 1 1")
    script.add("append 1 2")
    one, two = script.add("read 1 [1 2]"), script.add("read 1 [2 1]")
    assert names(script.history) == {checker.INCOMPATIBLE: 1}
    assert proof(script.history, checker.INCOMPATIBLE) == (two, one)


@pytest.mark.parametrize(
    "operations", ["read 1 []; append 1 1; read 1 []", "append 1 1; read 1 []", "read 1 []; read 1 [2]"]
)
def test_internal_inconsistency(operations: str) -> None:
    script = Script()
    script.add("append 1 2")
    number = script.add(operations)
    assert names(script.history) == {checker.INTERNAL: 1}
    assert proof(script.history, checker.INTERNAL) == (number,)


def test_own_appends_are_read() -> None:
    script = Script()
    script.add("append 1 1; read 1 [1]; append 1 2; append 2 1; read 1 [1 2]; read 2 [1]")
    assert names(script.history) == {}


def test_write_cycle_is_g0() -> None:
    script = Script()
    script.add("append 1 1; append 2 1")
    script.add("append 1 2; append 2 2")
    script.add("read 1 [1 2]")
    script.add("read 2 [2 1]")
    assert names(script.history)["G0"] == 1
    assert set(proof(script.history, "G0")) == {0, 1}


def test_cycle_with_a_read_of_the_other_is_g1c() -> None:
    script = Script()
    script.add("append 1 1; read 2 [1]")
    script.add("append 2 1; read 1 [1]")
    assert names(script.history) == {"G1c": 1}


def test_read_skew_is_g_single() -> None:
    script = Script()
    reader = script.add("read 1 []; read 2 [1]")
    writer = script.add("append 1 1; append 2 1")
    script.add("read 1 [1]")
    assert names(script.history) == {"G-single": 1}
    assert set(proof(script.history, "G-single")) == {reader, writer}


def test_write_skew_is_g2() -> None:
    script = Script()
    script.add("read 1 []; append 2 1")
    script.add("read 2 []; append 1 1")
    script.add("read 1 [1]; read 2 [1]")
    assert names(script.history) == {"G2-item": 1}


def test_lost_update_is_named() -> None:
    script = Script()
    numbers = [script.add(f"read 1 []; append 1 {value}") for value in (1, 2)]
    script.add("read 1 [1 2]")
    assert names(script.history) == {checker.LOST_UPDATE: 1, "G-single": 1}
    assert proof(script.history, checker.LOST_UPDATE) == tuple(numbers)


def test_append_before_the_read_is_no_lost_update() -> None:
    script = Script()
    script.add("append 1 1; read 1 [1]")
    script.add("append 1 2; read 1 [1 2]")
    assert names(script.history) == {}


def test_stale_read() -> None:
    script = Script()
    writer = script.add("append 1 1", 0, 10)
    reader = script.add("read 1 []", 11, 20)
    script.add("read 1 [1]", 15, 20)
    assert names(script.history) == {checker.STALE: 1}
    assert proof(script.history, checker.STALE) == (reader, writer)


def test_read_while_the_append_runs_is_not_stale() -> None:
    script = Script()
    script.add("append 1 1", 0, 10)
    script.add("read 1 []", 10, 20)
    script.add("read 1 [1]", 15, 20)
    assert names(script.history) == {}


def test_writes_against_time_are_found() -> None:
    script = Script()
    script.add("append 1 1", 50, 60)
    script.add("append 1 2", 0, 10)
    script.add("read 1 [1 2]", 70, 80)
    assert names(script.history) == {"G0-realtime": 1}


def test_read_of_the_future_is_found() -> None:
    script = Script()
    script.add("read 1 [1]", 0, 10)
    script.add("append 1 1", 50, 60)
    assert names(script.history) == {"G1c-realtime": 1}


def test_staleness_through_another_transaction_is_found() -> None:
    script = Script()
    # Two readers, one after the other; the later one does not see what the earlier one saw, and nobody knows when the
    # append ended.
    script.add("append 1 1", 0, 100, Outcome.UNKNOWN)
    script.add("read 1 [1]", 10, 20)
    script.add("read 1 []", 30, 40)
    assert names(script.history) == {"G-single-realtime": 1}


def test_long_fork_is_found() -> None:
    script = Script()
    script.add("append 1 1")
    script.add("append 2 1")
    script.add("read 1 [1]; read 2 []")
    script.add("read 1 []; read 2 [1]")
    script.add("read 1 [1]; read 2 [1]")
    assert names(script.history) == {"G2-item": 1}


def test_two_appends_of_one_value_prove_nothing() -> None:
    script = Script()
    script.add("append 1 1")
    script.add("append 1 1")
    with pytest.raises(ValueError, match="transactions 0 and 1 append 1 to 1"):
        checker.check(script.history)


@pytest.mark.parametrize("seed", SEEDS)
def test_serial_execution_has_no_anomaly(seed: int) -> None:
    history = serial(seed, 800)
    verdict = checker.check(history)
    assert verdict.anomalies == {}
    assert verdict.unjudged == 0
    assert verdict.transactions["ok"] > 500


def final(history: list[Transaction], key: int) -> int:
    """Return the number of the final read of a key."""
    return next(n for n, each in enumerate(history) if each.is_final and each.operations[0].key == key)


def appends(history: list[Transaction]) -> list[int]:
    """Return the numbers of acknowledged transactions that do nothing but append."""
    return [
        number
        for number, each in enumerate(history)
        if each.outcome is Outcome.OK and all(isinstance(one, Append) for one in each.operations)
    ]


def lose(history: list[Transaction], dice: random.Random) -> None:
    """Remove an acknowledged value from all reads."""
    [lost, *_] = history[dice.choice(appends(history))].operations
    for number, each in enumerate(history):
        kept_operations = tuple(
            replace(one, values=tuple(value for value in one.values if value != lost.value))
            if isinstance(one, Read) and one.values and isinstance(lost, Append) and one.key == lost.key
            else one
            for one in each.operations
        )
        history[number] = replace(each, operations=kept_operations)


def refuse(history: list[Transaction], dice: random.Random) -> None:
    """Tell the client of a transaction that took effect that it failed."""
    number = dice.choice(appends(history))
    history[number] = replace(history[number], outcome=Outcome.FAILED)


def turn(history: list[Transaction], dice: random.Random) -> None:
    """Swap two values in a final read."""
    number = final(history, dice.randrange(8))
    [read] = history[number].operations
    assert isinstance(read, Read)
    assert read.values is not None
    place = dice.randrange(len(read.values) - 1)
    values = list(read.values)
    values[place : place + 2] = values[place : place + 2][::-1]
    history[number] = replace(history[number], operations=(replace(read, values=tuple(values)),))


def repeat(history: list[Transaction], dice: random.Random) -> None:
    """Repeat a value in a final read."""
    number = final(history, dice.randrange(8))
    [read] = history[number].operations
    assert isinstance(read, Read)
    assert read.values is not None
    values = (*read.values, dice.choice(read.values))
    history[number] = replace(history[number], operations=(replace(read, values=values),))


def age(history: list[Transaction], dice: random.Random) -> None:
    """Let a final read miss the last value, which somebody acknowledged."""
    owner = {(one.key, one.value): each for each in history for one in each.operations if isinstance(one, Append)}
    numbers = [
        number
        for number, each in enumerate(history)
        if each.is_final
        and isinstance(read := each.operations[0], Read)
        and read.values
        and owner[read.key, read.values[-1]].outcome is Outcome.OK
    ]
    number = dice.choice(numbers)
    [read] = history[number].operations
    assert isinstance(read, Read)
    assert read.values is not None
    shortened = replace(history[number], operations=(replace(read, values=read.values[:-1]),))
    # A second reader, as of another member.
    history.append(shortened)


FAULTS: dict[str, Callable[[list[Transaction], random.Random], None]] = {
    checker.LOST: lose,
    checker.ABORTED: refuse,
    checker.INCOMPATIBLE: turn,
    checker.DUPLICATE: repeat,
    checker.DIVERGED: age,
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_found(name: str, seed: int) -> None:
    history = serial(seed, 400)
    FAULTS[name](history, random.Random(seed))
    assert checker.check(history).anomalies[name].count >= 1


def test_each_anomaly_is_explained_with_its_transactions() -> None:
    script = Script()
    script.add("append 1 1", 0, 10)
    script.add("read 1 []", 20, 30, is_final=True)
    lines = [*checker.explain(script.history, checker.check(script.history))]
    assert lines[2:] == [
        "lost append: 1",
        "  key 1: 1 was acknowledged, and is in no final read",
        "    T0 ok, 0.000000 to 0.000010 s, process 0: append 1 1",
        "    T1 ok, 0.000020 to 0.000030 s, process 1: read 1 []",
    ]


def test_history_is_the_same_after_it_was_stored(tmp_path: Path) -> None:
    history = serial(1, 200)
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"".join(encode(each) for each in history))
    assert load(path) == history


def test_line_that_is_no_transaction_is_named(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(encode(serial(1, 20)[0]) + b'{"process": 1}\n')
    with pytest.raises(ValueError, match="line 2: "):
        load(path)


def test_components_of_a_random_graph_are_those_by_reachability() -> None:
    dice = random.Random(7)
    for _ in range(50):
        builder, size = Builder(12), 12
        edges = [(dice.randrange(size), dice.choice([WW, WR, RW, RT]), dice.randrange(size)) for _ in range(18)]
        for source, kind, target in edges:
            builder.add(source, kind, target)
        reach = [{node} for node in range(size)]
        for _ in range(size):
            for source, kind, target in edges:
                reach = [each | {target} if source in each and kind & (WW | RW) else each for each in reach]
        expected = {frozenset(o for o in reach[n] if n in reach[o]) for n in range(size)}
        components_found = {frozenset(each) for each in components(builder.edges, range(size), WW | RW)}
        assert components_found == {each for each in expected if len(each) > 1}


@pytest.mark.parametrize("kinds", [WW | WR, WW | WR | RT, WW | WR | RW])
def test_path_exists_exactly_where_one_node_reaches_another(kinds: int) -> None:
    dice = random.Random(11)
    for _ in range(10):
        builder, size = Builder(10), 10
        for _ in range(16):
            builder.add(dice.randrange(size), dice.choice([WW, WR, RW, RT]), dice.randrange(size))
        search = Search(builder.edges, size, range(size), kinds)
        search.budget = 1_000_000
        for start in range(size):
            reached = _distances(builder, start, kinds)
            for goal in set(range(size)) - {start}:
                path = search.path(start, goal, 1000)
                assert (len(path) if path else None) == reached.get(goal)
        assert search.is_complete


def _distances(builder: Builder, start: int, kinds: int) -> dict[int, int]:
    distances, border = {start: 0}, [start]
    while border:
        edges = [(node, edge) for node in border for edge in builder.edges[node] if edge & kinds]
        border = []
        for node, edge in edges:
            if edge >> 4 not in distances:
                distances[edge >> 4] = distances[node] + 1
                border.append(edge >> 4)
    return distances


def test_search_that_ends_early_says_so() -> None:
    builder = Builder(3)
    for node in range(3):
        builder.add(node, WW, (node + 1) % 3)
    search = Search(builder.edges, 3, range(3), WW)
    search.budget = 1
    assert search.path(0, 2, 1000) is None
    assert not search.is_complete
