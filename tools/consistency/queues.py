"""Messages of a queue as clients saw them, and what of a queue's promises they break."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from .history import Outcome

LOST, INVENTED, REFUSED = "lost message", "invented message", "delivered though refused"
REPEATED, REDELIVERED, LATE = (
    "delivered after its acknowledgment",
    "delivered twice",
    "delivered without a confirmation",
)
HARM = frozenset({LOST, INVENTED, REFUSED})
"""Anomalies that break the promises of a queue with confirmations. Each message may be delivered twice, also after its
acknowledgment: nothing tells a client that the broker knows of that.
"""
_EXAMPLES = 5


class Kind(StrEnum):
    """A thing that clients do."""

    PUBLISH = "publish"
    TAKE = "take"


class Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One thing that a client did."""

    process: int
    kind: Kind
    outcome: Outcome
    """Of a message that was published: whether the broker confirmed it. Of one that was taken: whether the client
    acknowledged it."""
    start: int
    """Microseconds of a clock that all clients share."""
    end: int
    value: int = 0
    """The message; 0 if there was none to take."""
    is_final: bool = False
    """True for what was taken when all faults were mended."""
    error: str = ""
    member: str = ""
    """Server that it was sent to, if the client knows it."""


@dataclass(frozen=True)
class Verdict:
    """All that a history shows."""

    counts: dict[str, int]
    anomalies: dict[str, list[tuple[int, ...]]]
    """Events by name, a case each, without names that do not occur."""


def encode(event: Event) -> bytes:
    """Return the line of an event, with its end."""
    return msgspec.json.encode(event) + b"\n"


def load(path: Path) -> list[Event]:
    """Return the history of a file. Raises OSError, and ValueError for a line that is no event."""
    decoder = msgspec.json.Decoder(Event)
    with path.open("rb") as file:
        return [decoder.decode(line) for line in file]


def check(history: Sequence[Event]) -> Verdict:
    """Return the anomalies of a history. Raises ValueError if a message was published twice, or if no client emptied
    the queue at the end: nothing can be concluded then.
    """
    published: dict[int, int] = {}
    deliveries: dict[int, list[int]] = defaultdict(list)
    for number, event in enumerate(history):
        if event.kind is Kind.TAKE and event.value:
            deliveries[event.value].append(number)
        elif event.kind is Kind.PUBLISH:
            if event.value in published:
                raise ValueError(f"events {published[event.value]} and {number} publish {event.value}")
            published[event.value] = number
    if not any(each.is_final and not each.value for each in history):
        raise ValueError("nobody emptied the queue at the end")
    anomalies: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for value, number in published.items():
        if value not in deliveries and history[number].outcome is Outcome.OK:
            anomalies[LOST].append((number,))
    for value, numbers in sorted(deliveries.items(), key=lambda item: item[1]):
        for name in _names(history, published.get(value), numbers):
            source = (published[value],) if value in published else ()
            anomalies[name].append((*source, *numbers))
    outcomes = Counter((each.kind, each.outcome) for each in history if each.kind is Kind.PUBLISH)
    return Verdict(
        {
            **{f"published, {each.value}": outcomes[Kind.PUBLISH, each] for each in Outcome},
            "deliveries": sum(len(each) for each in deliveries.values()),
            "left at the end": sum(1 for each in history if each.is_final and each.value),
        },
        {name: anomalies[name] for name in (LOST, INVENTED, REFUSED, REPEATED, REDELIVERED, LATE) if name in anomalies},
    )


def _names(history: Sequence[Event], publication: int | None, takes: Sequence[int]) -> Iterator[str]:
    if publication is None:
        yield INVENTED
    elif history[publication].outcome is Outcome.FAILED:
        yield REFUSED
    elif history[publication].outcome is Outcome.UNKNOWN:
        yield LATE
    if len(takes) > 1:
        acknowledged_at = min((history[n].end for n in takes if history[n].outcome is Outcome.OK), default=None)
        is_again = acknowledged_at is not None and any(history[n].start > acknowledged_at for n in takes)
        yield REPEATED if is_again else REDELIVERED


def explain(history: Sequence[Event], verdict: Verdict) -> Iterator[str]:
    """Yield lines for a reader: counts, then each anomaly with events that prove it."""
    yield ", ".join(f"{count:,} {name}" for name, count in verdict.counts.items())
    for name, cases in verdict.anomalies.items():
        yield f"{name}: {len(cases):,}"
        for case in cases[:_EXAMPLES]:
            yield f"  message {history[case[0]].value}"
            yield from (f"    {describe(history[number])}" for number in case)
    if not verdict.anomalies:
        yield "no anomaly"


def describe(event: Event) -> str:
    """Return an event in one line."""
    span = f"{event.start / 1e6:.6f} to {event.end / 1e6:.6f} s"
    where = f" at {event.member}" if event.member else ""
    problem = f": {event.error}" if event.error else ""
    return f"{event.kind.value}, {event.outcome.value}, {span}, process {event.process}{where}{problem}"
