"""An archive: what it takes from a log, what an object is bound to, and which archives a restore refuses."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openstack_operator.agents.backup.binlog import Canary, Parser, Transaction, log_file
from openstack_operator.agents.backup.chain import Archive, Header, Link, new_chain
from openstack_operator.agents.backup.objects import FolderObjects
from openstack_operator.agents.backup.replay import Goal, plan_replay, walk
from openstack_operator.agents.backup.run import RunError
from openstack_operator.agents.backup.sealed import UnsealError, seal, unseal
from tests.unit.agents import binary_logs as logs

EARLIER = "b854d3b14ea238b689822fe1b8cbe9f912404df41b499a"
"""An object with the salt 0, 1, 2, … that version 1 of the format has, without its beginning."""
KEY, OTHER_KEY = b"k" * 32, b"o" * 32
T = 1_800_000_000
"""Second of the first change."""


# Objects.


@given(content=st.binary(max_size=200), place=st.text(min_size=1, max_size=20))
def test_an_object_has_the_content_that_was_sealed(content: bytes, place: str) -> None:
    assert unseal(KEY, place, seal(KEY, place, content)) == content


def test_an_object_of_an_earlier_version_can_be_read() -> None:
    data = b"OSARCHIVE1\n" + bytes(range(32)) + bytes.fromhex(EARLIER)
    assert unseal(KEY, "archive/place", data) == b"content"


@pytest.mark.security
def test_no_part_of_an_object_can_be_another_one() -> None:
    data = seal(KEY, "place", b"content")
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        with pytest.raises(UnsealError):
            unseal(KEY, "place", bytes(changed))
        with pytest.raises(UnsealError):
            unseal(KEY, "place", data[:position])
    for key, place, other in ((OTHER_KEY, "place", data), (KEY, "places", data), (KEY, "place", data + b"x")):
        with pytest.raises(UnsealError):
            unseal(key, place, other)


@pytest.mark.security
def test_the_same_content_is_never_the_same_object() -> None:
    assert seal(KEY, "place", b"content") != seal(KEY, "place", b"content")


def test_an_object_is_written_once_and_whole(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    assert objects.put_new("archive/one", b"first")
    assert not objects.put_new("archive/one", b"second")
    (tmp_path / "archive/.two.part").write_bytes(b"half")
    assert objects.names("archive") == ["one"]
    assert objects.read("archive/one") == b"first"
    assert objects.read("archive/two") is None
    assert objects.put_new("archive/two", b"")
    assert objects.names("archive", "one") == ["two"]


# Transactions.


def parsed(data: bytes, piece: int = 1 << 20) -> list[Transaction]:
    parser = Parser()
    pieces = [data[begin : begin + piece] for begin in range(0, len(data), piece)]
    return [each for part in pieces for each in parser.feed(part)]


@pytest.mark.parametrize("checksum", [b"", b"sums"])
def test_transactions_end_where_the_server_ended_them(checksum: bytes) -> None:
    transactions = [
        logs.insert(1, T, "cloud.numbers", b"row of 1", checksum=checksum),
        logs.gtid(2, T + 1, flags=1, checksum=checksum) + logs.query(T, "DROP TABLE x", checksum),
        logs.gtid(3, T + 2, checksum=checksum)
        + logs.query(T, "BEGIN", checksum)
        + logs.rows(T, 30, b"row", checksum)
        + logs.query(T, "COMMIT", checksum),
        logs.gtid(4, T + 3, flags=4, checksum=checksum) + logs.event(38, T, b"XA", checksum),
    ]
    between = [logs.event(kind, T, b"x", checksum) for kind in (163, 161, 4, 3, 27)]
    data = logs.file([b for each in transactions for b in (each, *between)], has_checksums=bool(checksum))
    for piece in (1, 7, 1 << 20):
        found = parsed(data, piece)
        assert [each.gtid for each in found] == ["0-7-1", "0-7-2", "0-7-3", "0-7-4"]
        assert [each.time for each in found] == [T, T + 1, T + 2, T + 3]
        assert [each.events for each in found] == transactions


def test_an_end_that_is_not_recognized_is_where_the_next_one_begins() -> None:
    strange = logs.gtid(1, T) + logs.event(99, T, b"?")
    parser = Parser()
    assert list(parser.feed(logs.file([strange]))) == []
    [first] = parser.feed(logs.gtid(2, T))
    assert first.events == strange
    [second] = parser.rest()
    assert second.gtid == "0-7-2"


def test_half_a_transaction_is_none() -> None:
    data = logs.file([logs.insert(1, T, "a.b", b"row")])
    assert all(parsed(data[:size]) == [] for size in range(len(data)))
    parser = Parser()
    list(parser.feed(data[:-1]))
    with pytest.raises(RunError, match="ends within an event"):
        parser.rest()


def test_canaries_are_read_from_the_log() -> None:
    [first, second] = parsed(logs.file([logs.canary(1, T, 5), logs.insert(2, T, "cloud.canary", b"x" * 20)]))
    assert first.canaries == (Canary(5, T * 1_000_000),)
    assert second.canaries == ()


def test_a_change_has_one_fingerprint_on_all_members() -> None:
    def fingerprint(*words: object, **options: int) -> str:
        [change] = parsed(logs.file([logs.insert(*words, **options)]))  # type: ignore[arg-type]
        return change.fingerprint

    here = fingerprint(1, T, "a.b", b"row", table_number=30)
    assert fingerprint(1, T + 1, "a.b", b"row", table_number=99) == here
    assert (
        len(
            {here, fingerprint(1, T, "a.b", b"rob"), fingerprint(1, T, "a.c", b"row"), fingerprint(2, T, "a.b", b"row")}
        )
        == 4
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"none", "does not begin as one"),
        (logs.file([logs.gtid(1, T, domain=3)]), "change 3-7-1 is of domain 3; an archive follows domain 0"),
        (logs.file([logs.query(T, "BEGIN")]), "event of type 2 outside of a transaction"),
        (logs.file([struct.pack("<IBIIIH", 0, 2, 0, 3, 0, 0)]), "says that it has 3 bytes"),
    ],
)
def test_another_text_than_a_log_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(RunError, match=message):
        parsed(data)


# Chains.


class Chain:
    """A chain that a test writes."""

    def __init__(self, root: Path, key: bytes = KEY, link: Link | None = None) -> None:
        self.archive = Archive(FolderObjects(root), key, "openstack", "mariadb")
        self.link = link or new_chain(datetime.now(UTC), "0-7-0")
        self.folder = root / "archive/openstack/mariadb" / self.link.chain
        self.previous = self.link.begins
        self._canary: Canary | None = None

    def store(self, *transactions: bytes, previous: str = "") -> None:
        """Store one object."""
        changes = parsed(logs.file(transactions))
        self._canary = max(
            (each for change in changes for each in change.canaries), key=lambda each: each.number, default=self._canary
        )
        previous = previous or self.previous
        header = Header(
            self.link,
            previous,
            changes[0].gtid,
            changes[-1].gtid,
            changes[-2].gtid if len(changes) > 1 else previous,
            changes[-1].fingerprint,
            len(changes),
            self._canary,
        )
        self.archive.append(header, logs.format_event(), changes)
        self.previous = changes[-1].gtid

    def objects(self) -> list[Path]:
        return sorted(self.folder.iterdir())


def second(offset: int) -> Sequence[bytes]:
    """Return the two changes of a second: a canary, and a number."""
    return (
        logs.canary(2 * offset + 1, T + offset, offset),
        logs.insert(2 * offset + 2, T + offset, "cloud.numbers", struct.pack("<IQQ", offset, 0, 0)),
    )


@pytest.fixture(name="chain")
def _chain(tmp_path: Path) -> Chain:
    """Ten seconds with the changes 1 to 20, an object for each second."""
    chain = Chain(tmp_path)
    for offset in range(10):
        chain.store(*second(offset))
    return chain


def goal(chain: Chain, base: str, until: int) -> Goal:
    [one], _ = plan_replay(chain.archive, base, T + until)
    return one


def refusal(chain: Chain, base: str, until: int) -> str:
    with pytest.raises(RunError) as error:
        plan_replay(chain.archive, base, T + until)
    return str(error.value)


def test_a_replay_ends_with_the_last_change_of_the_second(chain: Chain) -> None:
    for until in range(3, 9):
        one = goal(chain, "0-7-6", until)
        assert (one.end, one.changes) == (f"0-7-{2 * until + 2}", 2 * until - 4)
        assert {each.number for each in one.canaries.values()} == set(range(3, until + 1))
    assert (goal(chain, "0-7-6", 2).end, goal(chain, "0-7-6", 2).changes) == ("0-7-6", 0)
    assert goal(chain, "0-7-0", 0).changes == 2


def test_only_a_later_change_proves_that_a_second_is_whole(chain: Chain) -> None:
    text = refusal(chain, "0-7-6", 9)
    assert f"ends with change 0-7-20, and cannot prove that nothing of {stamp(9)} is missing" in text
    # The second that it names can be restored.
    assert f"choose {stamp(8)} or an earlier time" in text
    assert goal(chain, "0-7-6", 8).end == "0-7-18"
    # The backup has a change of the last second, so that no earlier one can be restored from it.
    assert refusal(chain, "0-7-19", 9).endswith("choose an earlier backup")


def stamp(offset: int) -> str:
    return datetime.fromtimestamp(T + offset, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_time_before_the_backup_is_refused(chain: Chain) -> None:
    assert f"the backup has changes later than {stamp(1)}" in refusal(chain, "0-7-6", 1)


def test_a_backup_from_before_the_archive_is_refused(chain: Chain, tmp_path: Path) -> None:
    later = Chain(tmp_path / "later", link=new_chain(datetime.now(UTC), "0-7-8"))
    for offset in range(4, 8):
        later.store(*second(offset))
    assert f"the backup ends at 0-7-4, and chain {later.link.chain} of the archive begins after 0-7-8" in refusal(
        later, "0-7-4", 5
    )
    assert "the archive has no change after 0-7-99" in refusal(chain, "0-7-99", 5)


def test_a_gap_is_refused_by_name_and_later_changes_are_not(chain: Chain) -> None:
    gap = new_chain(datetime.now(UTC), "0-7-30", chain.link.chain, "0-7-20")
    after = Chain(chain.folder.parents[3], link=gap)
    for offset in range(15, 20):
        after.store(*second(offset))
    text = refusal(chain, "0-7-6", 17)
    assert "begins after 0-7-30; the changes after 0-7-20 are lost: restore a backup that was made later" in text
    assert "ends with change 0-7-20" in text
    assert goal(chain, "0-7-6", 5).end == "0-7-12"
    one = goal(chain, "0-7-32", 17)
    assert (one.end, one.ancestors) == ("0-7-36", (gap.chain, chain.link.chain))
    # The very change with which the chain begins is where a backup may end, too.
    assert goal(chain, "0-7-30", 17).changes == 6


def test_a_backup_at_the_edge_of_a_gap_does_not_hide_it(chain: Chain) -> None:
    """The log was off for ten changes after the backup, and the new chain says that it begins where that ends."""
    gap = new_chain(datetime.now(UTC), "0-7-20")
    after = Chain(chain.folder.parents[3], link=gap)
    for offset in range(15, 20):
        after.store(*second(offset))
    assert "begins after 0-7-20: restore a backup that was made later" in refusal(chain, "0-7-20", 17)


@pytest.mark.parametrize("missing", [2, 3, 5])
def test_a_missing_object_is_named(chain: Chain, missing: int) -> None:
    chain.objects()[missing].unlink()
    text = f"lacks the changes from {2 * missing + 1} to {2 * missing + 2}: an object between"
    assert text in refusal(chain, "0-7-6", 7)


def test_objects_that_are_not_needed_may_be_gone(chain: Chain) -> None:
    """Those of times for which there is no backup any more."""
    for path in chain.objects()[:3]:
        path.unlink()
    assert goal(chain, "0-7-8", 7).end == "0-7-16"
    assert goal(chain, "0-7-6", 7).changes == 10


def flip(chain: Chain, path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(body)


def swap(chain: Chain, path: Path) -> None:
    path.write_bytes(chain.objects()[-1].read_bytes())


def cut(chain: Chain, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def of_another_chain(chain: Chain, path: Path) -> None:
    other = Chain(chain.folder.parents[3] / "other")
    for offset in range(10):
        other.store(*second(offset))
    path.write_bytes(other.objects()[4].read_bytes())


@pytest.mark.security
@pytest.mark.parametrize("damage", [flip, swap, cut, of_another_chain])
def test_an_object_that_was_changed_is_named(chain: Chain, damage: Callable[[Chain, Path], None]) -> None:
    path = chain.objects()[4]
    damage(chain, path)
    text = refusal(chain, "0-7-6", 7)
    assert text.startswith(
        f"the object archive/openstack/mariadb/{chain.link.chain}/{path.name} of the archive is damaged"
    )


@pytest.mark.security
def test_another_key_is_refused(chain: Chain) -> None:
    other = Archive(FolderObjects(chain.folder.parents[3]), OTHER_KEY, "openstack", "mariadb")
    with pytest.raises(RunError, match=r"no change after 0-7-6.*; 10 objects .* another key"):
        plan_replay(other, "0-7-6", T + 7)


@pytest.mark.security
def test_an_object_with_another_name_is_refused(chain: Chain) -> None:
    """Such as one with the numbers of a later one, so that those before it were never missed."""
    fifth = chain.objects()[4]
    name = f"{9:020}-{12:020}-{fifth.name[42:]}"
    fifth.rename(fifth.with_name(name))
    text = refusal(chain, "0-7-6", 7)
    assert "lacks the changes from 9 to 10" in text
    assert text.endswith(f"such as {chain.link.chain}/{name}")


def foreign_names(chain: Chain) -> list[str]:
    """Names that others may give: those that sort first, last and between, and those of this chain in another one."""
    own, digits = chain.objects()[4].name, f"{'0' * 32}-{'0' * 16}"
    other = Chain(chain.folder.parents[3] / "other")
    other.store(*second(0))
    numbers = ((0, 0), (0, 10**20 - 1), (9, 9), (7, 20), (20, 20), (99, 10**20 - 1), (10**20 - 1, 10**20 - 1))
    return [
        *(f"{first:020}-{last:020}-{digits}" for first, last in numbers),
        own[:-1] + ("0" if own[-1] != "0" else "1"),
        other.objects()[0].name,
        "0",
        "~",
        "a file",
        "\u0663" * 20 + own[20:],
    ]


@pytest.mark.security
@pytest.mark.parametrize("is_folder", [False, True])
def test_foreign_objects_hide_no_chain_and_are_counted(chain: Chain, *, is_folder: bool) -> None:
    names = foreign_names(chain)
    for name in names:
        if is_folder:
            (chain.folder / name).mkdir()
        else:
            (chain.folder / name).write_bytes(b"of others")
    for name in ("0", "99991231T235959Z-0000", "another"):
        (chain.folder.parent / name).mkdir()
        (chain.folder.parent / name / chain.objects()[0].name).write_bytes(b"of others")
    tail = chain.archive.tail(chain.link.chain)
    assert tail
    assert tail.last == "0-7-20"
    assert chain.archive.reach(chain.link.chain) == (1, 20)
    assert goal(chain, "0-7-6", 7).end == "0-7-16"
    assert goal(chain, "0-7-0", 7).changes == 16
    assert len(chain.archive.foreign) == len(names) + 3
    assert f"; {len(names) + 3} objects or folders were left out" in refusal(chain, "0-7-99", 7)


@pytest.mark.security
def test_a_chain_of_others_hides_no_other_one(chain: Chain) -> None:
    """Its identifier is one that an archive may have drawn."""
    folder = chain.folder.parent / f"99991231T235959Z-{'0' * 16}"
    folder.mkdir()
    for name in (chain.objects()[0].name, f"{0:020}-{99:020}-{'0' * 32}-{'0' * 16}"):
        (folder / name).write_bytes(chain.objects()[0].read_bytes())
    assert goal(chain, "0-7-6", 7).end == "0-7-16"
    assert chain.archive.reach(folder.name) is None


@pytest.mark.security
def test_a_pipe_among_the_objects_is_not_read(chain: Chain) -> None:
    """It would keep a program for as long as nobody writes into it."""
    path = chain.objects()[-1]
    path.unlink()
    os.mkfifo(path)
    tail = chain.archive.tail(chain.link.chain)
    assert tail
    assert tail.last == "0-7-18"


def test_an_archive_goes_on_before_an_end_that_was_damaged(chain: Chain) -> None:
    """What the damaged objects had is in the log, and is stored once more."""
    for path in chain.objects()[-2:]:
        flip(chain, path)
    tail = chain.archive.tail(chain.link.chain)
    assert tail
    assert (tail.last, tail.before_last) == ("0-7-16", "0-7-15")
    assert "is damaged" in refusal(chain, "0-7-6", 7)
    chain.store(*second(8), second(9)[0], previous="0-7-16")
    chain.store(second(9)[1])
    assert goal(chain, "0-7-6", 7).end == "0-7-16"
    assert goal(chain, "0-7-6", 8).end == "0-7-18"


def test_a_damaged_object_before_the_backup_is_not_needed(chain: Chain) -> None:
    for path in chain.objects()[:2]:
        flip(chain, path)
    assert goal(chain, "0-7-6", 7).end == "0-7-16"
    assert "begins after 0-7-4" in refusal(chain, "0-7-2", 7)
    for path in chain.objects()[2:]:
        flip(chain, path)
    with pytest.raises(RunError, match="is damaged"):
        chain.archive.tail(chain.link.chain)


@pytest.mark.parametrize("base", range(1, 15))
def test_objects_that_reach_far_are_found_from_each_change(chain: Chain, base: int) -> None:
    """One begins with the second change, and is the only one that has most of those after it."""
    paths = chain.objects()
    chain.store(*[change for offset in range(8) for change in second(offset)][1:], previous="0-7-1")
    for path in paths[1:3] + paths[5:8]:
        path.unlink()
    assert goal(chain, f"0-7-{base}", 8).end == "0-7-18"
    numbers = [
        each.transaction.sequence for each in walk(chain.archive, chain.link.chain, f"0-7-{base}") if not each.is_stored
    ]
    assert numbers == list(range(base + 1, 21))


def test_objects_of_two_archivers_are_one_chain(chain: Chain) -> None:
    """The second one began where the first one had been, and went further."""
    for path in chain.objects()[6:]:
        path.unlink()
    chain.store(*second(4)[1:], *second(5), *second(6)[:1], previous="0-7-9")
    chain.store(*second(6)[1:], *second(7), *second(8))
    assert goal(chain, "0-7-6", 7).end == "0-7-16"
    numbers = [
        each.transaction.sequence for each in walk(chain.archive, chain.link.chain, "0-7-6") if not each.is_stored
    ]
    assert numbers == list(range(7, 19))


def test_two_histories_in_one_chain_are_refused(chain: Chain) -> None:
    chain.store(logs.insert(11, T + 5, "cloud.numbers", b"x" * 20), previous="0-7-10")
    assert "has two different changes 0-7-11" in refusal(chain, "0-7-6", 7)


def test_clocks_that_went_back_are_refused(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    for offset in range(3):
        chain.store(*second(offset))
    # The commit of one canary may have taken long; the next one begins when that is acknowledged.
    chain.store(logs.insert(7, T + 9, "a.b", b"x" * 20), logs.canary(8, T + 3, 3), logs.canary(9, T + 9, 4))
    assert goal(chain, "0-7-2", 5).end == "0-7-6"
    chain.store(logs.insert(10, T + 30, "a.b", b"x" * 20), logs.canary(11, T + 9, 5), logs.canary(12, T + 10, 6))
    assert f"clocks went back: there are changes of {stamp(15)} after 0-7-10" in refusal(chain, "0-7-2", 15)


def test_an_archive_goes_on_after_its_last_object(chain: Chain) -> None:
    tail = chain.archive.tail(chain.link.chain)
    assert tail
    assert (tail.last, tail.before_last, tail.canary) == ("0-7-20", "0-7-19", Canary(9, (T + 9) * 1_000_000))
    assert chain.archive.tail("another") is None


def test_an_object_that_is_there_already_has_to_be_the_same(chain: Chain) -> None:
    """By an earlier try whose answer was lost."""
    last = chain.objects()[-1]
    chain.store(*second(9), previous="0-7-18")
    assert chain.objects()[-1] == last
    flip(chain, last)
    with pytest.raises(RunError, match="is damaged"):
        chain.store(*second(9), previous="0-7-18")


def test_a_file_of_changes_is_a_log(chain: Chain) -> None:
    changes = parsed(logs.file(second(0)))
    assert log_file(logs.format_event(), changes) == logs.file(second(0))
    assert replace(changes[0], gtid="0-7-9").sequence == 9
