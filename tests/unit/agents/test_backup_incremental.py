"""Backups that read what changed in RBD images since an earlier one, with models in the place of rbd and restic."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.agents.backup import pool as pools
from openstack_operator.agents.backup.pool import back_up_pool
from openstack_operator.agents.backup.pool_restore import restore_pool
from openstack_operator.agents.backup.rbd import Pool
from openstack_operator.agents.backup.rbd_stream import INDEX, ImageHeader, read_image
from openstack_operator.agents.backup.repository import open_repository
from openstack_operator.agents.backup.run import RunError
from openstack_operator.agents.backup.verify import check_pool
from tests.unit.agents import rbd_model, restic_model
from tests.unit.agents.backup_programs import Programs
from tests.unit.agents.test_backup_pools import FIRST, RESTORE_ID, SECOND, UUIDS, beside_rbd

BACKUP_IDS = {
    name: f"12345678-000{number}{UUIDS[0][13:]}" for number, name in enumerate(("monday", "tuesday", "friday"))
}


class Cloud:
    """A Ceph and a repository, and the two programs of a pod that come one after the other."""

    def __init__(self, home: Path) -> None:
        self.programs, self.ceph = Programs(home), rbd_model.Ceph(home / "ceph")
        self.repository = restic_model.Repository(home / "repository")
        self.folder = home / "shared"
        self.folder.mkdir()
        self.ceph.root.mkdir()
        self.programs.program("rbd", rbd_model.script(self.ceph.root))
        self.programs.program("restic", restic_model.script(self.repository.root))

    def run(self, work: Any, backup: str, number: str, *, use: str, incremental: bool = False) -> dict[str, Any]:
        """Return the result of a program, beside the other one, which has ended, too, then."""
        (self.ceph.root / "calls").unlink(missing_ok=True)
        fields = {"folder": str(self.folder), "id": number, "use": use, "pool": use, "user": f"client.{use}"}
        index = self.index(backup) if work is restore_pool else ""
        self.programs.settings(**fields, backup=backup, cloud="openstack", index=index, incremental=incremental)
        return beside_rbd(work, self.programs.config)

    def back_up(self, backup: str, *, use: str = "volumes", incremental: bool = True) -> dict[str, Any]:
        result = self.run(back_up_pool, backup, BACKUP_IDS[backup], use=use, incremental=incremental)
        self.finish(backup)
        return result

    def finish(self, backup: str) -> None:
        """The backup is complete."""
        self.repository.add(["kind=manifest", f"backup={backup}"], "openstack", "manifest.json", b"{}")

    def restore(self, backup: str, *, use: str = "volumes") -> dict[str, Any]:
        shutil.rmtree(self.ceph.root / use)
        (self.ceph.root / use).mkdir()
        return self.run(restore_pool, backup, RESTORE_ID, use=use)

    def index(self, backup: str) -> str:
        [entry] = [
            each for each in self.repository.entries() if {"kind=rbd-index", f"backup={backup}"} <= {*each["tags"]}
        ]
        return str(entry["id"])

    def chains(self, backup: str) -> dict[str, list[str]]:
        """The snapshots of the repository of each RBD image in a backup."""
        return {entry["name"]: entry.get("chain", [entry["snapshot"]]) for entry in self.entries(backup)}

    def entries(self, backup: str) -> list[dict[str, Any]]:
        """The RBD images of a backup, as its index has them."""
        return json.loads(self.repository.file(self.index(backup), INDEX))

    def check(self, backup: str) -> int:
        with open_repository(self.programs.config) as repository:
            return check_pool(repository, {"snapshot": self.index(backup), "pool": "volumes"}, backup)

    def exports(self) -> list[str]:
        """What the last run read of Ceph: an RBD image and its snapshot, and the one from which."""
        calls = (self.ceph.root / "calls").read_text(encoding="utf-8").splitlines()
        return [call for call in calls if call.startswith("export-diff")]

    def own(self, name: str = FIRST) -> list[str]:
        """Snapshots of backups on a volume."""
        return [snapshot for snapshot in self.ceph.snapshots("volumes", name) if snapshot.startswith("backup.")]

    def change(self, data: str, name: str = FIRST) -> None:
        image = self.ceph.read("volumes", name)
        self.ceph.write("volumes", name, {**image, "data": data})

    def snapshot(self, name: str) -> None:
        rbd_model.run(str(self.ceph.root), ["snap", "create", f"volumes/{FIRST}@{name}"])


@pytest.fixture(name="cloud")
def _cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    # The path of a socket has at most 107 bytes.
    home = Path(tempfile.mkdtemp(prefix="rbd-"))
    made = Cloud(home)
    monkeypatch.setenv("PATH", made.programs.path)
    made.ceph.put("volumes", FIRST, "first", by_user="earlier")
    yield made
    shutil.rmtree(home)


def test_a_later_backup_reads_changes_alone(cloud: Cloud) -> None:
    cloud.back_up("monday")
    [end] = cloud.own()
    cloud.change("second")
    cloud.back_up("tuesday")
    [export] = cloud.exports()
    assert f"--from-snap={end}" in export
    # One snapshot stays, for the next backup.
    assert len(cloud.own()) == 1
    assert cloud.own() != [end]
    assert [len(chain) for chain in cloud.chains("tuesday").values()] == [2]
    assert cloud.check("tuesday") == 1
    cloud.restore("tuesday")
    assert cloud.ceph.read("volumes", FIRST)["data"] == "second"
    assert cloud.ceph.snapshots("volumes", FIRST) == {"by_user": "earlier"}
    cloud.restore("monday")
    assert cloud.ceph.read("volumes", FIRST)["data"] == "first"


def test_snapshots_of_users_that_came_and_went_are_right(cloud: Cloud) -> None:
    cloud.back_up("monday")
    cloud.snapshot("new")
    image = cloud.ceph.read("volumes", FIRST)
    remaining = [each for each in image["snapshots"] if each["name"] != "by_user"]
    cloud.ceph.write("volumes", FIRST, {**image, "data": "second", "snapshots": remaining})
    cloud.back_up("tuesday")
    assert len(cloud.exports()) == 2
    cloud.restore("tuesday")
    assert cloud.ceph.snapshots("volumes", FIRST) == {"new": "first"}
    assert cloud.ceph.read("volumes", FIRST)["data"] == "second"


def test_the_second_run_of_a_backup_reads_what_is_new(cloud: Cloud) -> None:
    """Between both, the databases are read."""
    cloud.run(back_up_pool, "monday", BACKUP_IDS["monday"], use="volumes", incremental=True)
    cloud.ceph.put("volumes", SECOND, "new")
    cloud.snapshot("new")
    cloud.run(back_up_pool, "monday", BACKUP_IDS["monday"], use="volumes", incremental=True)
    assert ["--from-snap" in export for export in cloud.exports()] == [True, True, False]
    assert len(cloud.own()) == 1


def test_only_complete_backups_are_gone_on_from(cloud: Cloud) -> None:
    """Retention removes parts of others, also while a backup runs."""
    cloud.run(back_up_pool, "monday", BACKUP_IDS["monday"], use="volumes", incremental=True)
    cloud.back_up("tuesday")
    assert not any("--from-snap=backup" in export for export in cloud.exports())


def test_a_backup_with_the_name_of_a_complete_one_reads_again(cloud: Cloud) -> None:
    cloud.back_up("monday", incremental=False)
    cloud.change("second")
    cloud.back_up("monday", incremental=False)
    assert cloud.exports()


def test_another_image_of_the_same_name_is_read(cloud: Cloud) -> None:
    for backup, data in (("monday", "AAAAA"), ("tuesday", "BBBBB")):
        cloud.ceph.put("images", UUIDS[0], data, snap=data)
        cloud.back_up(backup, use="images")
    cloud.restore("tuesday", use="images")
    assert cloud.ceph.read("images", UUIDS[0])["data"] == "BBBBB"


def test_a_snapshot_made_while_the_backup_begins_is_in_the_next_one(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze = Pool.freeze

    def raced(pool: Pool, name: str) -> Any:
        result = freeze(pool, name)
        cloud.snapshot("raced")
        return result

    with monkeypatch.context() as patched:
        patched.setattr(Pool, "freeze", raced)
        cloud.back_up("monday")
    cloud.back_up("tuesday")
    assert cloud.check("tuesday") == 1
    cloud.restore("tuesday")
    assert cloud.ceph.snapshots("volumes", FIRST).keys() == {"by_user", "raced"}


def test_a_snapshot_whose_name_is_used_again_is_the_later_one(cloud: Cloud) -> None:
    cloud.back_up("monday")
    cloud.change("second")
    rbd_model.run(str(cloud.ceph.root), ["snap", "rm", f"volumes/{FIRST}@by_user"])
    cloud.snapshot("by_user")
    cloud.back_up("tuesday")
    cloud.restore("tuesday")
    assert cloud.ceph.snapshots("volumes", FIRST) == {"by_user": "second"}


def removed_by_users(cloud: Cloud, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Let a user remove the snapshot of a volume when it is read, and make the next one."""
    export, counted = Pool.export, iter(range(times))

    def removing(pool: Pool, header: ImageHeader, **how: Any) -> Iterator[bytes]:
        pieces = export(pool, header, **how)
        yield next(pieces)
        if header.snapshots and (number := next(counted, None)) is not None:
            lost = header.snapshots[-1][0]
            rbd_model.run(str(cloud.ceph.root), ["snap", "rm", f"volumes/{FIRST}@{lost}"])
            cloud.snapshot(f"by_user_{number}")
        yield from pieces

    monkeypatch.setattr(Pool, "export", removing)


@pytest.mark.parametrize("incremental", [False, True])
def test_a_volume_whose_snapshot_is_removed_is_read_again(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, *, incremental: bool
) -> None:
    with monkeypatch.context() as patched:
        removed_by_users(cloud, patched, 2)
        result = cloud.back_up("monday", incremental=incremental)
    assert result["withoutSnapshots"] == {"count": 0, "images": []}
    assert len(cloud.own()) == int(incremental)
    cloud.restore("monday")
    assert cloud.ceph.snapshots("volumes", FIRST) == {"by_user_1": "first"}


def test_a_user_who_removes_snapshots_cannot_make_a_backup_fail(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud.back_up("monday")
    [end] = cloud.own()
    cloud.change("second")
    cloud.snapshot("fresh")
    with monkeypatch.context() as patched:
        removed_by_users(cloud, patched, 1000)
        result = cloud.back_up("tuesday")
    assert result["withoutSnapshots"] == {"count": 1, "images": [FIRST]}
    assert [entry.get("lacksSnapshots") for entry in cloud.entries("tuesday")] == [True]
    # The next one goes on from the last stream that has all of its snapshots.
    assert cloud.own() == [end]
    assert cloud.check("tuesday") == 1
    cloud.change("third!")
    cloud.back_up("friday")
    assert [len(chain) for chain in cloud.chains("friday").values()] == [2]
    for backup, data, snapshots in (("tuesday", "second", set()), ("friday", "third!", {"by_user", "by_user_2"})):
        cloud.restore(backup)
        assert cloud.ceph.read("volumes", FIRST)["data"] == data
        assert cloud.ceph.snapshots("volumes", FIRST).keys() == snapshots


def test_a_volume_without_snapshots_is_read_again_only_if_it_changed(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        removed_by_users(cloud, patched, 1000)
        cloud.run(back_up_pool, "monday", BACKUP_IDS["monday"], use="volumes")
    cloud.run(back_up_pool, "monday", BACKUP_IDS["monday"], use="volumes")
    assert cloud.exports() == []
    cloud.change("larger than before")
    cloud.run(back_up_pool, "monday", BACKUP_IDS["monday"], use="volumes")
    assert len(cloud.exports()) > 0


@pytest.mark.parametrize("what", ["the earlier end", "the new end"])
def test_a_snapshot_removed_while_it_is_read_stores_nothing(
    cloud: Cloud, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ceph names no data then that were discarded since the earlier one."""
    cloud.back_up("monday")
    before = cloud.own()
    export = Pool.export

    def removed(pool: Pool, header: ImageHeader, **how: Any) -> Iterator[bytes]:
        for piece in export(pool, header, **how):
            lost = header.begin if what == "the earlier end" else header.tail
            if piece.startswith(b"rbd diff"):
                rbd_model.run(str(cloud.ceph.root), ["snap", "rm", f"volumes/{FIRST}@{lost}"])
            yield piece

    with monkeypatch.context() as patched:
        patched.setattr(Pool, "export", removed)
        with pytest.raises(RunError, match=r"was read|no snapshot"):
            cloud.run(back_up_pool, "tuesday", BACKUP_IDS["tuesday"], use="volumes", incremental=True)
    assert not [each for each in cloud.repository.entries() if "backup=tuesday" in each["tags"]]
    assert cloud.own() == (before if what == "the new end" else [])


def test_an_image_that_cannot_be_restored_does_not_stop_the_others(cloud: Cloud) -> None:
    cloud.ceph.put("volumes", SECOND, "other")
    cloud.back_up("monday")
    cloud.repository.forget(cloud.chains("monday")[FIRST][0])
    with pytest.raises(RunError, match=f"{FIRST}: .*failed to find snapshot"):
        cloud.restore("monday")
    assert SECOND in cloud.ceph.names("volumes")


@pytest.mark.parametrize("what", ["the snapshot in Ceph", "the stream in the repository"])
def test_without_the_earlier_end_an_image_is_read_whole(cloud: Cloud, what: str) -> None:
    cloud.back_up("monday")
    if what == "the snapshot in Ceph":
        cloud.ceph.put("volumes", FIRST, "second")
    else:
        cloud.change("second")
        cloud.repository.forget(cloud.chains("monday")[FIRST][0])
    cloud.back_up("tuesday")
    assert not any("--from-snap=backup" in export for export in cloud.exports())
    assert [len(chain) for chain in cloud.chains("tuesday").values()] == [1]
    cloud.restore("tuesday")
    assert cloud.ceph.read("volumes", FIRST)["data"] == "second"


def test_a_backup_that_is_not_incremental_leaves_and_removes_nothing(cloud: Cloud) -> None:
    cloud.back_up("monday", incremental=False)
    assert not cloud.own()
    cloud.back_up("tuesday")
    ends = cloud.own()
    assert len(ends) == 1
    cloud.back_up("friday", incremental=False)
    assert not any("--from-snap=backup" in export for export in cloud.exports())
    assert cloud.own() == ends


def test_an_export_that_fails_leaves_the_earlier_snapshot(cloud: Cloud) -> None:
    cloud.back_up("monday")
    before = cloud.own()
    (cloud.ceph.root / "fault").write_text("fails")
    with pytest.raises(RunError, match="error reading an object"):
        cloud.back_up("tuesday")
    assert cloud.own() == before


def test_an_image_is_read_whole_after_some_backups(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_length", {FIRST: 2}.get)
    for backup, length in (("monday", 1), ("tuesday", 2), ("friday", 1)):
        cloud.back_up(backup)
        assert len(cloud.chains(backup)[FIRST]) == length


def test_images_of_glance_are_read_once(cloud: Cloud) -> None:
    cloud.ceph.put("images", UUIDS[0], "whole", snap="whole")
    for backup in ("monday", "tuesday", "friday"):
        cloud.back_up(backup, use="images")
        assert len(cloud.exports()) == (backup == "monday")
    [chain] = cloud.chains("friday").values()
    assert chain[0] == cloud.chains("monday")[UUIDS[0]][0]
    assert len(chain) == 2
    cloud.restore("friday", use="images")
    image = cloud.ceph.read("images", UUIDS[0])
    assert (image["data"], [each["name"] for each in image["snapshots"]]) == ("whole", ["snap"])


def test_a_chain_that_lacks_a_stream_is_refused(cloud: Cloud) -> None:
    cloud.back_up("monday")
    cloud.change("second")
    cloud.back_up("tuesday")
    cloud.repository.forget(cloud.chains("monday")[FIRST][0])
    with pytest.raises(RunError, match="1 RBD images of pool volumes are not in the repository"):
        cloud.check("tuesday")
    with pytest.raises(RunError, match="failed to find snapshot"):
        cloud.restore("tuesday")
    assert FIRST not in cloud.ceph.names("volumes")


def test_streams_that_do_not_go_on_from_one_another_are_refused() -> None:
    whole = ImageHeader(name=FIRST, size=3, object_size=4194304, snapshots=(("a", True),), tail="monday")
    later = replace(whole, begin="monday", stored_snapshots=1, tail="tuesday")
    whole.require_after(None)
    later.require_after(whole)
    other = replace(whole, tail="sunday")
    for header, before in ((later, None), (later, other), (whole, whole)):
        with pytest.raises(RunError, match="do not go on"):
            header.require_after(before)
    stream = later.dump() + rbd_model.difference(b"two", "tuesday", "monday")
    assert read_image(io.BytesIO(stream)) == (later, len(stream))
    assert json.loads(later.dump())["format"] == 2


def test_a_stream_removed_while_the_backup_runs_is_noticed(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud.back_up("monday")
    store = pools.store_image

    def removed(*words: Any, **how: Any) -> Any:
        summary = store(*words, **how)
        cloud.repository.forget(cloud.chains("monday")[FIRST][0])
        return summary

    monkeypatch.setattr(pools, "store_image", removed)
    with pytest.raises(RunError, match="were removed from the repository while"):
        cloud.back_up("tuesday")
    monkeypatch.undo()
    monkeypatch.setenv("PATH", cloud.programs.path)
    # The next run of the same backup has all of it.
    cloud.back_up("tuesday")
    assert cloud.check("tuesday") == 1
