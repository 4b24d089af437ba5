"""The theme that is made of a user's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from openstack_operator.agents.horizon.dashboard_static import make_theme


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize("folder", ["", "static/"])
def test_files_of_a_user_are_over_those_of_a_theme(tmp_path: Path, folder: str) -> None:
    """Some themes of Horizon have all in a folder of its own, and some have not."""
    base = written(tmp_path / "base", {f"{folder}_styles.scss": "base", f"{folder}_variables.scss": "base"})
    # A ConfigMap is a folder of links into a folder of its version.
    version = written(tmp_path / "files" / "..2026", {"_styles.scss": "own", "logo.svg": "<svg/>", "page.html": "<p>"})
    for file in version.iterdir():
        (tmp_path / "files" / file.name).symlink_to(file)
    theme = tmp_path / "theme"
    # What an earlier start has left is gone.
    written(theme, {"static/img/old.svg": "old"})
    make_theme(tmp_path / "files", base, theme)
    found = {str(path.relative_to(theme)): path.read_text() for path in theme.rglob("*") if path.is_file()}
    assert found == {"static/_styles.scss": "own", "static/_variables.scss": "base", "static/img/logo.svg": "<svg/>"}


def test_templates_of_a_theme_stay(tmp_path: Path) -> None:
    files = {"static/_styles.scss": "base", "templates/auth/_splash.html": "<p>"}
    base = written(tmp_path / "base", files)
    make_theme(written(tmp_path / "files", {"logo.svg": "<svg/>"}), base, tmp_path / "theme")
    assert (tmp_path / "theme/templates/auth/_splash.html").read_text() == "<p>"
