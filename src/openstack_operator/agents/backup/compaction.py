"""Compaction of an archive: objects of an hour become one, and those that no backup needs are removed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from .binlog import Transaction, format_meaning
from .chain import Archive, Content, Header, MissingError, UnreadableError, is_merged, span

_Result = TypeVar("_Result")
_MERGED_BYTES = 16 << 20
"""Bytes of changes in an object that is merged, of which a program has several copies in memory."""
_HOUR = 3600
"""Seconds of which one object has the changes, and age of the newest of these."""
_AT_ONCE = 8
"""Objects that are read or removed at once. Those that are removed lie side by side at the beginning of the rest."""
_MOST_NAMES = 300_000
"""Names of a chain in one run: a week of objects of two seconds. The next run goes on."""
_COVERS = 4
"""Merged objects of which one may have the changes of a part: several programs may merge at once."""


def merge_chain(archive: Archive, chain: str, now: float) -> int:
    """Merge the objects of each hour of a chain that is over for an hour; return how many are gone then. An object goes
    once another one with all of its changes is there and was read. The last one stays. Raise RunError; whatever was
    done by then, each change is in an object. `now` is in seconds since 1970.
    """
    names = list(islice(archive.names(chain), _MOST_NAMES))[:-1]
    number, parts = 0, [name for name in names if not is_merged(name)]
    for cover, leftovers in _leftovers(names).items():
        removed = _removable(archive, chain, cover, leftovers)
        _remove(archive, chain, removed)
        number += len(removed)
        removed_names = {*removed}
        parts = [name for name in parts if name not in removed_names]
    for group in _groups(archive, chain, parts, now):
        try:
            group.store(archive)
        except UnreadableError:
            # The object of an earlier run was damaged since: its parts have the changes.
            continue
        _remove(archive, chain, group.names)
        number += len(group.names)
    return number


def remove_unneeded(archive: Archive, chain: str, numbers: Sequence[int], *, is_newest: bool) -> int:
    """Remove the objects of a chain before the last changes of all backups, which have these numbers; return how many
    are gone. A backup from before the chain needs none of it. The last object of the newest chain stays: the archive
    goes on after it. Raise RunError.
    """
    reach = archive.reach(chain)
    needed = min((each for each in numbers if reach and each + 1 >= reach[0]), default=None)
    if needed is None:
        return 0
    names = list(archive.names(chain))
    old = [name for name in (names[:-1] if is_newest else names) if span(name)[1] < needed]
    _remove(archive, chain, old)
    return len(old)


@dataclass
class _HourGroup:
    """Objects side by side, and their changes, each once."""

    names: list[str]
    header: Header
    """Of the first one."""
    last: Header
    """Of the one with the last change."""
    format: bytes
    transactions: list[Transaction]
    size: int

    @classmethod
    def of(cls, content: Content) -> _HourGroup:
        """Return a group of one object."""
        changes = [*content.transactions]
        return cls([content.name], content.header, content.header, content.format, changes, _size(changes))

    def add(self, content: Content) -> bool:
        """Add an object, if it is of the same hour and history, and the group does not become too large; return False
        if not.
        """
        newest, following = self.transactions[-1], content.transactions[0]
        overlap = newest.sequence + 1 - following.sequence
        overlapping = self.transactions[-overlap:][: len(content.transactions)] if overlap > 0 else []
        changes = content.transactions[max(overlap, 0) :]
        is_next = overlap > 0 or (overlap == 0 and content.header.previous == newest.gtid)
        if (
            not is_next
            or overlap > len(self.transactions)
            or any(
                one.fingerprint != two.fingerprint for one, two in zip(overlapping, content.transactions, strict=False)
            )
            or content.header.link != self.header.link
            or format_meaning(content.format) != format_meaning(self.format)
            or following.time // _HOUR != self.hour
            or self.size + _size(changes) > _MERGED_BYTES
        ):
            return False
        self.names.append(content.name)
        if changes:
            self.transactions += changes
            self.last = content.header
            self.size += _size(changes)
        return True

    @property
    def hour(self) -> int:
        """Hour of its first change."""
        return self.transactions[0].time // _HOUR

    def is_over(self, now: float) -> bool:
        """Return True if its hour is over for an hour."""
        return (self.hour + 1) * _HOUR + _HOUR <= now

    def store(self, archive: Archive) -> None:
        """Store the changes as one object, and read it again. Raise RunError."""
        changes = self.transactions
        header = Header(
            link=self.header.link,
            previous=self.header.previous,
            first=changes[0].gtid,
            last=changes[-1].gtid,
            before_last=changes[-2].gtid if len(changes) > 1 else self.header.previous,
            fingerprint=changes[-1].fingerprint,
            count=len(changes),
            canary=self.last.canary,
        )
        archive.merge(header, self.format, changes)


def _size(changes: Sequence[Transaction]) -> int:
    return sum(len(each.events) for each in changes)


def _groups(archive: Archive, chain: str, parts: Sequence[str], now: float) -> Iterator[_HourGroup]:
    """Yield the groups of parts, until one is too young, or is gone: then another program merges the chain."""
    group: _HourGroup | None = None
    for content in _read_all(archive, chain, parts):
        if isinstance(content, MissingError):
            return
        if isinstance(content, UnreadableError):
            # What is on both sides of it is merged without it.
            if group:
                yield group
            group = None
            continue
        if content.transactions[-1].time > now - _HOUR:
            break
        if group and not group.add(content):
            yield group
            group = None
        group = group or _HourGroup.of(content)
    if group and group.is_over(now):
        yield group


def _read_all(archive: Archive, chain: str, names: Sequence[str]) -> Iterator[Content | UnreadableError]:
    def read(name: str) -> Content | UnreadableError:
        try:
            return archive.read(chain, name)
        except UnreadableError as error:
            return error

    yield from _in_batches(read, names)


def _in_batches(work: Callable[[str], _Result], items: Sequence[str]) -> Iterator[_Result]:
    """Yield results in their order. All of a batch end before the next one begins."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for begin in range(0, len(items), _AT_ONCE):
            yield from list(pool.map(work, items[begin : begin + _AT_ONCE]))


def _remove(archive: Archive, chain: str, names: Sequence[str]) -> None:
    """Remove objects, the first ones first: what is left after a crash has no holes."""
    for _ in _in_batches(lambda name: archive.remove(chain, name), names):
        pass


def _leftovers(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the parts that a run left behind which ended too soon, by the merged object that has their changes."""
    covers = [name for name in names if is_merged(name)]
    begins = [span(name)[0] for name in covers]
    leftovers: dict[str, list[str]] = {}
    for name in (each for each in names if not is_merged(each)):
        begin, end = span(name)
        position = bisect_right(begins, begin)
        for cover in reversed(covers[max(0, position - _COVERS) : position]):
            if span(cover)[1] >= end:
                leftovers.setdefault(cover, []).append(name)
                break
    return leftovers


def _removable(archive: Archive, chain: str, cover: str, parts: Sequence[str]) -> list[str]:
    """Return the parts whose changes are all in a merged object, which can be read."""
    try:
        changes = {each.sequence: each.fingerprint for each in archive.read(chain, cover).transactions}
    except UnreadableError:
        return []
    return [
        content.name
        for content in _read_all(archive, chain, parts)
        if not isinstance(content, UnreadableError)
        and all(changes.get(each.sequence) == each.fingerprint for each in content.transactions)
    ]
