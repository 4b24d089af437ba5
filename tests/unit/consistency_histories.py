"""Histories of list appends for tests: written by hand, and of a simulated database without faults."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from msgspec.structs import replace

from tools.consistency.history import Append, Operation, Outcome, Read, Transaction
from tools.consistency.workload import Workload


@dataclass
class Script:
    """History that is written down line by line, as `T 1 2: append 1 1, read 2 [1, 2]`."""

    history: list[Transaction] = field(default_factory=list[Transaction])

    def add(
        self, operations: str, start: int = 0, end: int = 1000, outcome: Outcome = Outcome.OK, *, is_final: bool = False
    ) -> int:
        """Add a transaction and return its number. Without times all of them overlap."""
        parsed = tuple(_operation(each) for each in operations.split("; "))
        self.history.append(Transaction(len(self.history), outcome, start, end, parsed, is_final))
        return len(self.history) - 1


def _operation(text: str) -> Operation:
    kind, key, values = text.split(" ", 2)
    if kind == "append":
        return Append(int(key), int(values))
    return Read(int(key), tuple(int(each) for each in values.strip("[]").split()))


def serial(seed: int, number: int, processes: int = 10) -> list[Transaction]:
    """Return the history of a database that executes one transaction after the other, as `processes` clients see it:
    each is executed at a moment between its start and its end. Some fail, and some have no answer.
    """
    dice, workload = random.Random(seed), Workload(seed)
    lists: dict[int, tuple[int, ...]] = {}
    history: list[Transaction] = []
    free_at = [0] * processes
    for moment in range(100, 100 + 10 * number, 10):
        # Those that are free at this moment began before it; the one that executes is any of them.
        ready = [process for process, time in enumerate(free_at) if time < moment]
        if not ready:
            continue
        process = dice.choice(ready)
        start, end = dice.randint(free_at[process], moment - 1), moment + dice.randint(1, 10 * processes)
        free_at[process] = end + 1
        outcome = dice.choices([*Outcome], [90, 5, 5])[0]
        is_done = outcome is Outcome.OK or (outcome is Outcome.UNKNOWN and dice.random() < 0.5)
        state: dict[int, tuple[int, ...]] = {}
        operations = tuple(_executed(each, lists, state) for each in workload.transaction())
        if is_done:
            lists |= state
        history.append(Transaction(process, outcome, start, end, operations))
    last = max(free_at)
    for key in range(workload.keys):
        history.append(
            Transaction(0, Outcome.OK, last + 10, last + 20, (Read(key, lists.get(key, ())),), is_final=True)
        )
    dice.shuffle(history)
    return history


def _executed(operation: Operation, lists: dict[int, tuple[int, ...]], state: dict[int, tuple[int, ...]]) -> Operation:
    """Execute an operation in a transaction that has `state` so far."""
    values = state.get(operation.key, lists.get(operation.key, ()))
    if isinstance(operation, Append):
        state[operation.key] = (*values, operation.value)
        return operation
    return replace(operation, values=values)
