"""CPU seconds that tests take, with the programs that they start: `python -m tests.cpu_costs tests/unit`.

Seconds on a clock say as much about what else a machine does. Takes pytest's arguments; what a fixture takes counts for
the first test that asks for it, and what a server does at rest for whichever test runs.
"""

from __future__ import annotations

from images.venv import use_venv

if __name__ == "__main__":
    use_venv("tests.cpu_costs")

import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
SHOWN = 30
"""Files, and tests, that are listed: those that take most."""


def cpu_seconds() -> float:
    """Return what this process took so far, with its children, those that run included."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system + _of_children(os.getpid())


def _of_children(pid: int) -> float:
    """Return what the children of a process that run took so far, with theirs."""
    total = 0.0
    # Processes and threads may end while they are looked at.
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                total += _of_process(int(child)) + _of_children(int(child))
    return total


def _of_process(pid: int) -> float:
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        # User and system time, its own and that of the children it waited for.
        return sum(map(int, fields[11:15])) / _TICKS
    return 0.0


class Costs:
    """A plugin of pytest that adds up CPU by test, and prints it at the end by folder, file and test."""

    def __init__(self) -> None:
        self.by_test: defaultdict[str, float] = defaultdict(float)
        self.tests = Counter[str]()
        self.collection = 0.0

    @contextmanager
    def _measured(self, name: str) -> Generator[None]:
        before = cpu_seconds()
        yield
        self.by_test[name] += cpu_seconds() - before

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        before = cpu_seconds()
        answer = yield
        self.collection = cpu_seconds() - before
        return answer

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        # One line for all parameters of a test.
        name = item.nodeid.partition("[")[0]
        self.tests[name] += 1
        with self._measured(name):
            return (yield)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("CPU seconds")
        terminalreporter.write_line(f"{self.collection:8.1f}        collection")
        for depth in (2, 0):
            seconds: defaultdict[str, float] = defaultdict(float)
            tests = Counter[str]()
            for name, taken in self.by_test.items():
                path = name.partition("::")[0]
                group = "/".join(path.split("/")[:depth]) if depth else path
                seconds[group] += taken
                tests[group] += self.tests[name]
            self._table(terminalreporter, seconds, tests)
        self._table(terminalreporter, self.by_test, self.tests)

    def _table(self, reporter: pytest.TerminalReporter, seconds: Mapping[str, float], tests: Mapping[str, int]) -> None:
        reporter.write_line("")
        most = sorted(seconds.items(), key=lambda each: -each[1])
        for name, taken in most[:SHOWN]:
            reporter.write_line(f"{taken:8.1f} {tests[name]:6d} {name}")


if __name__ == "__main__":
    # One process, which looks at its own children.
    sys.exit(pytest.main(["-q", "-p", "no:xdist", *sys.argv[1:]], plugins=[Costs()]))
