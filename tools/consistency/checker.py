"""Anomalies in a history of list appends, found as Elle finds them (Kingsbury and Alvaro, VLDB 2020)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from .graph import RT, RW, WR, WW, Builder, Search, Step, components
from .history import Append, Outcome, Read, Transaction

LOST, VANISHED, DIVERGED = "lost append", "vanished value", "diverged members"
ABORTED, INTERMEDIATE, UNWRITTEN = "aborted read (G1a)", "intermediate read (G1b)", "unwritten value"
DUPLICATE, INCOMPATIBLE, INTERNAL = "duplicate", "incompatible orders", "internal inconsistency"
LOST_UPDATE, STALE = "lost update (P4)", "stale read"
CYCLES = (
    ("G0", WW, WW),
    ("G1c", WR, WW | WR),
    ("G-single", RW, WW | WR),
    ("G2-item", RW, WW | WR | RW),
    ("G0-realtime", WW, WW | RT),
    ("G1c-realtime", WR, WW | WR | RT),
    ("G-single-realtime", RW, WW | WR | RT),
    ("G2-item-realtime", RW, WW | WR | RW | RT),
)
"""Cycles by name: the edge that each begins with, and the kinds of the path back. The worst come first, and a set of
transactions is reported under the first name only."""
ANOMALIES = (
    *(LOST, VANISHED, DIVERGED, ABORTED, INTERMEDIATE, UNWRITTEN, DUPLICATE, INCOMPATIBLE, INTERNAL, LOST_UPDATE),
    *(name for name, _, _ in CYCLES),
    STALE,
)
_EXAMPLES = 5
_BUDGET, _PATH = 20_000_000, 20_000
"""Edges that are looked at for all cycles of one name, some ten seconds of CPU, and for one of them."""
_WORDS = {WW: "wrote before", WR: "was read by", RW: "did not see", RT: "ended before"}


@dataclass
class Anomaly:
    """One kind of anomaly: how often it occurs, and the first cases."""

    count: int = 0
    is_complete: bool = True
    """False if there may be more: the search for cycles is limited."""
    examples: list[tuple[str, tuple[int, ...]]] = field(default_factory=list[tuple[str, tuple[int, ...]]])
    """The problem in words, and the numbers of the transactions that prove it."""

    def add(self, problem: str, *proof: int) -> None:
        self.count += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append((problem, proof))


@dataclass
class Verdict:
    """All that a history shows."""

    transactions: dict[str, int]
    """Number by outcome; final reads do not count."""
    appends: int
    """Acknowledged appends."""
    unjudged: int
    """Acknowledged appends to keys that no final read has: they may be lost."""
    anomalies: dict[str, Anomaly]
    """By name, without those that do not occur, the worst first."""


def check(history: Sequence[Transaction]) -> Verdict:
    """Return the anomalies of a history. Raises ValueError if two appends to a key have the same value: nothing can be
    concluded then.
    """
    return _Check(history).verdict()


class _Check:
    """The check of one history."""

    def __init__(self, history: Sequence[Transaction]) -> None:
        self.history = history
        self.anomalies = {name: Anomaly() for name in ANOMALIES}
        self.writers: dict[int, dict[int, int]] = defaultdict(dict)
        """Number of the transaction by key and value."""
        self.last_values: dict[tuple[int, int], int] = {}
        """Last value of those transactions that append several to a key, by number and key."""
        self.reads: list[tuple[int, int, int, tuple[int, ...]]] = []
        """Number, key, version, and what was read. The version is the length without the transaction's own appends; -1
        for a read that contradicts the transaction itself."""
        self.orders: dict[int, tuple[int, ...]] = {}
        """Versions of each key, in order: those of the longest final read, or of the longest read if there is none."""
        self._order_readers: dict[int, int] = {}
        self._finals: dict[int, dict[tuple[int, ...], int]] = defaultdict(dict)
        """Final reads of each key, with the number of the transaction."""
        self._present: dict[int, frozenset[int]] = {}
        """Values in the final reads of each key."""
        self._vanished: set[tuple[int, int]] = set()
        self._unjudged = 0

    def verdict(self) -> Verdict:
        self._find_writers()
        for number, transaction in enumerate(self.history):
            if transaction.outcome is Outcome.OK:
                self._find_reads(number, transaction)
        self._find_finals()
        self._find_lost()
        self._find_orders()
        usable = [*self._judged_reads()]
        self._find_lost_updates(usable)
        stale = self._find_stale(usable)
        self._find_cycles(self._graph(usable), stale)
        return Verdict(
            {each.value: self._count(each) for each in Outcome},
            sum(1 for _ in self._acknowledged()),
            self._unjudged,
            {name: anomaly for name, anomaly in self.anomalies.items() if anomaly.count},
        )

    def _count(self, outcome: Outcome) -> int:
        return sum(1 for each in self.history if each.outcome is outcome and not each.is_final)

    def _find_writers(self) -> None:
        for number, transaction in enumerate(self.history):
            for each in transaction.operations:
                if not isinstance(each, Append):
                    continue
                written = self.writers[each.key]
                if each.value in written:
                    raise ValueError(
                        f"transactions {written[each.value]} and {number} append {each.value} to {each.key}"
                    )
                written[each.value] = number
            appends = [each for each in transaction.operations if isinstance(each, Append)]
            if len(appends) > 1:
                self.last_values |= {(number, each.key): each.value for each in appends}

    def _find_reads(self, number: int, transaction: Transaction) -> None:
        """Find the first read of each key, and compare the others with it and with the transaction's own appends."""
        first_reads: dict[int, tuple[int, ...]] = {}
        own_appends: dict[int, tuple[int, ...]] = {}
        for each in transaction.operations:
            key = each.key
            if isinstance(each, Append):
                own_appends[key] = (*own_appends.get(key, ()), each.value)
                continue
            if (values := each.values) is None:
                continue
            mine = own_appends.get(key, ())
            if key in first_reads:
                if values != first_reads[key] + mine:
                    problem = f"key {key}: expected {_text(first_reads[key] + mine)}, read {_text(values)}"
                    self.anomalies[INTERNAL].add(problem, number)
                    self.reads.append((number, key, -1, values))
                continue
            place = len(values) - len(mine)
            if mine and values[max(place, 0) :] != mine:
                problem = f"key {key}: appended {_text(mine)}, read {_text(values)}"
                self.anomalies[INTERNAL].add(problem, number)
                self.reads.append((number, key, -1, values))
                continue
            first_reads[key] = values[:place]
            self.reads.append((number, key, place, values))

    def _find_orders(self) -> None:
        for number, key, _, values in self.reads:
            is_candidate = key not in self._finals or self.history[number].is_final
            if is_candidate and len(values) > len(self.orders.get(key, ())):
                self.orders[key], self._order_readers[key] = values, number
        for key, order in self.orders.items():
            self._check_values(key, order, self._order_readers[key])

    def _check_values(self, key: int, values: tuple[int, ...], number: int) -> None:
        written = self.writers[key]
        if len(set(values)) < len(values):
            twice = sorted({value for value in values if values.count(value) > 1})
            self.anomalies[DUPLICATE].add(f"key {key}: {_text(twice)} more than once", number)
        for value in values:
            if (writer := written.get(value)) is None:
                self.anomalies[UNWRITTEN].add(f"key {key}: nobody appended {value}", number)
            elif self.history[writer].outcome is Outcome.FAILED:
                self.anomalies[ABORTED].add(f"key {key}: {value} of a failed transaction", number, writer)

    def _judged_reads(self) -> Iterator[tuple[int, int, int]]:
        """Yield the number, the key, and the version of each read that agrees with the order of its key."""
        for number, key, version, values in self.reads:
            order = self.orders.get(key, ())
            if order[: len(values)] != values and self._has_vanished(number, key, values):
                continue
            if order[: len(values)] != values:
                problem = f"key {key}: {_difference(values, order)}"
                self.anomalies[INCOMPATIBLE].add(problem, number, self._order_readers[key])
                self._check_values(key, values, number)
                continue
            if version > 0:
                last = values[version - 1]
                writer = self.writers[key].get(last)
                if writer is not None and self.last_values.get((writer, key), last) != last:
                    problem = f"key {key}: {last} is not the last append of its transaction"
                    self.anomalies[INTERMEDIATE].add(problem, number, writer)
            if version >= 0:
                yield number, key, version

    def _acknowledged(self) -> Iterator[tuple[int, Append]]:
        for number, transaction in enumerate(self.history):
            if transaction.outcome is Outcome.OK:
                yield from ((number, each) for each in transaction.operations if isinstance(each, Append))

    def _has_vanished(self, number: int, key: int, values: tuple[int, ...]) -> bool:
        """Return True if a read has values that no final read has, and agrees with the order without them."""
        if key not in self._present:
            return False
        rest = tuple(value for value in values if value in self._present[key])
        if len(rest) == len(values) or self.orders.get(key, ())[: len(rest)] != rest:
            return False
        final = next(iter(self._finals[key].values()))
        for value in sorted({*values} - {*rest}):
            if (key, value) not in self._vanished:
                self._vanished.add((key, value))
                problem = f"key {key}: {value} was read, and is in no final read"
                writer = self.writers[key].get(value)
                self.anomalies[VANISHED].add(problem, *(() if writer is None else (writer,)), number, final)
        return True

    def _find_finals(self) -> None:
        for number, transaction in enumerate(self.history):
            if transaction.is_final and transaction.outcome is Outcome.OK:
                for each in transaction.operations:
                    if isinstance(each, Read) and each.values is not None:
                        self._finals[each.key].setdefault(each.values, number)
        self._present = {key: frozenset[int]().union(*versions) for key, versions in self._finals.items()}
        for key, versions in self._finals.items():
            if len(versions) > 1:
                self.anomalies[DIVERGED].add(f"key {key}: {len(versions)} different final reads", *versions.values())

    def _find_lost(self) -> None:
        for number, append in self._acknowledged():
            if append.key not in self._present:
                self._unjudged += 1
            elif append.value not in self._present[append.key]:
                reader = next(iter(self._finals[append.key].values()))
                problem = f"key {append.key}: {append.value} was acknowledged, and is in no final read"
                self.anomalies[LOST].add(problem, number, reader)

    def _find_lost_updates(self, reads: Iterable[tuple[int, int, int]]) -> None:
        """Find transactions that read the same version of a key, and append to it then."""
        updates: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number, key, version in reads:
            operations = self.history[number].operations
            if len(operations) > 1:
                first = next(each for each in operations if each.key == key)
                if isinstance(first, Read) and any(isinstance(each, Append) and each.key == key for each in operations):
                    updates[key, version].append(number)
        for (key, version), numbers in updates.items():
            if len(numbers) > 1:
                problem = f"key {key}: {len(numbers)} transactions read version {version} and append to it"
                self.anomalies[LOST_UPDATE].add(problem, *numbers)

    def _find_stale(self, reads: Sequence[tuple[int, int, int]]) -> set[tuple[int, int]]:
        """Find reads that lack what was acknowledged before they began; return these pairs of reader and writer."""
        earliest: dict[int, list[tuple[int, int]]] = {}
        for key, order in self.orders.items():
            best: tuple[int, int] = (1 << 62, -1)
            column: list[tuple[int, int]] = [best]
            for value in reversed(order):
                writer = self.writers[key].get(value)
                if writer is not None and self.history[writer].outcome is Outcome.OK:
                    best = min(best, (self.history[writer].end, writer))
                column.append(best)
            earliest[key] = column[::-1]
        pairs: set[tuple[int, int]] = set()
        for number, key, version in reads:
            if key not in earliest:
                continue
            end, writer = earliest[key][version]
            late = self.history[number].start - end
            if late > 0 and writer != number:
                problem = f"key {key}: lacks what was acknowledged {late / 1000:.1f} ms before"
                self.anomalies[STALE].add(problem, number, writer)
                pairs.add((number, writer))
        return pairs

    def _graph(self, reads: Iterable[tuple[int, int, int]]) -> Builder:
        graph = Builder(len(self.history))
        nodes: dict[int, list[int]] = {}
        for key, order in self.orders.items():
            if len(set(order)) < len(order):
                # Nobody knows which of both is the version.
                continue
            written = self.writers[key]
            # What no transaction or a failed one wrote is reported, and orders nothing.
            writers = [written.get(value, -1) for value in order]
            nodes[key] = [n if n >= 0 and self.history[n].outcome is not Outcome.FAILED else -1 for n in writers]
            for earlier, later in zip(nodes[key], nodes[key][1:], strict=False):
                if earlier >= 0 and later >= 0:
                    graph.add(earlier, WW, later)
        for number, key, version in reads:
            versions = nodes.get(key, [])
            if 0 < version <= len(versions) and versions[version - 1] >= 0:
                graph.add(versions[version - 1], WR, number)
            if version < len(versions) and versions[version] >= 0:
                graph.add(number, RW, versions[version])
        graph.order_in_time(
            (number, each.start, each.end if each.outcome is Outcome.OK else None)
            for number, each in enumerate(self.history)
            if each.outcome is not Outcome.FAILED
        )
        return graph

    def _find_cycles(self, builder: Builder, stale: set[tuple[int, int]]) -> None:
        graph = builder.edges
        suspects = [node for each in components(graph, range(len(graph)), WW | WR | RW | RT) for node in each]
        reported: set[frozenset[int]] = set()
        for name, first, rest in CYCLES if suspects else ():
            anomaly, budget = self.anomalies[name], _BUDGET
            known_pairs = stale if rest & RT else set[tuple[int, int]]()
            for component in components(graph, suspects, first | rest):
                search = Search(graph, builder.transactions, component, rest)
                search.budget = budget
                for source, target in search.edges(first):
                    path = None if (source, target) in known_pairs else search.path(target, source, _PATH)
                    cycle = [(source, first, target), *(path or ())]
                    members = frozenset(step[0] for step in cycle)
                    if path and members not in reported and _has_name(cycle, name):
                        reported.add(members)
                        anomaly.add(_chain(cycle), *(step[0] for step in cycle))
                budget = search.budget
                anomaly.is_complete = anomaly.is_complete and search.is_complete


def _has_name(cycle: Sequence[Step], name: str) -> bool:
    """Return False if the cycle belongs to a stronger name, under which it was found or the search ended early."""
    kinds = [kind for _, kind, _ in cycle]
    return kinds.count(RW) >= (2 if "G2" in name else 0) and (RT in kinds or "realtime" not in name)


def _chain(cycle: Sequence[Step]) -> str:
    return ", ".join(f"T{source} {_WORDS[kind]} T{target}" for source, kind, target in cycle)


def _text(values: Sequence[int]) -> str:
    words = [str(value) for value in values]
    return f"[{', '.join(words if len(words) <= 12 else [*words[:4], '…', *words[-6:]])}]"


def _difference(values: tuple[int, ...], order: tuple[int, ...]) -> str:
    place = next((n for n, (one, two) in enumerate(zip(values, order, strict=False)) if one != two), len(order))
    return f"from place {place} on, {_text(values[place:])} and {_text(order[place:])}"


def explain(history: Sequence[Transaction], verdict: Verdict) -> Iterator[str]:
    """Yield lines for a reader: counts, then each anomaly with the transactions that prove it."""
    yield ", ".join(f"{count:,} {name}" for name, count in verdict.transactions.items())
    yield f"{verdict.appends:,} acknowledged appends, {verdict.unjudged:,} of them without a final read"
    for name, anomaly in verdict.anomalies.items():
        yield f"{name}: {anomaly.count:,}{'' if anomaly.is_complete else ' or more'}"
        for problem, proof in anomaly.examples:
            yield f"  {problem}"
            yield from (f"    T{number} {describe(history[number])}" for number in proof)
    if not verdict.anomalies:
        yield "no anomaly"


def describe(transaction: Transaction) -> str:
    """Return a transaction in one line."""
    operations = [
        f"append {each.key} {each.value}"
        if isinstance(each, Append)
        else f"read {each.key} {'?' if each.values is None else _text(each.values)}"
        for each in transaction.operations
    ]
    span = f"{transaction.start / 1e6:.6f} to {transaction.end / 1e6:.6f} s"
    where = f" at {transaction.member}" if transaction.member else ""
    return f"{transaction.outcome.value}, {span}, process {transaction.process}{where}: {'; '.join(operations)}"
