"""Small faults in a sample of the code, and whether a test notices each: `python -m checks.mutants [--count N]`.

The sample is the same for the same `--seed`. A fault that no test notices is printed with its line: either a test is
missing, or the fault changes nothing that anyone can see.
"""

from __future__ import annotations

from images.venv import use_venv

if __name__ == "__main__":
    use_venv("checks.mutants")

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from queue import SimpleQueue

from tests.suites import tell

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("plan", "parts", "kube", "agents")
TESTS = ("tests/cases", "tests/unit", "tests/agents", "tests/stories", "tests/shape")
PARALLEL = 2
PATIENCE = 1_200
"""Seconds for the tests of one fault, after which it counts as noticed: the fault may be a loop without end."""
_OPPOSITE: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", ">="),
    ast.GtE: (">=", "<"),
    ast.Gt: (">", "<="),
    ast.LtE: ("<=", ">"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
_SHELL = (
    (re.compile(r" -eq "), " -ne "),
    (re.compile(r" -lt "), " -ge "),
    (re.compile(r" -gt "), " -le "),
    (re.compile(r" != "), " = "),
    (re.compile(r'(?<=") = (?=")'), " != "),
    (re.compile(r" \[ -n "), " [ -z "),
    (re.compile(r" \[ -z "), " [ -n "),
    (re.compile(r" && "), " || "),
    (re.compile(r"\bif ! "), "if "),
    (re.compile(r"\bexit 1\b"), "exit 0"),
    (re.compile(r"\breturn 1\b"), "return 0"),
)


@dataclass(frozen=True)
class Mutant:
    """One fault: the text of a file from `start` to `end`, in characters, becomes `text`."""

    path: Path
    start: int
    end: int
    text: str

    def source(self) -> str:
        """The whole file with the fault."""
        source = self.path.read_text(encoding="utf-8")
        return source[: self.start] + self.text + source[self.end :]

    def __str__(self) -> str:
        source = self.path.read_text(encoding="utf-8")
        line = source.count("\n", 0, self.start) + 1
        old = " ".join(source[self.start : self.end].split())
        return f"{self.path.relative_to(ROOT)}:{line}: `{old}` → `{' '.join(self.text.split())}`"


def main(arguments: list[str] | None = None) -> int:
    """Print what became of each fault; return 1 if the tests fail without one, and 0 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m checks.mutants", description="Which small faults no test notices.")
    parser.add_argument("--count", type=int, default=40, help="faults in the sample; default: 40")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(1_000), help="of the sample; default: another each time"
    )
    options = parser.parse_args(arguments)
    sample = choose(options.count, options.seed)
    print(f"{len(sample)} faults, seed {options.seed}", flush=True)
    unnoticed: list[Mutant] = []
    with copies(PARALLEL) as free, ThreadPoolExecutor(PARALLEL) as pool:
        if failure := pool.submit(_failure, None, free).result():
            print(f"the tests fail without a fault: {failure}")
            return 1
        for mutant, failure in zip(sample, pool.map(_failure, sample, repeat(free)), strict=True):
            print(f"{mutant}: {f'noticed by {failure}' if failure else 'NOT NOTICED'}", flush=True)
            unnoticed += [] if failure else [mutant]
    noticed = len(sample) - len(unnoticed)
    print(f"{noticed} of {len(sample)} faults noticed, seed {options.seed}")
    tell("mutants", passed=noticed, failed=len(unnoticed))
    return 0


def choose(count: int, seed: int) -> list[Mutant]:
    """Return a sample of all faults, as many of each package; the same one for the same seed and code."""
    chance, sample = random.Random(seed), list[Mutant]()
    for number, package in enumerate(PACKAGES):
        folder = ROOT / "src" / "openstack_operator" / package
        files = sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".sh"))
        mutants = [mutant for path in files for mutant in mutants_of(path)]
        share = count // len(PACKAGES) + (number < count % len(PACKAGES))
        sample += chance.sample(mutants, min(share, len(mutants)))
    return sample


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Return every fault that can be put into a program of Python or of the shell."""
    source = path.read_text(encoding="utf-8")
    faults = _in_shell(source) if path.suffix == ".sh" else _in_python(source)
    return (Mutant(path, *fault) for fault in faults)


def _in_shell(source: str) -> Iterator[tuple[int, int, str]]:
    start = 0
    for line in source.splitlines(keepends=True):
        if not line.lstrip().startswith("#"):
            for pattern, text in _SHELL:
                yield from ((start + each.start(), start + each.end(), text) for each in pattern.finditer(line))
        start += len(line)


def _in_python(source: str) -> Iterator[tuple[int, int, str]]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    encoded = source.encode()

    def at(line: int, column: int) -> int:
        """Offset in characters of a place that `ast` counts in bytes."""
        return len(encoded[: starts[line - 1] + column].decode())

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        return at(node.lineno, node.col_offset), at(node.end_lineno or 0, node.end_col_offset or 0)

    for node in _nodes(ast.parse(source)):
        match node:
            case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in _OPPOSITE:
                old, new = _OPPOSITE[type(operator)]
                yield from _between(source, span(left)[1], span(right)[0], old, new)
            case ast.BoolOp(op=operator, values=[left, right, *_]):
                old, new = ("and", "or") if isinstance(operator, ast.And) else ("or", "and")
                yield from _between(source, span(left)[1], span(right)[0], old, new)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield *span(node), f"({source[slice(*span(operand))]})"
            case ast.Constant(value=bool() as value):
                yield *span(node), str(not value)
            case ast.Constant(value=int() as value):
                yield *span(node), str(value + 1)
            case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(
                test, (ast.Compare, ast.BoolOp, ast.UnaryOp)
            ):
                yield *span(test), f"(not ({source[slice(*span(test))]}))"
            case ast.Expr(value=ast.Call() | ast.Await()):
                yield *span(node), "pass"
            case _:
                pass


def _between(source: str, start: int, end: int, old: str, new: str) -> Iterator[tuple[int, int, str]]:
    """Return the one fault that replaces an operator between its operands."""
    words = old.replace(" ", r"\s+")
    pattern = rf"\b{words}\b" if old[0].isalpha() else re.escape(old)
    if match := re.search(pattern, source[start:end]):
        yield start + match.start(), start + match.end(), new


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Return a tree's nodes, but for annotations and what only type checkers read."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "type_params"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _nodes(child)


@contextmanager
def copies(count: int) -> Generator[SimpleQueue[Path]]:
    """Clones of this checkout with the changes that are not committed, in which faults are put one at a time."""
    free = SimpleQueue[Path]()
    listing = ["git", "ls-files", "-z", "--modified", "--others", "--exclude-standard"]
    changed = subprocess.run(listing, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.split("\0")
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for number in range(count):
            copy = Path(folder) / str(number)
            subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(copy)], check=True)
            for name in filter(None, changed):
                (copy / name).unlink(missing_ok=True)
                if (ROOT / name).is_file():
                    (copy / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / name, copy / name)
            (copy / ".venv").symlink_to(ROOT / ".venv")
            free.put(copy)
        yield free


def _failure(mutant: Mutant | None, free: SimpleQueue[Path]) -> str:
    """Return the test that notices a fault; empty if none does."""
    copy = free.get()
    try:
        if mutant is None:
            return _run(copy, TESTS)
        target = copy / mutant.path.relative_to(ROOT)
        original = target.read_bytes()
        target.write_text(mutant.source(), encoding="utf-8")
        try:
            return _run(copy, (*likely_tests(mutant.path), "tests/cases")) or _run(copy, TESTS)
        finally:
            target.write_bytes(original)
    finally:
        free.put(copy)


def likely_tests(path: Path) -> list[str]:
    """Return the files of tests that have the name of a module or a program in theirs, or in an import."""
    name, folder = path.stem, path.parent.name
    imports = re.compile(rf"\b(?:import|from)\b[^\n]*\b{re.escape(name)}\b|{re.escape(f'{folder}/{path.name}')}")
    tests = sorted((ROOT / "tests" / "unit").glob("test_*.py")) + sorted((ROOT / "tests" / "agents").glob("test_*.py"))
    tests = [each for each in tests if not each.stem.endswith(("_served", "_real"))]
    chosen = [each for each in tests if name in each.stem or folder in each.stem.split("_")]
    chosen += [each for each in tests if each not in chosen and imports.search(each.read_text(encoding="utf-8"))]
    return [str(each.relative_to(ROOT)) for each in chosen]


def _run(copy: Path, tests: tuple[str, ...]) -> str:
    """Return the first test that fails in a copy of the checkout; empty if all pass."""
    ignored = ("--ignore-glob=*_served.py", "--ignore-glob=*_real.py")
    options = ("-q", "-x", "-n0", "-p", "no:randomly", "-p", "no:cacheprovider", "-m", "not seconds", "-rf", *ignored)
    command = [sys.executable, "-m", "pytest", *options, *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        result = subprocess.run(
            command,
            cwd=copy,
            env=environment,
            check=False,
            text=True,
            timeout=PATIENCE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except subprocess.TimeoutExpired:
        return f"the limit of {PATIENCE} s"
    if not result.returncode:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", result.stdout, re.MULTILINE)
    return failed[1] if failed else (result.stdout.splitlines() or ["pytest"])[-1]


if __name__ == "__main__":
    sys.exit(main())
