"""Small faults in a sample of the code, and whether a test notices each: `python -m tools.checks.mutants [--cpu N]`.

Of each fault those tests run that are likely to notice it: tests of that module, and cases. The sample is the same for
the same `--seed`, and as large as so many seconds of CPU allow. A fault that none of its tests notices is printed with
its line: either a test is missing, or another one notices, or the fault changes nothing that anyone can see.
"""

from __future__ import annotations

from images.venv import use_venv

if __name__ == "__main__":
    use_venv("tools.checks.mutants")

import argparse
import ast
import itertools
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

from tests.suites import COUNTS, tell
from tools.checks.likely_tests import DEFINITIONS, tests_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("plan", "parts", "kube", "agents", "services", "runtime", "actuators")
RESULTS = ROOT / "build" / "mutants.txt"
PARALLEL = 2
BUDGET = 1_800
"""Seconds of CPU: a quarter of an hour of two processors."""
PATIENCE, CPU_PATIENCE = 1_800, 300
"""Seconds on a clock, and of CPU, for the tests of one fault, after which it counts as noticed: it may be a loop
without end. They take some ten seconds of CPU, on a busy machine many minutes.
"""
NO_TESTS = int(pytest.ExitCode.NO_TESTS_COLLECTED)
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
        """Return the whole file with the fault."""
        source = self.path.read_text(encoding="utf-8")
        return source[: self.start] + self.text + source[self.end :]

    def definition(self) -> str:
        """Name of the function or class of the module that has the fault; empty outside of them."""
        if self.path.suffix != ".py":
            return ""
        source = self.path.read_text(encoding="utf-8")
        line = source.count("\n", 0, self.start) + 1
        nodes = [each for each in ast.parse(source).body if isinstance(each, DEFINITIONS)]
        return next((each.name for each in nodes if each.lineno <= line <= (each.end_lineno or 0)), "")

    def __str__(self) -> str:
        source = self.path.read_text(encoding="utf-8")
        line = source.count("\n", 0, self.start) + 1
        old = " ".join(source[self.start : self.end].split())
        return f"{self.path.relative_to(ROOT)}:{line}: `{old}` → `{' '.join(self.text.split())}`"


def main(arguments: list[str] | None = None) -> int:
    """Print what became of each fault; return 1 if some test fails without one. The results so far are in a file as
    well, and stay if the program is ended.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tools.checks.mutants", description="Which small faults no test notices."
    )
    parser.add_argument("--cpu", type=int, default=BUDGET, help=f"seconds of CPU to spend; default: {BUDGET}")
    parser.add_argument("--count", type=int, default=10_000, help="faults at most; default: as many as CPU allows")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(1_000), help="of the sample; default: another each time"
    )
    options = parser.parse_args(arguments)
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", buffering=1, encoding="utf-8") as file, copies(PARALLEL) as folders:
        run = Run(choose(options.count, options.seed), options.cpu, file.write)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        run.say(f"seed {options.seed}, {options.cpu} s of CPU; these lines are in {RESULTS.relative_to(ROOT)} as well")
        with ThreadPoolExecutor(PARALLEL) as pool:
            try:
                for each in [pool.submit(run.work, folder) for folder in folders]:
                    each.result()
            except KeyboardInterrupt:
                run.say("ended before its time")
            finally:
                # Also where a thread failed: the other one would go on.
                run.stop()
        run.summary(options.seed)
    return 1 if run.failing else 0


class Run:
    """Faults that are tried one after the other, by several threads, each in a checkout of its own."""

    def __init__(self, sample: Sequence[Mutant], budget: float, write: Callable[[str], object]) -> None:
        self._sample, self._budget, self._write = iter(sample), budget, write
        self._lock = threading.Lock()
        self._processes = set[subprocess.Popen[str]]()
        self._proven = set[str]()
        """Files of tests that pass without a fault."""
        self._broken = set[str]()
        self._times = itertools.count(1)
        self._stopped = False
        self._tried = 0
        self._unnoticed: list[str] = []
        self.failing = set[str]()
        """Tests that fail without a fault."""

    def work(self, copy: Path) -> None:
        """Try faults in a checkout until no CPU is left."""
        while mutant := self._next():
            tests = self._sound(copy, tests_of(mutant.path, mutant.definition()))
            noticed = self._try(mutant, copy, tests)
            self._record(mutant, tests, noticed)

    def _sound(self, copy: Path, tests: Sequence[str]) -> list[str]:
        """Return the tests that pass without a fault; the others are left out, and said at the end."""
        new = [each for each in tests if each not in self._proven]
        while new and (failed := self._run(copy, new)) and not self._stopped:
            broken = {each for each in new if failed.startswith(each)} or set(new)
            self.failing |= {failed}
            self._broken |= broken
            new = [each for each in new if each not in broken]
        self._proven |= set(new)
        return [each for each in tests if each not in self._broken]

    def stop(self) -> None:
        """Try no more faults, and end the tests that run."""
        with self._lock:
            self._stopped = True
            for process in self._processes:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def say(self, line: str) -> None:
        """Print a line, and write it down."""
        print(line, flush=True)
        self._write(f"{line}\n")

    def summary(self, seed: int) -> None:
        """Say how many were noticed, and once more which were not."""
        for test in sorted(self.failing):
            self.say(f"fails without a fault, and its file was left out: {test}")
        for line in self._unnoticed:
            self.say(f"NOT NOTICED {line}")
        noticed = self._tried - len(self._unnoticed)
        self.say(f"{noticed} of {self._tried} faults noticed, {cpu_of_children():.0f} s of CPU, seed {seed}")

    def _next(self) -> Mutant | None:
        with self._lock:
            spent = self._stopped or cpu_of_children() >= self._budget
            return None if spent else next(self._sample, None)

    def _record(self, mutant: Mutant, tests: Sequence[str], noticed: str) -> None:
        with self._lock:
            if self._stopped:
                return
            self._tried += 1
            if not noticed:
                self._unnoticed.append(f"{mutant} by {' '.join(tests) or 'any test: there is none of it'}")
            said = f"noticed by {noticed}" if noticed else "NOT NOTICED"
            self.say(f"[{self._tried}, {cpu_of_children():.0f} s] {mutant}: {said}")
            tell("mutants", passed=self._tried - len(self._unnoticed), failed=len(self._unnoticed))

    def _try(self, mutant: Mutant, copy: Path, tests: Sequence[str]) -> str:
        """Return the test that notices a fault; empty if none does."""
        target = copy / mutant.path.relative_to(ROOT)
        original = target.read_bytes()
        self._put(target, mutant.source().encode())
        try:
            return self._run(copy, tests) if tests else ""
        finally:
            self._put(target, original)

    def _put(self, target: Path, content: bytes) -> None:
        """Write a module with another time than ever before: Python takes a compiled one by time and size."""
        target.write_bytes(content)
        os.utime(target, (seconds := next(self._times), seconds))

    def _run(self, copy: Path, tests: Sequence[str]) -> str:
        """Return the first test that fails in a copy of the checkout; empty if all pass."""
        options = ("-q", "-x", "-p", "no:xdist", "-p", "no:randomly", "-p", "no:cacheprovider", "-m", "not seconds")
        command = [sys.executable, "-m", "pytest", *options, "-rf", *tests]
        environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": ""}
        # The ledger counts faults.
        environment.pop(COUNTS, None)
        with self._lock:
            if self._stopped:
                return "nobody"
            process = subprocess.Popen(
                command, cwd=copy, env=environment, text=True, start_new_session=True, stdout=PIPE, stderr=STDOUT
            )
            self._processes.add(process)
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (CPU_PATIENCE, CPU_PATIENCE))
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            return f"the limit of {PATIENCE} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            with self._lock:
                self._processes.remove(process)
        if process.returncode == NO_TESTS or not process.returncode:
            return ""
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
        return failed[1] if failed else (output.splitlines() or [f"status {process.returncode}"])[-1]


def cpu_of_children() -> float:
    """Return the seconds of CPU that ended processes took, with theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def choose(number: int, seed: int) -> list[Mutant]:
    """Return a sample of all faults, of each package in turn; the same one for the same seed and code."""
    chance, of_packages = random.Random(seed), list[list[Mutant]]()
    for package in PACKAGES:
        folder = ROOT / "src" / "openstack_operator" / package
        files = sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".sh"))
        mutants = [mutant for path in files for mutant in mutants_of(path)]
        chance.shuffle(mutants)
        of_packages.append(mutants)
    return [mutant for turn in itertools.zip_longest(*of_packages) for mutant in turn if mutant][:number]


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
        """Return the offset in characters of a place that `ast` counts in bytes."""
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
    """Return a tree's nodes, but for annotations, what only type checkers read, and decorators: dataclasses are frozen
    so that type checkers find changes.
    """
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "type_params", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _nodes(child)


@contextmanager
def copies(count: int) -> Generator[list[Path]]:
    """Yield clones of this checkout with the changes that are not committed, in which faults are put one at a time."""
    folders = list[Path]()
    listing = ["git", "ls-files", "-z", "--modified", "--others", "--exclude-standard"]
    changed = subprocess.run(listing, cwd=ROOT, check=True, stdout=PIPE, text=True).stdout.split("\0")
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
            folders.append(copy)
        yield folders


if __name__ == "__main__":
    sys.exit(main())
