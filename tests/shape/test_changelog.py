"""CHANGELOG.md is a summary for users, and new entries are short files in changelog.d."""

from __future__ import annotations

import re
from pathlib import Path

from tools.publish import fragments

ROOT = Path(__file__).parent.parent.parent
SECTION = {"0.1.0": 2048}
"""Bytes of a version's section. The first version has a summary in place of entries."""
LARGEST, ENTRY = 8192, 400


def test_sections_of_the_changelog_are_small() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    sizes = {re.split(r"[,\s]", section)[0]: len(section.encode()) for section in sections}
    assert "0.1.0" in sizes
    assert {version: size for version, size in sizes.items() if size > SECTION.get(version, LARGEST)} == {}


def test_entries_are_short_and_have_a_kind() -> None:
    paths = fragments.files(ROOT / "changelog.d")
    texts = {path.name: path.read_text(encoding="utf-8").strip() for path in paths}
    assert {name: len(text) for name, text in texts.items() if not 0 < len(text) <= ENTRY} == {}
    assert [name for name, text in texts.items() if text.startswith(("-", "*", "#"))] == []
