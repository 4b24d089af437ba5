"""Each decision has a title, a date and a status, is in the index, and pages that are cited exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "docs" / "decisions"
PAGES = {page.name: page.read_text(encoding="utf-8") for page in sorted(FOLDER.glob("[0-9]*.md"))}
HEAD = re.compile(
    r"# (?P<number>\d+)\. (?P<title>[^\n]+)\n\n- Date: (?P<date>\d{4}-\d\d-\d\d)\n"
    r"- Status: (?P<status>accepted|superseded by \[(?P<successor>\d+)\]\((?P<page>[\w-]+\.md)\))\n"
)
CITATION = re.compile(
    r"(?:\b[Dd]ecisions? (?=\d)|\bdecisions/(?=\d{4})|\[(?=\d{4}))(?P<number>\d{1,4})\b(?P<slug>-[\w-]+\.md)?"
)
"""A page that code or prose names, by its number or by its file. A number in brackets is that of a link."""
MOST = 60
"""Pages. Merge the pages of a family, or delete what readers do not question any more, before this number grows."""


def cited(text: str) -> list[str]:
    """Return the names of pages that a text cites, or their numbers alone."""
    return [
        match["number"].zfill(4) + (match["slug"] or "")
        for match in CITATION.finditer(text)
        if match[0][0] != "[" or "decisions/" in text[match.end() : match.end() + 20]
    ]


def exists(citation: str) -> bool:
    return citation in PAGES if citation.endswith(".md") else any(name.startswith(f"{citation}-") for name in PAGES)


def test_each_page_has_a_title_a_date_and_a_status() -> None:
    heads = {name: HEAD.match(text) for name, text in PAGES.items()}
    assert [name for name, head in heads.items() if head is None] == []
    for name, head in heads.items():
        assert head is not None
        assert int(head["number"]) == int(name[:4])
        assert len(head["title"]) <= 100, name
        if head["page"]:
            assert head["page"] in PAGES
            assert int(head["successor"]) == int(head["page"][:4])
    numbers = [name[:4] for name in PAGES]
    assert len(numbers) == len(set(numbers)) <= MOST


def test_the_index_lists_each_page() -> None:
    rows = re.findall(
        r"^\| \[(\d+)\]\((.+?\.md)\) \| (.+) \| (\S+) \|$", (FOLDER / "README.md").read_text("utf-8"), re.MULTILINE
    )
    heads = {name: HEAD.match(text) for name, text in PAGES.items()}
    assert rows == [(head["number"], name, head["title"], head["date"]) for name, head in heads.items() if head]


def test_pages_that_are_cited_exist() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listed.split("\0") if name and name != f"tests/shape/{Path(__file__).name}"]
    citations = {
        (path.relative_to(ROOT).as_posix(), citation)
        for path in paths
        if path.is_file() and not path.is_symlink() and path.suffix not in {".svg", ".lock"}
        for citation in cited(path.read_text(encoding="utf-8", errors="replace"))
    }
    assert len(citations) > 50
    assert [each for each in sorted(citations) if not exists(each[1])] == []


def test_a_missing_page_is_noticed() -> None:
    text = "as decision 998 says, docs/decisions/0001, [0009](decisions/0009-none.md), [2025](x.md)"
    assert cited(text) == ["0998", "0001", "0009", "0009-none.md"]
    assert [each for each in cited(text) if not exists(each)] == ["0998", "0009-none.md"]
