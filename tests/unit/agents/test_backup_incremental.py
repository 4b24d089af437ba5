"""Backups that read what changed in RBD images since an earlier one, with models in the place of rbd and restic."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.agents.backup import pool as pools
from openstack_operator.agents.backup.pool import back_up_pool
from openstack_operator.agents.backup.pool_restore import restore_pool
from openstack_operator.agents.backup.rbd import serve
from openstack_operator.agents.backup.rbd_stream import INDEX, ImageHeader, read_image
from openstack_operator.agents.backup.repository import open_repository
from openstack_operator.agents.backup.run import RunError
from openstack_operator.agents.backup.verify import check_pool
from tests.unit.agents import rbd_model, restic_model
from tests.unit.agents.backup_programs import Programs
from tests.unit.agents.test_backup_pools import FIRST, RESTORE_ID, SECOND, UUIDS

BACKUP_IDS = {
    name: f"{digit * 8}{UUIDS[0][8:]}" for name, digit in (("monday", "1"), ("tuesday", "2"), ("friday", "3"))
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

    def run(self, work: Any, backup: str, number: str, *, use: str, keeps: bool = False) -> dict[str, Any]:
        """Return the result of a program, beside the other one, which has ended, too, then."""
        (self.ceph.root / "calls").unlink(missing_ok=True)
        fields = {"folder": str(self.folder), "id": number, "use": use, "pool": use, "user": f"client.{use}"}
        index = self.index(backup) if work is restore_pool else ""
        self.programs.settings(**fields, backup=backup, cloud="openstack", index=index, keeps=keeps)
        other = threading.Thread(target=serve, args=[self.programs.config])
        other.start()
        try:
            return dict(work(self.programs.config))
        finally:
            other.join(60)
            assert not other.is_alive()

    def back_up(self, backup: str, *, use: str = "volumes", keeps: bool = True) -> dict[str, Any]:
        return self.run(back_up_pool, backup, BACKUP_IDS[backup], use=use, keeps=keeps)

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
        entries = json.loads(self.repository.file(self.index(backup), INDEX))
        return {entry["name"]: entry.get("chain", [entry["snapshot"]]) for entry in entries}

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
    cloud.back_up("monday")
    cloud.ceph.put("volumes", SECOND, "new")
    cloud.snapshot("new")
    cloud.run(back_up_pool, "friday", BACKUP_IDS["friday"], use="volumes", keeps=True)
    assert ["--from-snap" in export for export in cloud.exports()] == [True, True, False]


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
    assert len(cloud.own()) == 1
    cloud.restore("tuesday")
    assert cloud.ceph.read("volumes", FIRST)["data"] == "second"


def test_no_snapshot_stays_unless_it_should(cloud: Cloud) -> None:
    cloud.back_up("monday", keeps=False)
    assert not cloud.own()
    cloud.back_up("tuesday")
    [end] = cloud.own()
    # A backup that leaves none still reads by that of another, which stays.
    cloud.back_up("friday", keeps=False)
    assert f"--from-snap={end}" in cloud.exports()[0]
    assert cloud.own() == [end]


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
        cloud.back_up(backup, use="images", keeps=False)
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
    later = replace(whole, base="monday", since=1, tail="tuesday")
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

    def removed(*words: Any) -> Any:
        summary = store(*words)
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
