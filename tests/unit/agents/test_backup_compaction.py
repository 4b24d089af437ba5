"""Compaction of an archive: no crash, no second program and no damage takes a change from a reader."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openstack_operator.agents.backup.binlog import Canary, Transaction
from openstack_operator.agents.backup.bucket import DeletionRefusedError
from openstack_operator.agents.backup.chain import Archive, Header, Link, is_merged, span
from openstack_operator.agents.backup.compaction import merge_chain, remove_unneeded
from openstack_operator.agents.backup.objects import FolderObjects
from openstack_operator.agents.backup.replay import plan_replay, walk
from openstack_operator.agents.backup.retention import first_recoverable
from openstack_operator.agents.backup.run import RunError
from tests.unit.agents import binary_logs as logs
from tests.unit.agents.test_backup_archive import parsed

KEY = b"k" * 32
HOUR = 3600
BEGIN = 1_800_000_000 // HOUR * HOUR
"""The first second of an hour."""
LINK = Link("20270115T080000Z-00000000000000aa", "0-7-0")
CHAIN = LINK.chain


class Crash(BaseException):
    """The end of a process."""


class Store:
    """Objects in memory, whose process may end before or after any write or removal."""

    def __init__(self, bodies: dict[str, bytes] | None = None, steps: int = 10**9) -> None:
        self.bodies = {} if bodies is None else bodies
        self.steps = steps
        self.before: Callable[[str], None] = lambda name: None
        """Called before an object is read."""

    def _step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise Crash

    def put_new(self, name: str, body: bytes) -> bool:
        self._step()
        is_new = name not in self.bodies
        self.bodies.setdefault(name, body)
        self._step()
        return is_new

    def read(self, name: str) -> bytes | None:
        self.before(name)
        return self.bodies.get(name)

    def remove(self, name: str) -> None:
        self._step()
        self.bodies.pop(name, None)

    def names(self, folder: str, after: str = "", limit: int = 1000) -> Sequence[str]:
        names = sorted(name.removeprefix(f"{folder}/") for name in [*self.bodies] if name.startswith(f"{folder}/"))
        return [name for name in names if name > after][:limit]

    def folders(self, folder: str) -> Sequence[str]:
        return sorted({name.removeprefix(f"{folder}/").split("/")[0] for name in [*self.bodies]})


def archive_of(store: Store | FolderObjects) -> Archive:
    return Archive(store, KEY, "openstack", "mariadb")


def changes(count: int, seconds: int = 600, seed: bytes = b"") -> list[Transaction]:
    """So many changes with the numbers from 1 on, one each `seconds`; each third one is a canary."""
    events = [
        logs.canary(number, BEGIN + number * seconds, number)
        if number % 3 == 0
        else logs.insert(number, BEGIN + number * seconds, "cloud.numbers", struct.pack("<IQQ", number, 0, 0) + seed)
        for number in range(1, count + 1)
    ]
    return parsed(logs.file(events))


def put(archive: Archive, transactions: Sequence[Transaction], begin: int, end: int, created: int = 0) -> None:
    """Store the changes from one number to another as an object, as an archiver does."""
    part, before = transactions[begin - 1 : end], transactions[begin - 2].gtid if begin > 1 else LINK.begins
    canaries = [each for one in transactions[:end] for each in one.canaries]
    header = Header(
        link=LINK,
        previous=before,
        first=part[0].gtid,
        last=part[-1].gtid,
        before_last=part[-2].gtid if len(part) > 1 else before,
        fingerprint=part[-1].fingerprint,
        count=len(part),
        canary=canaries[-1] if canaries else None,
    )
    archive.append(header, logs.format_event(created=created), part)


def filled(store: Store | FolderObjects, cuts: Sequence[int], seconds: int = 600) -> list[Transaction]:
    """Store changes in objects that end with these numbers; return the changes."""
    transactions = changes(cuts[-1], seconds)
    for begin, end in zip((0, *cuts), cuts, strict=False):
        put(archive_of(store), transactions, begin + 1, end, created=end)
    return transactions


def later(hours: float) -> float:
    return BEGIN + hours * HOUR


def replayed(store: Store | FolderObjects, base: int = 0) -> list[tuple[str, bytes]]:
    """What a restore from a backup makes."""
    walked = walk(archive_of(store), CHAIN, f"0-7-{base}")
    return [(each.transaction.gtid, each.transaction.events) for each in walked if not each.is_stored]


def expected(transactions: Sequence[Transaction], base: int = 0) -> list[tuple[str, bytes]]:
    return [(each.gtid, each.events) for each in transactions[base:]]


def spans(store: Store | FolderObjects) -> list[tuple[int, int]]:
    return [span(name) for name in archive_of(store).names(CHAIN)]


def test_objects_of_an_hour_become_one() -> None:
    store = Store()
    transactions = filled(store, range(1, 31))
    # Changes 1 to 5 are of the first hour, then six of each.
    assert merge_chain(archive_of(store), CHAIN, later(5)) == 23
    assert spans(store)[:5] == [(1, 5), (6, 11), (12, 17), (18, 23), (24, 24)]
    assert replayed(store) == expected(transactions)
    assert merge_chain(archive_of(store), CHAIN, later(5)) == 0
    tail = archive_of(store).tail(CHAIN)
    assert tail
    assert (tail.last, tail.before_last, tail.canary) == ("0-7-30", "0-7-29", Canary(30, (BEGIN + 30 * 600) * 10**6))


def test_the_last_object_stays_however_old_it_is() -> None:
    store = Store()
    transactions = filled(store, [2, 4, 6, 8])
    names = list(archive_of(store).names(CHAIN))
    merge_chain(archive_of(store), CHAIN, later(10**6))
    assert list(archive_of(store).names(CHAIN))[-1] == names[-1]
    assert replayed(store) == expected(transactions)


def test_a_merged_object_has_the_header_of_its_parts() -> None:
    store = Store()
    transactions = filled(store, [2, 4, 5, 8])
    merge_chain(archive_of(store), CHAIN, later(9))
    start = archive_of(store).start(CHAIN)
    assert start
    assert (start.previous, start.first, start.last, start.before_last) == ("0-7-0", "0-7-1", "0-7-5", "0-7-4")
    assert (start.fingerprint, start.count) == (transactions[4].fingerprint, 5)
    assert start.canary == Canary(3, (BEGIN + 1800) * 10**6)


def test_objects_of_another_format_are_not_merged_with_others() -> None:
    store = Store()
    transactions = changes(9, 1)
    archive = archive_of(store)
    for number in (1, 2, 3):
        put(archive, transactions, number, number)
    other = transactions[3]
    header = Header(LINK, "0-7-3", other.gtid, other.gtid, "0-7-3", other.fingerprint, 1, None)
    archive.append(header, logs.format_event().replace(b"11.8.9", b"12.0.1"), [other])
    for number in (5, 6, 7):
        put(archive, transactions, number, number)
    merge_chain(archive, CHAIN, later(9))
    assert spans(store) == [(1, 3), (4, 4), (5, 6), (7, 7)]
    assert replayed(store) == expected(transactions[:7])


@given(
    cuts=st.sets(st.integers(1, 40), min_size=2).map(sorted),
    seconds=st.sampled_from([1, 200, 1700, 9000]),
    hours=st.floats(0, 30),
    data=st.data(),
)
@settings(max_examples=15, deadline=None)
def test_a_merged_chain_replays_to_the_same_changes(
    cuts: list[int], seconds: int, hours: float, data: st.DataObject
) -> None:
    """Also if other objects have some of the changes, as those of a second archiver, and after any crashes."""
    store = Store()
    transactions = filled(store, cuts, seconds)
    for begin, end in data.draw(st.lists(st.tuples(st.integers(1, cuts[-1]), st.integers(1, cuts[-1])), max_size=3)):
        if begin <= end:
            put(archive_of(store), transactions, begin, end)
    for steps in data.draw(st.lists(st.integers(0, 30), max_size=4)):
        run(Store(store.bodies, steps), hours)
        check(store, transactions)
    run(store, hours)
    check(store, transactions)


def run(store: Store, hours: float) -> bool:
    """Merge; return False after a crash."""
    try:
        merge_chain(archive_of(store), CHAIN, later(hours))
    except Crash:
        return False
    return True


def check(store: Store, transactions: Sequence[Transaction]) -> None:
    """Check that a reader finds each change once, from each backup."""
    for base in (0, len(transactions) // 2):
        assert replayed(store, base) == expected(transactions, base)
    tail = archive_of(store).tail(CHAIN)
    assert tail
    assert tail.last == transactions[-1].gtid


def test_a_crash_at_any_place_leaves_a_readable_chain() -> None:
    whole = Store()
    transactions = filled(whole, range(1, 14))
    for steps in range(100):
        store = Store(dict(whole.bodies), steps)
        is_over = run(store, 9)
        check(store, transactions)
        # The next run completes it, and leaves no part beside its object.
        store.steps = 10**9
        assert run(store, 9)
        check(store, transactions)
        assert [each for each in spans(store) if each[0] == each[1]] == [(12, 12), (13, 13)]
        if is_over:
            return
    raise AssertionError("the last run was to end")


@pytest.mark.parametrize("at", range(1, 30, 3))
def test_two_programs_that_merge_at_once_lose_no_change(at: int) -> None:
    """The second one runs while the first one reads its object number `at`."""
    bodies: dict[str, bytes] = {}
    transactions = filled(Store(bodies), range(1, 14))
    slow, reads = Store(bodies), [0]

    def before(_: str) -> None:
        reads[0] += 1
        if reads[0] == at:
            run(Store(bodies), 9)
            check(Store(bodies), transactions)

    slow.before = before
    run(slow, 9)
    check(Store(bodies), transactions)


def test_a_reader_beside_a_program_that_merges_reads_each_change_once() -> None:
    for at in range(1, 20, 3):
        bodies: dict[str, bytes] = {}
        transactions = filled(Store(bodies), range(1, 14))
        reader, reads = Store(bodies), [0]

        def before(_: str, at: int = at, reads: list[int] = reads, bodies: dict[str, bytes] = bodies) -> None:
            reads[0] += 1
            if reads[0] == at:
                run(Store(bodies), 9)

        reader.before = before
        assert replayed(reader, 2) == expected(transactions, 2)


def merged_name(store: Store) -> str:
    return next(name for name in store.bodies if is_merged(name.rpartition("/")[2]))


def crashed() -> tuple[Store, list[Transaction]]:
    """A chain whose parts are all there beside the object with their changes."""
    store = Store()
    transactions = filled(store, [1, 2, 3, 4, 5, 13])
    store.steps = 2
    assert not run(store, 9)
    store.steps = 10**9
    assert spans(store)[:2] == [(1, 1), (1, 5)]
    return store, transactions


@pytest.mark.security
def test_a_merged_object_that_was_changed_is_refused_and_its_parts_stay() -> None:
    store, transactions = crashed()
    name = merged_name(store)
    body = bytearray(store.bodies[name])
    body[len(body) // 2] ^= 1
    store.bodies[name] = bytes(body)
    assert run(store, 9)
    assert len(spans(store)) == 7
    check(store, transactions)
    # Without its parts, nobody takes it for the changes.
    for number in (2, 3):
        del store.bodies[next(each for each in store.bodies if f"{number:020}-{number:020}" in each)]
    with pytest.raises(RunError, match=r"merged.* is damaged"):
        replayed(store, 0)


@pytest.mark.security
def test_a_merged_object_without_a_change_of_a_part_removes_no_part() -> None:
    """Such as one of another history."""
    store, transactions = crashed()
    strange = changes(5, seed=b"other")[1]
    header = Header(LINK, "0-7-1", strange.gtid, strange.gtid, "0-7-1", strange.fingerprint, 1, None)
    archive_of(store).append(header, logs.format_event(), [strange])
    run(store, 9)
    # Both histories are there, and a restore says so.
    assert (2, 2) in spans(store)
    with pytest.raises(RunError, match="has two different changes 0-7-2"):
        replayed(store, 0)
    assert len(transactions) == 13


def test_a_store_that_loses_what_it_took_keeps_the_parts() -> None:
    class Forgetful(Store):
        def read(self, name: str) -> bytes | None:
            return None if is_merged(name.rpartition("/")[2]) else super().read(name)

    store = Forgetful()
    filled(store, [1, 2, 3, 13])
    run(store, 9)
    assert [each for each in spans(store) if each[0] == each[1]] == [(1, 1), (2, 2), (3, 3)]


# Removal.


def test_objects_before_the_oldest_backup_go() -> None:
    store = Store()
    transactions = filled(store, range(2, 31, 2))
    merge_chain(archive_of(store), CHAIN, later(4))
    assert remove_unneeded(archive_of(store), CHAIN, [14, 20], is_newest=True) == 2
    # That with the last change of the backup stays, also if it begins before.
    assert spans(store)[0] == (13, 18)
    for base in (14, 20):
        assert replayed(store, base) == expected(transactions, base)
    assert remove_unneeded(archive_of(store), CHAIN, [14, 20], is_newest=True) == 0
    # A backup from before the chain needs none of it, and none needs a chain that has no backup.
    assert remove_unneeded(archive_of(store), CHAIN, [5, 20], is_newest=True) == 1
    assert remove_unneeded(archive_of(store), CHAIN, [5], is_newest=False) == 0
    assert remove_unneeded(archive_of(store), CHAIN, [], is_newest=False) == 0
    assert remove_unneeded(archive_of(store), "20270115T080000Z-00000000000000bb", [20], is_newest=False) == 0


def test_the_live_end_stays_and_an_earlier_chain_goes() -> None:
    for is_newest, rest in ((True, [(5, 6)]), (False, [])):
        store = Store()
        filled(store, [2, 4, 6])
        remove_unneeded(archive_of(store), CHAIN, [99], is_newest=is_newest)
        assert spans(store) == rest


@pytest.mark.parametrize("steps", range(9))
def test_a_crash_of_a_removal_leaves_no_hole(steps: int) -> None:
    whole = Store()
    transactions = filled(whole, range(1, 14))
    store = Store(dict(whole.bodies), steps)
    with pytest.raises(Crash):
        remove_unneeded(archive_of(store), CHAIN, [11], is_newest=True)
    assert replayed(store, 11) == expected(transactions, 11)


def test_a_backup_of_a_chain_that_is_gone_finds_the_next_one() -> None:
    store = Store()
    transactions = filled(store, range(1, 14))
    link = Link("20270115T090000Z-00000000000000cc", "0-7-13", CHAIN, "0-7-13")
    one = parsed(logs.file([logs.canary(14, BEGIN + 9000, 14), logs.canary(15, BEGIN + 9001, 15)]))
    header = Header(link, "0-7-13", "0-7-14", "0-7-15", "0-7-14", one[-1].fingerprint, 2, None)
    archive_of(store).append(header, logs.format_event(), one)
    assert remove_unneeded(archive_of(store), CHAIN, [14], is_newest=False) == len(transactions)
    [goal], _ = plan_replay(archive_of(store), "0-7-13", BEGIN + 9000)
    assert goal.ancestors == (link.chain, CHAIN)


def test_a_login_that_may_not_delete_leaves_all_changes() -> None:
    class Refusing(Store):
        def remove(self, name: str) -> None:
            raise DeletionRefusedError(f"no right to delete {name}")

    store = Refusing()
    transactions = filled(store, range(1, 14))
    with pytest.raises(DeletionRefusedError):
        merge_chain(archive_of(store), CHAIN, later(9))
    check(store, transactions)


NIGHT = datetime(2027, 1, 15, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("positions", "first"),
    [
        # By hand, before the archive began; it holds nothing, and is not where a restore begins.
        (({"mariadb": 1}, {"mariadb": 6}, {"mariadb": 9}), 1),
        (({"mariadb": 4}, {"mariadb": 6}, {"mariadb": 9}), 0),
        (({}, {"mariadb": 9}, {"mariadb": 99}), 1),
        (({"mariadb": 6}, {"mariadb": 99}), 0),
        (({"mariadb": 99},), None),
        (({"other": 6},), None),
    ],
)
def test_a_restore_reaches_what_a_backup_and_the_archive_have(
    positions: Sequence[Mapping[str, int]], first: int | None
) -> None:
    store = Store()
    filled(store, [2, 4, 6, 8, 12])
    remove_unneeded(archive_of(store), CHAIN, [5], is_newest=True)
    backups = [(NIGHT + timedelta(days=number), each) for number, each in enumerate(positions)]
    time = first_recoverable({"mariadb": archive_of(store)}, backups)
    assert time == (None if first is None else NIGHT + timedelta(days=first))


def test_objects_in_a_folder_are_merged_and_removed(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    transactions = filled(objects, range(1, 14))
    assert merge_chain(archive_of(objects), CHAIN, later(9)) == 12
    assert replayed(objects) == expected(transactions)
    assert remove_unneeded(archive_of(objects), CHAIN, [12], is_newest=True) == 2
    assert spans(FolderObjects(tmp_path)) == spans(objects) == [(12, 12), (13, 13)]


def test_a_folder_that_cannot_be_written_refuses_a_deletion(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    filled(objects, [1, 2])
    [name, _] = archive_of(objects).names(CHAIN)
    if os.geteuid():
        (tmp_path / f"archive/openstack/mariadb/{CHAIN}").chmod(0o500)
        with pytest.raises(DeletionRefusedError):
            archive_of(objects).remove(CHAIN, name)
    archive_of(objects).remove(CHAIN, "none")
