"""python -m tools.publish.fragments: the entries in changelog.d, and their way into CHANGELOG.md."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "changelog.d"
KINDS = ("breaking", "security", "change", "fix")
"""Last part of a file's name. Entries are in this order."""
_PREFIXES = {"breaking": "**Before the upgrade:** ", "security": "Security: "}


def files(folder: Path) -> list[Path]:
    """Return the entries in their order. Raises ValueError for a file whose name has no known kind."""
    paths = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
    for path in paths:
        if not re.fullmatch(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md", path.name):
            raise ValueError(f"{path.name}: call it WHAT.KIND.md; kinds are {', '.join(KINDS)}")
    return sorted(paths, key=lambda path: KINDS.index(_kind(path)))


def entries(folder: Path) -> str:
    """Return the entries as a list in Markdown, with links from the folder of CHANGELOG.md."""
    return "\n".join(f"- {_PREFIXES.get(_kind(path), '')}{_text(path)}" for path in files(folder))


def _kind(path: Path) -> str:
    return path.name.split(".")[1]


def _text(path: Path) -> str:
    return " ".join(path.read_text(encoding="utf-8").split()).replace("](../", "](")


def inserted(changelog: str, version: str, text: str) -> str:
    """Return the changelog with more entries of a version, whose section is new if it has none."""
    heading = re.search(rf"^## {re.escape(version)}\b.*\n+", changelog, re.MULTILINE)
    if heading:
        return f"{changelog[: heading.end()]}{text}\n{changelog[heading.end() :]}"
    first = re.search(r"^## ", changelog, re.MULTILINE)
    at = first.start() if first else len(changelog)
    return f"{changelog[:at]}## {version}\n\n{text}\n\n{changelog[at:]}"


def main(arguments: list[str] | None = None) -> int:
    """Print the entries, or move them into CHANGELOG.md."""
    parser = argparse.ArgumentParser(prog="python -m tools.publish.fragments", description="Print new entries.")
    parser.add_argument("--write", metavar="VERSION", help="move them into the section of a version of CHANGELOG.md")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of CHANGELOG.md (%(default)s)")
    options = parser.parse_args(arguments)
    folder = options.root / FOLDER.name
    text = entries(folder)
    print(text or "no entry")
    if options.write and text:
        changelog = options.root / "CHANGELOG.md"
        changelog.write_text(inserted(changelog.read_text(encoding="utf-8"), options.write, text), encoding="utf-8")
        for path in files(folder):
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
