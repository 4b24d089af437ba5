"""python -m tools.publish.site: the documentation as a site, in build/site."""

from __future__ import annotations

import argparse
import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from .pictures import picture

ROOT = Path(__file__).resolve().parents[2]
DOCS = "docs/"
SEARCH = Path(__file__).with_name("iframe-worker.js")
"""Program by which the search works in pages that were opened from a folder."""
_PARTS = ("Tutorials", "How-to", "Reference", "Explanation")
_FOLDERS = {"Runbooks": "runbooks", "Decisions": "decisions", "Figures from our laboratory": "evidence"}
"""Sections that have each page of a folder, where the folder exists."""
_PROJECT = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages of the last section, before those to which others link."""
_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)")
_CODE = re.compile(r"`[^`]+`")
_SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| ([^|]+) \| (.*\]\(.*) \|$", re.MULTILINE)


def main(arguments: list[str] | None = None) -> int:
    """Build the site; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.publish.site", description="Write the documentation as a site."
    )
    parser.add_argument("--output", type=Path, default=ROOT / "build", help="folder for docs/ and site/ (%(default)s)")
    output = parser.parse_args(arguments).output.resolve()
    status = build(stage(output / "docs"))
    print(output / "site" / "index.html")
    return status


def build(config: Path) -> int:
    """Start the generator; return its exit status, which is 1 for a warning."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config)]
    # Its end of life is in decision 0089; a warning in each build helps nobody.
    return subprocess.run(command, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False).returncode


def stage(folder: Path) -> Path:
    """Write the pages as the generator takes them: docs/, and below project/ what they link to outside docs/. Returns
    the generator's configuration.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for path in _files():
        target = folder / staged(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".md"):
            target.write_text(relinked(path), encoding="utf-8")
        elif (ROOT / path).is_dir():
            target.write_text("".join(f"{each.name}\n" for each in sorted((ROOT / path).iterdir())), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / path, target)
    shutil.copyfile(SEARCH, folder / "assets" / SEARCH.name)
    config = folder.with_suffix(".yml")
    config.write_text(
        yaml.safe_dump(
            {
                "INHERIT": str(ROOT / "mkdocs.yml"),
                "docs_dir": str(folder),
                "site_dir": str(folder.parent / "site"),
                "nav": sections(),
            }
        ),
        encoding="utf-8",
    )
    return config


def sections() -> list[dict[str, Any]]:
    """Return the navigation: the home page, the parts of docs/README.md, folders of many pages, and the project."""
    home = (ROOT / DOCS / "README.md").read_text(encoding="utf-8")
    parts = {title: _part(body) for title, body in _SECTION.findall(home) if title in _PARTS}
    listed = {page for part in parts.values() for page in _leaves(part)}
    kinds = [page for page in _folder("reference") if page not in listed]
    parts["Reference"].append({"Fields of every kind": ["reference/README.md", *kinds]})
    parts["Reference"].remove("reference/README.md")
    folders = {title: _folder(folder) for title, folder in _FOLDERS.items() if (ROOT / DOCS / folder).is_dir()}
    pages = [path for path in _files() if path.endswith(".md") and not path.startswith(DOCS)]
    project = [staged(path) for path in dict.fromkeys([*_PROJECT, *pages])]
    nav = {"Home": "README.md", **parts, **folders, "Project": project}
    return [{title: content} for title, content in nav.items()]


def _part(body: str) -> list[Any]:
    """Return the pages of a part of docs/README.md, in groups if it has a table of them."""
    groups = {name.capitalize(): _pages(cell) for name, cell in _ROW.findall(body)}
    return [{name: pages} for name, pages in groups.items() if pages] or _pages(body)


def _pages(text: str) -> list[str]:
    """Return the pages of docs/ that a text links to, without those of a folder that has a section of its own."""
    pages = [page for page in dict.fromkeys(_LINK.findall(text)) if page.endswith(".md") and "://" not in page]
    return [page for page in pages if page.partition("/")[0] not in ("..", *_FOLDERS.values())]


def _folder(name: str) -> list[str]:
    """Return the pages of a folder, the page of its contents first."""
    pages = [path.relative_to(ROOT / DOCS).as_posix() for path in (ROOT / DOCS / name).glob("*.md")]
    return sorted(pages, key=lambda page: (not page.endswith("/README.md"), page))


def _leaves(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for each in nav.values() if isinstance(nav, dict) else nav:
            yield from _leaves(each)


def _files() -> list[str]:
    """Return the files of the site: all of docs/, and what pages link to, page by page."""
    waiting = [*_PROJECT, *(path.relative_to(ROOT).as_posix() for path in (ROOT / DOCS).rglob("*") if path.is_file())]
    paths = set(waiting)
    while waiting:
        path = waiting.pop()
        if path.endswith(".md"):
            prose = _FENCE.sub("", (ROOT / path).read_text(encoding="utf-8"))
            targets = {_target(path, link) for link in _LINK.findall(prose) if "://" not in link} - paths
            present = {target for target in targets if (ROOT / target).exists()}  # the generator reports the others
            paths |= present
            waiting += present
    return sorted(paths)


def _target(path: str, link: str) -> str:
    """Return the file of the repository to which a page links."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), link))


def staged(path: str) -> str:
    """Return where the site has a file of the repository. A browser shows plain text, and downloads YAML."""
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    return f"project/{path}" if path.endswith(".md") else f"project/{path}.txt"


def relinked(path: str) -> str:
    """Return a page with links to where the site has what they lead to."""
    folder = posixpath.dirname(staged(path)) or "."

    def relink(link: re.Match[str]) -> str:
        return link[0] if "://" in link[0] else posixpath.relpath(staged(_target(path, link[0])), folder)

    text = _DIAGRAM.sub(lambda block: picture(block[1]), _adapted((ROOT / path).read_text(encoding="utf-8")))
    return _outside_of_code(text, lambda prose: _LINK.sub(relink, prose))


def _adapted(text: str) -> str:
    """Return a page as Python-Markdown reads it. Unlike CommonMark, it wants four spaces in an item of a list, an empty
    line before the next item, and no backslash before | in code in a table.
    """

    def adapt(prose: str) -> str:
        prose = re.sub(r"^ {3}(?=[^ ])", "    ", prose, flags=re.MULTILINE)
        prose = re.sub(r"^( .*\n)(?=[0-9]+\. )", r"\1\n", prose, flags=re.MULTILINE)
        return re.sub(r"^\|.*$", lambda row: _CODE.sub(_unescaped, row[0]), prose, flags=re.MULTILINE)

    # Blocks of code in an item move with it.
    moved = re.sub(
        r"^   ```.*?^   ```", lambda block: block[0].replace("\n", "\n "), text, flags=re.MULTILINE | re.DOTALL
    )
    return _outside_of_code(moved, adapt).replace("\n   ```", "\n    ```")


def _unescaped(code: re.Match[str]) -> str:
    return code[0].replace("\\|", "|")


def _outside_of_code(text: str, change: Callable[[str], str]) -> str:
    """Return a text with its prose changed, and its blocks of code as they are."""
    parts: list[str] = []
    end = 0
    for block in _FENCE.finditer(text):
        parts += [change(text[end : block.start()]), block.group()]
        end = block.end()
    return "".join([*parts, change(text[end:])])


if __name__ == "__main__":
    sys.exit(main())
