"""Files of tests that are likely to notice a fault in a module."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIKELY = 8
"""Files of tests of one fault. With more, a fault takes longer, and the sample is smaller."""
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def tests_of(path: Path, definition: str) -> list[str]:
    """Return the tests that are likely to notice a fault: files of tests of a module or a program, and cases. Texts of
    programs are part of cases, which would notice any change of them.
    """
    cases = [] if "agents" in path.relative_to(ROOT).parts[:3] else ["tests/cases"]
    return [*likely_tests(path, definition), *cases]


def likely_tests(path: Path, definition: str = "") -> list[str]:
    """Return the files of tests that have the name of a module or a program in theirs, or begin with the same word, as
    `test_pod_causes` for `pod_admission`; then those that have the name of the definition, and then those that have the
    names which the module defines most often.
    """
    name, folder, texts = path.stem, path.parent.name, _texts()
    topic = f"test_{name.partition('_')[0]}_"
    chosen = [
        each
        for each in texts
        if name in each.stem or folder in each.stem.split("_") or ("_" in name and each.stem.startswith(topic))
    ]
    # Programs that run in pods have tests of their own; a name of many, such as `start`, says less than the folder.
    chosen.sort(
        key=lambda each: (
            (each.parent.name == "agents") != ("agents" in path.parts),
            path.suffix != ".py" and folder not in each.stem.split("_"),
        )
    )
    words = re.compile(rf"\b(?:{'|'.join([*_names(path), re.escape(f'{folder}/{path.name}')])})\b")
    pattern = re.compile(rf"\b{definition}\b" if definition else "$^")
    counts = {
        each: (len(pattern.findall(text)), len(words.findall(text)))
        for each, text in texts.items()
        if each not in chosen
    }
    chosen += sorted((each for each, count in counts.items() if any(count)), key=counts.__getitem__, reverse=True)
    return [str(each.relative_to(ROOT)) for each in chosen[:LIKELY]]


@cache
def _texts() -> dict[Path, str]:
    """Return the texts of test files, except those that need programs of images."""
    files = [*sorted((ROOT / "tests/unit").rglob("test_*.py")), *sorted((ROOT / "tests/agents").glob("test_*.py"))]
    return {each: each.read_text(encoding="utf-8") for each in files if not each.stem.endswith(("_served", "_real"))}


def _names(path: Path) -> list[str]:
    """Return what a module defines for others."""
    if path.suffix != ".py":
        return []
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    names = [each.name for each in nodes if isinstance(each, DEFINITIONS)]
    return [each for each in names if not each.startswith("_") and each != "main"]
