"""Removal of old backups: which snapshots go, in which order, and what a run that is killed leaves behind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openstack_operator.agents.backup.retention import (
    Snapshot,
    read_snapshots,
    retain,
    scheduled_time,
    select_old,
    select_staying,
)
from openstack_operator.agents.backup.run import RunError
from tests.unit.agents.backup_programs import Programs

_FORGET = """
for word; do
  case $word in
    -*|forget) ;;
    *) sed -i "/\\"id\\": \\"$word\\"/d" {answer} ;;
  esac
done
"""
NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
RUN: dict[str, Any] = {
    "cloud": "openstack",
    "schedule": "nightly",
    "prefix": "nightly",
    "newest": "nightly-202603200100",
}


def nightly(days: int, hour: int = 1) -> str:
    """The name of the backup of so many days ago."""
    return f"nightly-{NOW - timedelta(days=days):%Y%m%d}{hour:02}00"


def entries(name: str, *kinds: str, time: datetime | None = None, schedule: str = "") -> list[dict[str, Any]]:
    """Snapshots of a backup as restic lists them; without a schedule, as an earlier version stored them."""
    tags = [f"schedule={schedule}"] if schedule else []
    at = time or scheduled_time("nightly", name) or NOW
    return [
        {
            "id": f"{kind}-{name}",
            "time": f"{at + timedelta(minutes=number):%Y-%m-%dT%H:%M:%S}.123456789Z",
            "hostname": "openstack",
            "tags": [f"kind={kind}", f"backup={name}", *tags],
        }
        for number, kind in enumerate(kinds)
    ]


def whole(name: str, **fields: Any) -> list[dict[str, Any]]:
    return entries(name, "database", "northbound", "manifest", **fields)


def chosen(listed: Iterable[Sequence[dict[str, Any]]], **run: Any) -> tuple[set[str], set[str]]:
    """Manifests and parts that are to be removed."""
    snapshots = read_snapshots(entry for each in listed for entry in each)
    selection = select_old(snapshots, {**RUN, "counts": {"last": 1}, **run}, NOW)
    return set(selection.manifests), set(selection.parts)


@pytest.mark.parametrize(
    ("counts", "days"),
    [
        ({"last": 2}, {0, 1}),
        ({"daily": 3}, {0, 1, 2}),
        # Of each week, from Monday on, the newest: Friday the 20th, Sunday the 15th and the 8th.
        ({"weekly": 3}, {0, 5, 12}),
        ({"monthly": 2}, {0, 20}),
        ({"last": 1, "monthly": 2}, {0, 20}),
        # While a count is not used up, the oldest backup stays.
        ({"monthly": 9}, {0, 20, 48, 59}),
        ({"hourly": 1}, {0}),
    ],
)
def test_counts_have_the_meanings_of_restic(counts: dict[str, int], days: set[int]) -> None:
    times = {nightly(day): NOW - timedelta(days=day) for day in range(60)}
    assert select_staying(times, counts) == {nightly(day) for day in days}


def test_a_whole_backup_goes() -> None:
    assert chosen([whole(nightly(1)), whole(nightly(0))]) == (
        {f"manifest-{nightly(1)}"},
        {f"database-{nightly(1)}", f"northbound-{nightly(1)}"},
    )


@pytest.mark.security
@pytest.mark.parametrize("schedule", ["-", "weekly"])
def test_a_backup_of_another_origin_does_not_count(schedule: str) -> None:
    """One that a user made with the name of one of the schedule, a minute after it."""
    own = whole(nightly(1), schedule="nightly")
    forged = whole(nightly(1)[:-2] + "01", time=NOW - timedelta(days=1, hours=11), schedule=schedule)
    listed = [own, forged, whole(nightly(0), schedule="nightly")]
    assert chosen(listed, counts={"daily": 2}) == (set(), set())
    assert chosen(listed, counts={"last": 1})[0] == {f"manifest-{nightly(1)}"}


def test_a_part_that_died_goes_after_two_days() -> None:
    young, old = NOW - timedelta(hours=47), NOW - timedelta(hours=49)
    listed = [whole(nightly(0)), entries("by-hand", "database", time=young), entries("earlier", "database", time=old)]
    assert chosen(listed) == (set(), {"database-earlier"})


def test_parts_that_a_killed_run_left_go_at_once() -> None:
    """Its manifest is gone, and the schedule has a newer backup."""
    listed = [entries(nightly(0, hour=0), "database"), whole(nightly(0))]
    assert chosen(listed) == (set(), {f"database-{nightly(0, hour=0)}"})


def test_a_backup_that_runs_stays() -> None:
    listed = [whole(nightly(0)), entries(nightly(0, hour=11), "database", "northbound")]
    assert chosen(listed) == (set(), set())


def test_only_backups_of_the_schedule_are_counted_and_removed() -> None:
    others = ["before-the-move", "nightly-2", "nightly-20260101010", "weekly-202601010100", "nightly-202613010100"]
    listed = [whole(nightly(0)), *(whole(name, time=NOW - timedelta(days=90)) for name in others)]
    assert chosen(listed) == (set(), set())


def test_a_backup_keeps_all_parts_that_have_its_name() -> None:
    """A run whose result was lost has stored a database twice."""
    twice = [*entries(nightly(3), "database"), *whole(nightly(3))]
    assert chosen([twice, whole(nightly(0))], counts={"last": 2}) == (set(), set())


@pytest.mark.security
def test_a_backup_with_a_name_of_the_schedule_removes_no_other() -> None:
    """Anybody who may create backups may give one any name."""
    real = [whole(nightly(days)) for days in (2, 1, 0)]
    later = [whole(f"nightly-20300{month}010000", time=NOW) for month in range(1, 10)]
    earlier = [whole(f"nightly-20250{month}010000", time=NOW) for month in range(1, 10)]
    assert chosen([*real, *later, *earlier], counts={"last": 3}) == (set(), set())


def test_a_newest_backup_that_began_late_counts() -> None:
    """The operator begins the last one that was missed, however long it did not run."""
    late = whole(nightly(5), time=NOW)
    listed = [late, whole(nightly(6)), whole(nightly(7))]
    assert chosen(listed, newest=nightly(5))[0] == {f"manifest-{nightly(6)}", f"manifest-{nightly(7)}"}
    # Afterwards it stays: nothing tells it from one that only has the name.
    assert chosen([late, whole(nightly(0))]) == (set(), set())


def streams(*bases: str) -> list[list[dict[str, Any]]]:
    """Backups of the last days, the oldest first, each with a stream of an RBD image that goes on from this one."""
    listed: list[list[dict[str, Any]]] = []
    for days, base in zip(reversed(range(len(bases))), bases, strict=True):
        listed.append(entries(nightly(days), "rbd", "manifest"))
        listed[-1][0]["tags"] += [f"base={base}"] if base else []
    return listed


def test_a_stream_stays_while_a_later_one_goes_on_from_it() -> None:
    first, second, third = (f"rbd-{nightly(days)}" for days in (3, 2, 1))
    listed = streams("", first, second, third)
    manifests = {f"manifest-{nightly(days)}" for days in (1, 2, 3)}
    assert chosen(listed) == (manifests, set())
    # The newest one was read whole.
    assert chosen(streams("", first, second, "")) == (manifests, {first, second, third})
    assert chosen(streams("", first, "", third)) == (manifests, {first, second})


def test_snapshots_without_a_backup_are_not_ours() -> None:
    own = {"id": "x", "time": "2020-01-01T00:00:00Z", "hostname": "openstack"}
    listed = [[own, {**own, "tags": ["kind=database"]}, {**own, "tags": ["backup=x"]}], whole(nightly(0))]
    assert chosen(listed) == (set(), set())


def test_nothing_goes_while_the_newest_backup_is_not_there() -> None:
    with pytest.raises(RunError, match="'nightly-202603200100' is not in the repository, so nothing is removed"):
        chosen([whole(nightly(1)), whole(nightly(2))])


def test_the_newest_backup_stays_whatever_is_counted() -> None:
    manifests, _ = chosen([whole(nightly(1)), whole(nightly(0))], counts={"hourly": 0, "last": 0})
    assert f"manifest-{nightly(0)}" not in manifests


def removed_in_order(snapshots: list[Snapshot], run: dict[str, Any], stop: int) -> list[Snapshot]:
    """What is there after a run that was killed after so many removals."""
    selection = select_old(snapshots, run, NOW)
    gone = [*selection.manifests, *selection.parts][:stop]
    return [each for each in snapshots if each.identifier not in gone]


@given(
    days=st.sets(st.integers(0, 70), min_size=1),
    dead=st.sets(st.integers(0, 70)),
    counts=st.dictionaries(
        st.sampled_from(["last", "hourly", "daily", "weekly", "monthly"]), st.integers(1, 5), min_size=1
    ),
    stops=st.lists(st.integers(0, 12), max_size=4),
)
def test_a_run_that_is_killed_is_completed_by_the_next(
    days: set[int], dead: set[int], counts: dict[str, int], stops: list[int]
) -> None:
    listed = [whole(nightly(day)) for day in days]
    listed += [entries(nightly(day), "database") for day in dead - days]
    begin = read_snapshots(entry for each in listed for entry in each)
    run = {**RUN, "newest": nightly(min(days)), "counts": counts}
    expected = removed_in_order(begin, run, len(begin))
    snapshots = begin
    for stop in stops:
        snapshots = removed_in_order(snapshots, run, stop)
        parts = [each.backup for each in snapshots if not each.is_manifest]
        # What looks like a backup is one.
        assert all(parts.count(each.backup) == 2 for each in snapshots if each.is_manifest)
    assert removed_in_order(snapshots, run, len(begin)) == expected
    assert nightly(min(days)) in {each.backup for each in expected if each.is_manifest}


@pytest.fixture(name="programs")
def _programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    programs = Programs(tmp_path)
    monkeypatch.setenv("PATH", programs.path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    programs.settings(**RUN, counts={"last": 1})
    listed = [*whole(nightly(0)), *whole(nightly(1))]
    programs.answer("snapshots", json.dumps(listed))
    # What is forgotten is listed no more.
    answer = programs.home / "answers" / "snapshots"
    answer.write_text(lines(listed), encoding="utf-8")
    programs.answer("forget", script=_FORGET.replace("{answer}", str(answer)))
    return programs


def lines(listed: list[dict[str, Any]]) -> str:
    """JSON of snapshots, each in a line of its own."""
    return "[\n" + "\n".join(f"{json.dumps(each)}," for each in listed) + '\n{"id": "", "time": ""}]'


def deletions(programs: Programs) -> list[str]:
    """Commands that delete, without options that all have."""
    return [
        " ".join(word for word in call.split() if not word.startswith("--"))
        for call in programs.calls()
        if " forget " in call or " prune " in call
    ]


def test_manifests_go_first_and_their_data_last(programs: Programs) -> None:
    assert retain(programs.config) == {
        "backups": 1,
        "oldest": "2026-03-20T01:02:00Z",
        "removed": 1,
        "parts": 2,
        "archive": {},
        "refused": "",
    }
    assert deletions(programs) == [
        f"forget manifest-{nightly(1)}",
        f"forget database-{nightly(1)} northbound-{nightly(1)}",
        "prune",
    ]
    listings = [call for call in programs.calls() if " snapshots " in call]
    assert all("--host=openstack" in call for call in listings)
    assert all("--retry-lock=30m" in call for call in programs.calls() if " forget " in call or " prune " in call)


def test_data_that_an_earlier_run_did_not_free_are_freed(programs: Programs) -> None:
    programs.answer("snapshots", json.dumps(whole(nightly(0))))
    assert retain(programs.config)["removed"] == 0
    assert deletions(programs) == ["prune"]


def test_a_failure_stops_before_the_parts(programs: Programs) -> None:
    programs.fail("forget", 11, "unable to create lock in backend: repository is already locked")
    with pytest.raises(RunError, match="another program has locked the repository"):
        retain(programs.config)
    assert len(deletions(programs)) == 1


def test_a_refusal_is_a_result_and_not_a_failure(programs: Programs) -> None:
    """restic ends with 0 then."""
    refusal = "Remove(<snapshot/a1b2>) failed: client.RemoveObject: Access Denied."
    programs.fail("forget", 0, refusal, "unable to remove snapshot/a1b2 from the repository")
    result = retain(programs.config)
    assert f"refuses the account: {refusal}" in result["refused"]
    assert (result["backups"], result["removed"]) == (2, 0)
    assert len(deletions(programs)) == 1


def test_a_manifest_that_is_still_there_keeps_its_parts(programs: Programs) -> None:
    programs.answer("forget")
    with pytest.raises(RunError, match=f"restic did not remove the snapshots manifest-{nightly(1)}"):
        retain(programs.config)
    assert len(deletions(programs)) == 1


def test_an_empty_repository_fails_with_what_to_check(programs: Programs) -> None:
    programs.answer("snapshots", "[]")
    with pytest.raises(RunError, match=r"check that spec\.repository is the one of the backups"):
        retain(programs.config)
    assert deletions(programs) == []
