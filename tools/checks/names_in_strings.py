"""Names of attributes and files in strings, which no type checker sees: `python -m tools.checks.names_in_strings`."""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_PAGE_PATH = re.compile(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.(?:py|sh))`")
_OF_LIBRARIES = {"multi", "mutable", "callspec"}
"""Attributes of oslo.config and pytest."""
_OF_OTHERS = {"nova/console/websocketproxy.py"}
"""Files of other projects that pages name."""


def problems() -> Iterator[str]:
    """Yield each problem as `file:line: what it is`."""
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    modules = {name: read(ast.parse(text)) for name in files if (text := _python(ROOT / name))}
    names = set(dir(builtins)).union(*(module.names for module in modules.values()))
    for name, module in modules.items():
        yield from of_code(name, module, names)
    for name in files:
        # Evidence and changes speak of what was.
        if name.endswith(".md") and "evidence" not in name and name != "CHANGELOG.md":
            yield from of_page(name, (ROOT / name).read_text(encoding="utf-8"), files)


def _python(path: Path) -> str:
    """Return the text of a program or module in Python; empty for another file. Programs of images have no suffix."""
    if not path.is_file() or path.suffix not in ("", ".py"):
        return ""
    text = path.read_text(encoding="utf-8")
    return text if path.suffix or text.startswith(('"""', "#!/usr/bin/python3")) else ""


class Module(NamedTuple):
    """Names in a module."""

    names: set[str]
    """Names that it gives to attributes, or reads as such."""
    uses: set[tuple[int, str]]
    """Names in strings by which it reads or replaces an attribute, with their lines."""


def of_code(file: str, module: Module, names: set[str]) -> Iterator[str]:
    """Yield each `getattr` without a default, and each `setattr` of a test, whose name is no attribute anywhere."""
    for line, name in sorted(module.uses):
        if name not in names | _OF_LIBRARIES:
            yield f"{file}:{line}: nothing has an attribute {name!r}, which this reads by its name"


def read(tree: ast.Module) -> Module:
    """Return the names of a module. One walk, since a walk through all files takes seconds."""
    module = Module(set(), set())
    # Constants of a module, which tests replace.
    targets = [target for each in tree.body if isinstance(each, ast.Assign) for target in each.targets]
    module.names.update(node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.AnnAssign(target=ast.Name(id=name)):
                module.names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                module.names.add(name)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name))]):
                module.uses.add((node.lineno, name))
            # What a test replaces, as monkeypatch does it.
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[_, ast.Constant(value=str(name)), _]):
                module.uses.add((node.lineno, name))
            case ast.For(target=ast.Name(id=variable), iter=values):
                module.uses.update(_read_by(node, variable, values))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                for each in node.generators:
                    if isinstance(each.target, ast.Name):
                        module.uses.update(_read_by(node, each.target.id, each.iter))
            case _:
                pass
    return module


def _read_by(loop: ast.AST, variable: str, values: ast.expr) -> Iterator[tuple[int, str]]:
    """Yield names that a variable has one after the other, in a loop that reads an attribute by it."""
    if not isinstance(values, (ast.Tuple, ast.List)):
        return
    texts = [each.value for each in values.elts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    for node in ast.walk(loop):
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Name(id=name)]) if name == variable:
                yield from ((node.lineno, text) for text in texts)
            case _:
                pass


def of_page(page: str, text: str, files: list[str]) -> Iterator[str]:
    """Yield each path of a file in a page that no file of the project ends with."""
    path_ends = _ends(tuple(files))
    for number, line in enumerate(text.splitlines(), 1):
        for path in _PAGE_PATH.findall(line):
            if path not in path_ends and path not in _OF_OTHERS:
                yield f"{page}:{number}: there is no file {path}"


@cache
def _ends(files: tuple[str, ...]) -> Mapping[str, None]:
    """Return every end of every path, at a slash."""
    parts = [file.split("/") for file in files]
    return {"/".join(part[at:]): None for part in parts for at in range(len(part))}


def main() -> int:
    """Print the problems. Return 1 if there are any."""
    lines = list(problems())
    print("\n".join(lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
