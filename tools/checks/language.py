"""Names that name nothing, and prose that a reader has to decipher: `python -m tools.checks.language`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "tools", "images")

_WORDS = """
found told held kept known shown made asked wanted given left taken drawn settled named seen gone own there apart among
outside opened moving news knowing running choosing screens ways way more other others them it this that what who again
together
"""
NO_NAMES = frozenset(_WORDS.split())
"""Participles, adverbs and pronouns: as a name they do not say which thing they mean."""
QUESTION = re.compile(r"(What|Who|Which|Whether|Where|When|By what|How|That)\b")
"""Beginning of a docstring that is no sentence. A function's begins with a verb, a class's with a noun."""
PHRASES = re.compile(
    r"\b(who\s+comes|(is|are|was|be)\s+(told|asked)|told\s+of|anew|nobody|somebody|whoever|looked\s+after|given\s+up"
    r"|goes\s+away|one's\s+own|its\s+own\s+affair|vouch(es|ed)?\s+for|bears?\s+the\s+name|of\s+its\s+own\s+accord"
    r"|for\s+ever)\b",
    re.IGNORECASE,
)
_FIRST_WORDS = """
what who whom whose one it its they where that there how which this these those here so such nobody somebody whoever
whatever
"""
NO_SUBJECTS = frozenset(_FIRST_WORDS.split())
"""First words of a test's name that do not say what is tested. A name says subject, condition and result."""
TEST_WORDS = 12
"""Words of a test's name after `test_`: a longer one is not read to its end."""
SUBJECT = 72
"""Characters of a commit's subject."""
FIRST_SUBJECT = "240097d"
"""Subjects of earlier commits stay as they are, since the page of attacks and the ledger name their hashes."""


def problems() -> Iterator[str]:
    """Yield each problem as `file:line: what it is`."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from of_code(str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8")))
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        yield from of_tests(str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8")))
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy" / "crds").glob("*.yaml")]
    for path in sorted(pages):
        if "evidence" not in path.parts:
            yield from of_prose(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
    yield from _of_subjects()


def of_code(name: str, tree: ast.AST) -> Iterator[str]:
    """Yield each problem of a module."""
    for node in ast.walk(tree):
        if (identifier := _identifier(node)).strip("_").lower() in NO_NAMES:
            yield f"{name}:{getattr(node, 'lineno', 0)}: {identifier} does not say what it names"
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            text = node.value.value.strip()
            if match := QUESTION.match(text) or PHRASES.search(text):
                yield f"{name}:{node.lineno}: a docstring has {match.group(0)!r}; write a plain sentence"


def of_tests(name: str, tree: ast.AST) -> Iterator[str]:
    """Yield each test of a module whose name has no subject, or too many words."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("test_"):
            continue
        words = node.name.removeprefix("test_").split("_")
        if words[0] in NO_SUBJECTS:
            yield f"{name}:{node.lineno}: {node.name} begins with {words[0]!r}; begin with what is tested"
        if len(words) > TEST_WORDS:
            yield f"{name}:{node.lineno}: {node.name} has {len(words)} words; at most {TEST_WORDS}"


def _identifier(node: ast.AST) -> str:
    """Return the name that a node gives to something; empty for others."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    if isinstance(node, ast.arg):
        return node.arg
    return node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else ""


def of_prose(name: str, text: str) -> Iterator[str]:
    """Yield each problem of a page."""
    for number, line in enumerate(text.splitlines(), 1):
        # Headings are linked to, and code quotes programs.
        prose = re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)
        if not prose.startswith("#") and (match := PHRASES.search(prose)):
            yield f"{name}:{number}: {match.group(0)!r}; say who does what"


def _of_subjects() -> Iterator[str]:
    query = ["git", "-C", str(ROOT), "merge-base", "--is-ancestor", FIRST_SUBJECT, "HEAD"]
    if subprocess.run(query, capture_output=True, check=False).returncode:
        # An archive of the source, or a clone without its history.
        return
    command = ["git", "-C", str(ROOT), "log", "--format=%h %s", f"{FIRST_SUBJECT}..HEAD"]
    log = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in log.splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > SUBJECT:
            yield f"{commit}: a subject of {len(subject)} characters; at most {SUBJECT}: {subject}"


def main() -> int:
    """Print each problem, and return 1 where there is one."""
    lines = [*problems()]
    print("\n".join(lines) or "names and prose: no problem")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
