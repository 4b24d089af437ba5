"""The checker of queues finds each anomaly, in histories by hand and planted in random ones, and no other."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from tools.consistency import queues
from tools.consistency.history import Outcome
from tools.consistency.queues import Event, Kind

SEEDS = range(3)


@dataclass
class Script:
    """History that is written down event by event, each after the one before."""

    history: list[Event] = field(default_factory=list[Event])

    def publish(self, value: int, outcome: Outcome = Outcome.OK) -> int:
        return self._add(Kind.PUBLISH, value, outcome)

    def take(self, value: int, outcome: Outcome = Outcome.OK, *, is_final: bool = False) -> int:
        return self._add(Kind.TAKE, value, outcome, is_final=is_final)

    def _add(self, kind: Kind, value: int, outcome: Outcome, *, is_final: bool = False) -> int:
        number = len(self.history)
        self.history.append(Event(0, kind, outcome, 10 * number, 10 * number + 5, value, is_final=is_final))
        return number

    def judged(self) -> dict[str, list[tuple[int, ...]]]:
        """Return the anomalies, once the queue was empty at the end."""
        self.take(0, is_final=True)
        return queues.check(self.history).anomalies


def test_message_that_nobody_took_is_lost() -> None:
    script = Script()
    lost = script.publish(1)
    script.publish(2)
    script.take(2)
    assert script.judged() == {queues.LOST: [(lost,)]}


def test_message_left_at_the_end_is_not_lost() -> None:
    script = Script()
    script.publish(1)
    script.take(1, is_final=True)
    assert script.judged() == {}


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.FAILED])
def test_message_without_a_confirmation_may_be_lost(outcome: Outcome) -> None:
    script = Script()
    script.publish(1, outcome)
    assert script.judged() == {}


def test_message_without_a_confirmation_may_come() -> None:
    script = Script()
    numbers = (script.publish(1, Outcome.UNKNOWN), script.take(1))
    assert script.judged() == {queues.LATE: [numbers]}


def test_refused_message_must_not_come() -> None:
    script = Script()
    numbers = (script.publish(1, Outcome.FAILED), script.take(1))
    assert script.judged() == {queues.REFUSED: [numbers]}


def test_message_that_nobody_published_is_invented() -> None:
    script = Script()
    number = script.take(7)
    assert script.judged() == {queues.INVENTED: [(number,)]}


def test_message_may_come_again_before_its_acknowledgment() -> None:
    script = Script()
    numbers = (script.publish(1), script.take(1, Outcome.UNKNOWN), script.take(1))
    assert script.judged() == {queues.REDELIVERED: [numbers]}


def test_message_that_comes_after_its_acknowledgment_is_named() -> None:
    script = Script()
    numbers = (script.publish(1), script.take(1), script.take(1))
    assert script.judged() == {queues.REPEATED: [numbers]}


def test_message_whose_acknowledgment_failed_is_not_lost() -> None:
    script = Script()
    script.publish(1)
    script.take(1, Outcome.UNKNOWN)
    assert script.judged() == {}


def test_history_without_an_empty_queue_proves_nothing() -> None:
    script = Script()
    script.publish(1)
    with pytest.raises(ValueError, match="emptied"):
        queues.check(script.history)


def test_two_messages_of_one_number_prove_nothing() -> None:
    script = Script()
    script.publish(1)
    script.publish(1)
    with pytest.raises(ValueError, match="events 0 and 1 publish 1"):
        script.judged()


def simulated(seed: int, number: int = 300) -> list[Event]:
    """Return the history of a queue without faults, some of whose clients get no answer."""
    dice, script, waiting = random.Random(seed), Script(), list[int]()
    for value in range(1, number):
        outcome = dice.choices([*Outcome], [90, 5, 5])[0]
        script.publish(value, outcome)
        if outcome is Outcome.OK:
            waiting.append(value)
        if waiting and dice.random() < 0.9:
            script.take(waiting.pop(0))
    for value in waiting:
        script.take(value, is_final=True)
    script.take(0, is_final=True)
    return script.history


def lose(history: list[Event], dice: random.Random) -> None:
    """Remove the delivery of a message."""
    del history[dice.choice([n for n, each in enumerate(history) if each.kind is Kind.TAKE and each.value])]


def invent(history: list[Event], dice: random.Random) -> None:
    """Remove the publication of a message that was taken."""
    value = dice.choice([each.value for each in history if each.kind is Kind.TAKE and each.value])
    history[:] = [each for each in history if (each.kind, each.value) != (Kind.PUBLISH, value)]


def refuse(history: list[Event], dice: random.Random) -> None:
    """Tell the client of a message that came that it was refused."""
    value = dice.choice([each.value for each in history if each.kind is Kind.TAKE and each.value])
    number = next(n for n, each in enumerate(history) if (each.kind, each.value) == (Kind.PUBLISH, value))
    history[number] = replace(history[number], outcome=Outcome.FAILED)


def repeat(history: list[Event], dice: random.Random) -> None:
    """Deliver a message a second time, long after the first."""
    event = dice.choice([each for each in history if each.kind is Kind.TAKE and each.value])
    end = history[-1].end
    history.append(replace(event, start=end + 1, end=end + 2))


FAULTS: dict[str, Callable[[list[Event], random.Random], None]] = {
    queues.LOST: lose,
    queues.INVENTED: invent,
    queues.REFUSED: refuse,
    queues.REPEATED: repeat,
}


@pytest.mark.parametrize("seed", SEEDS)
def test_queue_without_faults_has_no_anomaly(seed: int) -> None:
    verdict = queues.check(simulated(seed))
    assert verdict.anomalies == {}
    assert verdict.counts["published, ok"] == verdict.counts["deliveries"]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", FAULTS)
def test_fault_planted_in_a_queue_is_found(name: str, seed: int) -> None:
    history = simulated(seed)
    FAULTS[name](history, random.Random(seed))
    assert len(queues.check(history).anomalies[name]) == 1


def test_each_case_is_explained_with_its_events() -> None:
    script = Script()
    script.publish(1)
    script.take(0, is_final=True)
    lines = [*queues.explain(script.history, queues.check(script.history))]
    assert lines[1:] == ["lost message: 1", "  message 1", "    publish, ok, 0.000000 to 0.000005 s, process 0"]


def test_messages_are_the_same_after_they_were_stored(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b"".join(queues.encode(each) for each in simulated(1)))
    assert queues.load(path) == simulated(1)
