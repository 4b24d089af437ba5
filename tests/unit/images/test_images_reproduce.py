"""Nothing of the time or the place of a build is left in an image."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from images import catalog
from images.build import stage, with_time
from images.reproduce import differences


def test_time_of_files_is_the_day_of_the_epoch() -> None:
    day = (catalog.FOLDER / "epoch").read_text(encoding="utf-8").strip()
    assert datetime.fromtimestamp(catalog.timestamp(), UTC).isoformat() == f"{day}T00:00:00+00:00"


def test_commands_of_a_build_know_the_time_and_the_image_does_not() -> None:
    text = with_time("ARG PARENT=a\nFROM ${PARENT}\nRUN date\n")
    assert text == "ARG PARENT=a\nFROM ${PARENT}\nARG SOURCE_DATE_EPOCH\nRUN date\n"
    assert "ENV SOURCE_DATE_EPOCH" not in text


@pytest.mark.parametrize("name", ["base", "memcached", "oslo", "guest"])
def test_each_stage_of_a_containerfile_knows_the_time(name: str, tmp_path: Path) -> None:
    stage(name, tmp_path)
    lines = (tmp_path / "Containerfile").read_text(encoding="utf-8").splitlines()
    stages = [number for number, line in enumerate(lines) if line.startswith("FROM ")]
    assert stages
    assert all(lines[number + 1] == "ARG SOURCE_DATE_EPOCH" for number in stages)


def test_differences_name_the_file_and_what_differs(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same").write_text("same", encoding="utf-8")
        (tmp_path / name / "content").write_text(name, encoding="utf-8")
        (tmp_path / name / "link").symlink_to(name)
        (tmp_path / name / "mode").touch(0o600)
    (tmp_path / "one" / "mode").chmod(0o644)
    (tmp_path / "two" / "more").touch()
    os.utime(tmp_path / "one" / "same", (0, 0))
    assert [*differences(tmp_path / "one", tmp_path / "two")] == [
        "content: content",
        "link: content",
        "mode: mode",
        "more: in one build alone",
    ]


def test_differences_are_cut_and_counted(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    for number in range(5):
        (tmp_path / "one" / str(number)).touch()
    assert [*differences(tmp_path / "one", tmp_path / "two", most=2)][-1] == "and 3 more"
    assert "no file differs" in next(differences(tmp_path / "two", tmp_path / "two"))
