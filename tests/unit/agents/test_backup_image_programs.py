"""Images of a backup, with a program in the place of restic: what is compared, and which volumes are refused."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.agents.backup import images, images_restore
from openstack_operator.agents.backup.image_data import (
    SAMPLE,
    ImageRow,
    ImageRows,
    StoredImage,
    check_images,
    image_report,
    image_rows,
    stored_images,
    without_data,
)
from openstack_operator.agents.backup.repository import open_repository
from openstack_operator.agents.backup.run import RunError
from tests.unit.agents.backup_programs import Programs

SUMMARY = {"message_type": "summary", "snapshot_id": "s2", "data_added": 300, "data_added_packed": 100}
DATA = b"data of an image"
DIGEST = hashlib.sha512(DATA).hexdigest()
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_LOCK = """import fcntl, sys
with open(sys.argv[1], "a+") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print(flush=True)
    sys.stdin.read()
"""


@pytest.fixture(name="programs")
def _programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    programs = Programs(tmp_path)
    monkeypatch.setenv("PATH", programs.path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    programs.answer("snapshots", "[]")
    programs.answer("backup", json.dumps(SUMMARY))
    return programs


@pytest.fixture(name="volume")
def _volume(programs: Programs) -> Path:
    volume = programs.home / "volume"
    (volume / "lost+found").mkdir(parents=True)
    programs.settings(backup="nightly", cloud="openstack", name="glance", folder=str(volume), snapshots=["s1", "s2"])
    return volume


def listed(programs: Programs, **sizes: int) -> None:
    """Let snapshots have images of these sizes."""
    folders = [{"type": "dir", "path": "/images"}, {"message_type": "snapshot"}]
    files = [{"type": "file", "path": f"/images/{name}", "size": size} for name, size in sizes.items()]
    programs.answer("ls", "\n".join(map(json.dumps, [*folders, *files])))


def put(volume: Path, **sizes: int) -> None:
    (volume / "images").mkdir(exist_ok=True)
    for name, size in sizes.items():
        (volume / "images" / name).write_bytes(b"x" * size)


def row(
    identifier: str, size: int = len(DATA), digest: str = DIGEST, *, changed: datetime = BEGAN - timedelta(days=1)
) -> ImageRow:
    return ImageRow(identifier, identifier, size, "sha512", digest, changed)


def test_images_follow_those_of_the_same_glance(programs: Programs, volume: Path) -> None:
    put(volume, a=10, b=20)
    listed(programs, a=10, b=20)
    programs.answer("snapshots", json.dumps([{"id": id_, "time": id_} for id_ in ("s0", "s1")]))
    result = images.back_up_images(programs.config)
    assert {**result, "seconds": 0} == {"snapshot": "s2", "images": 2, "bytes": 30, "stored": 100, "seconds": 0}
    [call] = [call for call in programs.calls() if " backup " in call]
    assert "--tag=kind=images --tag=glance=glance --tag=backup=nightly --host=openstack" in call
    assert call.endswith("--parent=s1 images")
    [asked] = [call for call in programs.calls() if " snapshots " in call]
    assert "--tag=kind=images,glance=glance --host=openstack" in asked


def test_a_glance_that_has_not_started_has_no_images(programs: Programs, volume: Path) -> None:
    assert images.back_up_images(programs.config)["snapshot"] == ""
    volume.rename(programs.home / "elsewhere")
    with pytest.raises(OSError, match="No such file"):
        images.back_up_images(programs.config)


def test_an_image_may_be_deleted_meanwhile_and_none_unreadable(programs: Programs, volume: Path) -> None:
    put(volume, a=10, b=20)
    listed(programs, a=10)
    programs.answer("backup", json.dumps(SUMMARY), f"rm {volume}/images/b; trap 'exit 3' EXIT\n")
    assert images.back_up_images(programs.config)["images"] == 1
    put(volume, b=20)
    programs.answer("backup", json.dumps(SUMMARY), "trap 'exit 3' EXIT\n")
    with pytest.raises(RunError, match="1 images cannot be read: b;"):
        images.back_up_images(programs.config)


def test_an_upload_that_begins_again_meanwhile_is_no_gap(programs: Programs, volume: Path) -> None:
    put(volume, a=10, b=20)
    listed(programs, a=10)
    # Glance removes a partial file, and gives a new one its name.
    renewed = f"echo new > {volume}/images/new; mv {volume}/images/new {volume}/images/b; trap 'exit 3' EXIT\n"
    programs.answer("backup", json.dumps(SUMMARY), renewed)
    assert images.back_up_images(programs.config)["images"] == 1


def test_the_later_of_two_snapshots_has_the_size(programs: Programs) -> None:
    listed(programs, a=10)
    with open_repository(programs.config) as repository:
        assert stored_images(repository, ["s1", "s2"]) == {"a": StoredImage("s2", 10)}


def test_rows_are_those_of_images_that_users_can_use() -> None:
    asked: list[str] = []
    times = "2025-12-31T00:00:00Z"
    # A user may choose a part of a location, with a character at which Python splits a text.
    lines = [
        f"a\t10\tsha512\t{DIGEST}\tfile:///var/lib/glance/images/a\t{times}",
        f"b\t-1\t\t\trbd://x\fy\u2028/pool/b\t{times}",
    ]

    def ask(statement: str) -> str:
        asked.append(statement)
        return "images_of_ours\n" if len(asked) == 1 else "\n".join(lines)

    rows = image_rows(ask)
    assert rows == ImageRows([row("a", 10)], 1)
    assert "FROM images_of_ours.images" in asked[1]
    assert image_rows(lambda _: "") is None


def test_a_report_counts_all_and_names_the_first_few() -> None:
    rows = ImageRows([row(f"image-{number}") for number in range(10)], 3)
    stored = {f"image-{number}": StoredImage("s1", len(DATA)) for number in range(8)}
    stored |= {"image-7": StoredImage("s1", 1), "no row": StoredImage("s1", 1), "$(x)": StoredImage("s1", 1)}
    assert image_report(rows, stored) == {
        "rows": 10,
        "elsewhere": 3,
        "withoutData": {"count": 3, "images": ["image-7", "image-8", "image-9"]},
        # Names that would be more than one word of a command stay out of it.
        "withoutRow": {"count": 2, "images": []},
    }
    assert len(image_report(rows, {})["withoutData"]["images"]) == 5


def test_an_image_without_all_of_its_data_is_named() -> None:
    assert without_data([row("a"), row("b")], {"a": StoredImage("s1", len(DATA) - 1)}) == ["a", "b"]


def checked(programs: Programs, rows: list[ImageRow], data: bytes = DATA, **limit: int) -> dict[str, int]:
    for each in rows:
        programs.answer(f"images-{each.identifier}", data)
    stored = {each.file: StoredImage("s1", len(DATA)) for each in rows}
    with open_repository(programs.config) as repository:
        return check_images(repository, ImageRows(rows, 0), stored, "nightly", began=BEGAN, **limit)


def test_images_are_compared_with_their_hashes(programs: Programs) -> None:
    # The file of a dump is the last word; its folder is one of the answers.
    (programs.home / "answers/images").mkdir()
    for name in "abc":
        (programs.home / f"answers/images/{name}").write_bytes(DATA)
    rows = [row(name) for name in "abc"]
    assert checked(programs, rows) == {"images": 3, "fleeting": 0, "hashed": 3}
    # At least one is compared, however large.
    assert checked(programs, rows, limit=1) == {"images": 3, "fleeting": 0, "hashed": 1}
    assert checked(programs, [row("a", digest="")]) == {"images": 1, "fleeting": 0, "hashed": 0}
    assert checked(programs, [row("a")] * 300)["hashed"] == SAMPLE
    (programs.home / "answers/images/b").write_bytes(DATA[::-1])
    with pytest.raises(RunError, match="the data of image b in the backup are not those of its row"):
        checked(programs, rows)
    with pytest.raises(RunError, match="1 images have a row and not all of their data in the backup: a;"):
        checked(programs, [row("a", size=1)])


def test_a_user_who_deletes_images_cannot_make_a_verification_fail(programs: Programs) -> None:
    """Their row is in the database, and their file in neither reading of the volume, or with the data before."""
    (programs.home / "answers/images").mkdir()
    for name, data in (("a", DATA), ("b", DATA[::-1])):
        (programs.home / f"answers/images/{name}").write_bytes(data)
    meanwhile = BEGAN + timedelta(seconds=1)
    rows = [row("a"), row("b", changed=meanwhile), row("c", size=1, changed=meanwhile)]
    assert checked(programs, rows) == {"images": 3, "fleeting": 2, "hashed": 1}


def restoring(programs: Programs, volume: Path, **sizes: int) -> None:
    """Let restic write images of these sizes, as it lists them."""
    listed(programs, **sizes)
    lines = [f"head -c {size} /dev/zero > {volume}/images/{name}" for name, size in sizes.items()]
    programs.answer("restore", script="\n".join([f"mkdir -p {volume}/images", *lines, ""]))


def test_a_volume_is_filled_once(programs: Programs, volume: Path) -> None:
    restoring(programs, volume, a=10, b=20)
    result = images_restore.restore_images(programs.config)
    assert {**result, "seconds": 0} == {"images": 2, "bytes": 30, "seconds": 0}
    calls = [call for call in programs.calls() if " restore " in call]
    assert [call.split(" restore ")[1].split()[0] for call in calls] == ["s1", "s2"]
    # A result that was lost; and what Glance wrote meanwhile is not touched.
    (volume / "images/a").write_bytes(b"other")
    assert {**images_restore.restore_images(programs.config), "seconds": 0} == {**result, "seconds": 0}
    assert len([call for call in programs.calls() if " restore " in call]) == len(calls)


def test_a_run_that_was_killed_goes_on(programs: Programs, volume: Path) -> None:
    restoring(programs, volume, a=10)
    programs.fail("restore", 1, "killed")
    with pytest.raises(RunError, match="killed"):
        images_restore.restore_images(programs.config)
    put(volume, a=1)
    restoring(programs, volume, a=10)
    assert images_restore.restore_images(programs.config)["images"] == 1
    assert (volume / "images/a").stat().st_size == 10


def test_an_image_that_was_not_written_is_named(programs: Programs, volume: Path) -> None:
    restoring(programs, volume, a=10)
    listed(programs, a=10, b=20)
    with pytest.raises(RunError, match="1 images were not written: b;"):
        images_restore.restore_images(programs.config)


@pytest.mark.parametrize("stranger", ["images/a", "staging/a"])
def test_a_volume_of_others_is_refused(programs: Programs, volume: Path, stranger: str) -> None:
    (volume / stranger).parent.mkdir()
    (volume / stranger).touch()
    with pytest.raises(RunError, match=f"the volume of the images is not empty .{stranger.partition('/')[0]}"):
        images_restore.restore_images(programs.config)
    assert not programs.calls()
    assert not (volume / images_restore.MARK).exists()


def test_a_glance_that_started_since_is_left_alone(programs: Programs, volume: Path) -> None:
    restoring(programs, volume, a=10)
    images_restore.restore_images(programs.config)
    (volume / "staging").mkdir()
    with pytest.raises(RunError, match=r"is not empty \(staging\)"):
        images_restore.restore_images(programs.config)


def test_data_of_another_restore_are_refused(programs: Programs, volume: Path) -> None:
    restoring(programs, volume, a=10)
    images_restore.restore_images(programs.config)
    programs.settings(folder=str(volume), snapshots=["s7"])
    with pytest.raises(RunError, match=r"has data of another restore \(snapshots s1 s2\)"):
        images_restore.restore_images(programs.config)


def test_two_runs_do_not_fill_one_volume(programs: Programs, volume: Path) -> None:
    restoring(programs, volume, a=10)
    command = [sys.executable, "-c", _LOCK, str(volume / images_restore.MARK)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        with pytest.raises(RunError, match="another run fills the volume"):
            images_restore.restore_images(programs.config)
        other.communicate()
    assert images_restore.restore_images(programs.config)["images"] == 1


def test_a_volume_that_is_too_small_is_refused(programs: Programs, volume: Path) -> None:
    space = os.statvfs(volume)
    restoring(programs, volume, a=10)
    listed(programs, a=space.f_bavail * space.f_frsize + (1 << 40))
    with pytest.raises(RunError, match=r"and their volume has room for .*; enlarge the claim"):
        images_restore.restore_images(programs.config)
    assert not [call for call in programs.calls() if " restore " in call]


def test_a_backup_without_images_leaves_an_empty_volume(programs: Programs, volume: Path) -> None:
    programs.settings(folder=str(volume), snapshots=[])
    result: dict[str, Any] = images_restore.restore_images(programs.config)
    assert (result["images"], sorted(path.name for path in volume.iterdir())) == (
        0,
        [images_restore.MARK, "lost+found"],
    )
    with (volume / images_restore.MARK).open("a+") as mark:
        fcntl.lockf(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
