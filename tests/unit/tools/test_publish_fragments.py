"""Entries in changelog.d, and how they get into CHANGELOG.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.publish import fragments


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "changelog.d"
    folder.mkdir()
    (folder / "README.md").write_text("How to write one.\n")
    (folder / "b.fix.md").write_text("A fix of\ntwo lines.\n")
    (folder / "a.security.md").write_text("A hole is closed ([how](../docs/a.md)).\n")
    (folder / "c.breaking.md").write_text("Do this.\n")
    return tmp_path


EXPECTED = """\
- **Before the upgrade:** Do this.
- Security: A hole is closed ([how](docs/a.md)).
- A fix of two lines."""


def test_entries_are_in_the_order_of_their_kinds(checkout: Path) -> None:
    assert fragments.entries(checkout / "changelog.d") == EXPECTED


def test_file_without_known_kind_is_refused(checkout: Path) -> None:
    (checkout / "changelog.d" / "d.feature.md").write_text("New.\n")
    with pytest.raises(ValueError, match=r"d\.feature\.md: call it WHAT\.KIND\.md"):
        fragments.entries(checkout / "changelog.d")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# C\n\n## 0.2.0, unreleased\n\n- old\n", f"# C\n\n## 0.2.0, unreleased\n\n{EXPECTED}\n- old\n"),
        ("# C\n\n## 0.1.0\n\n- old\n", f"# C\n\n## 0.2.0\n\n{EXPECTED}\n\n## 0.1.0\n\n- old\n"),
        ("# C\n\n", f"# C\n\n## 0.2.0\n\n{EXPECTED}\n\n"),
    ],
)
def test_entries_move_into_the_section_of_the_version(checkout: Path, before: str, after: str) -> None:
    changelog = checkout / "CHANGELOG.md"
    changelog.write_text(before)
    assert fragments.main(["--root", str(checkout), "--write", "0.2.0"]) == 0
    assert changelog.read_text() == after
    assert [path.name for path in (checkout / "changelog.d").iterdir()] == ["README.md"]
    assert fragments.main(["--root", str(checkout), "--write", "0.2.0"]) == 0
    assert changelog.read_text() == after


def test_entries_are_printed_and_stay(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fragments.main(["--root", str(checkout)]) == 0
    assert capsys.readouterr().out == f"{EXPECTED}\n"
    assert len([*(checkout / "changelog.d").iterdir()]) == 4
