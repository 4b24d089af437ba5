"""A plugin of pytest: tests in several processes, `--processes 2`, which load the modules of tests once.

Processes that pytest-xdist starts each load all modules and collect all tests: a tenth of the CPU of `make check`. A
fork has them already. Each process takes tests from the parent, file after file, since a file shares its fixtures; one
that finds no file left takes half of what another still has. Reports come back to the parent, where all other plugins
see them as if the tests had run there.
"""

from __future__ import annotations

import multiprocessing
import warnings
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

import pytest
from _pytest.capture import CaptureManager

TERMINAL = ("terminalreporter", "terminalprogress-plugin")
COUNTER = "suite-counts"
"""Name of the plugin that counts for the ledger of suites."""
_GRACE = 120
"""Seconds for a process to end its servers, after which it is killed."""


class Deal:
    """Which process runs which test: numbers of tests, in the order in which they were collected."""

    def __init__(self, files: Sequence[str]) -> None:
        groups = groupby(range(len(files)), key=files.__getitem__)
        self._files = deque(deque(numbers) for _, numbers in groups)
        self._taken: dict[int, deque[int]] = {}

    def next_test(self, process: int) -> int | None:
        """Return a test that nobody was given, of the file that the process has begun where there is one."""
        taken = self._taken.get(process)
        if not taken:
            taken = self._taken[process] = self._files.popleft() if self._files else self._half()
        return taken.popleft() if taken else None

    def _half(self) -> deque[int]:
        """Take the later half of the longest rest of a file."""
        longest = max(self._taken.values(), key=len, default=deque[int]())
        return deque(reversed([longest.pop() for _ in range((len(longest) + 1) // 2)]))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=1, help="that run tests, each some; default: this one alone")


def pytest_configure(config: pytest.Config) -> None:
    if (count := int(config.getoption("--processes") or 1)) > 1:
        config.pluginmanager.register(_Processes(count))


class _Processes:
    """The plugin, in the parent."""

    def __init__(self, count: int) -> None:
        self._count = count

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.config.option.collectonly or session.testsfailed or len(session.items) < 2:
            return None
        if failure := _Parent(session).run(self._count):
            session.shouldfail = session.shouldfail or failure
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True


class _Parent:
    """What deals the tests, and passes on what is said of them."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._hook = session.config.hook
        self._deal = Deal([item.nodeid.partition("::")[0] for item in session.items])
        self._given: dict[int, list[int]] = {}
        """Of each process, the tests that it has and did not end."""
        self._failure = ""

    def run(self, count: int) -> str:
        """Return when each test has a report, or no more are wanted: what went wrong beside tests; empty if nothing."""
        fork = multiprocessing.get_context("fork")
        processes: dict[Connection, ForkProcess] = {}
        try:
            for _ in range(count):
                ours, theirs = fork.Pipe()
                # A process must not hold the ends of others open: it ends when its parent does.
                process = fork.Process(target=_child, args=(self._session, theirs, [ours, *processes]))
                process.start()
                theirs.close()
                processes[ours] = process
            while processes:
                ready = wait(list(processes))
                for connection in [each for each in processes if each in ready]:
                    if not self._answered(connection, processes[connection].pid or 0):
                        self._end(connection, processes.pop(connection))
        finally:
            for connection, process in processes.items():
                connection.close()
                process.join(_GRACE)
                process.kill()
        if not self._stopped() and self._deal.next_test(0) is not None:
            self._failure = "no process is left, and some tests did not run"
        return self._failure

    def _stopped(self) -> bool:
        return bool(self._session.shouldstop or self._session.shouldfail)

    def _answered(self, connection: Connection, pid: int) -> bool:
        """Take one message of a process; return False if there will be no more."""
        try:
            name, content = connection.recv()
        except (EOFError, ConnectionResetError):
            return False
        match name:
            case "next":
                number = None if self._stopped() else self._deal.next_test(pid)
                if number is not None:
                    self._given.setdefault(pid, []).append(number)
                with suppress(BrokenPipeError):
                    connection.send(number)
            case "report":
                report = self._hook.pytest_report_from_serializable(config=self._session.config, data=content)
                self._hook.pytest_runtest_logreport(report=report)
            case "warning":
                self._hook.pytest_warning_recorded.call_historic(kwargs=content)
            case "start":
                item = self._session.items[content]
                self._hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            case _:
                item = self._session.items[content]
                self._given[pid].remove(content)
                self._hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _end(self, connection: Connection, process: ForkProcess) -> None:
        """Report the tests that a process was given and did not end as failed."""
        connection.close()
        process.join()
        said = f"the process that had this test ended with {process.exitcode}"
        for number in self._given.pop(process.pid or 0, ()):
            item = self._session.items[number]
            self._hook.pytest_runtest_logreport(
                report=pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "call")
            )
        if process.exitcode:
            self._failure = f"a process that ran tests ended with {process.exitcode}"


def _child(session: pytest.Session, connection: Connection, others: Sequence[Connection]) -> None:
    """Run tests until the parent has no more, or is gone."""
    for other in others:
        other.close()
    manager = session.config.pluginmanager
    for name in (*TERMINAL, COUNTER):
        manager.unregister(name=name)
    capture: CaptureManager = manager.getplugin("capturemanager")  # pyright: ignore[reportAssignmentType]
    # What tests print is captured in a file: in one of its own.
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    child = _Child(session, connection)
    manager.register(child)
    try:
        # The parent may be gone, or told to end.
        with suppress(BrokenPipeError, EOFError, ConnectionResetError, KeyboardInterrupt):
            child.run()
    finally:
        # What fixtures started ends with the process.
        session._setupstate.teardown_exact(None)  # pyright: ignore[reportPrivateUsage]
    # Fails where garbage of the last test does, as in a process of pytest itself.
    session.config._ensure_unconfigure()  # pyright: ignore[reportPrivateUsage]


class _Child:
    """A plugin that tells the parent what is reported here."""

    def __init__(self, session: pytest.Session, connection: Connection) -> None:
        self._session, self._connection = session, connection

    def run(self) -> None:
        """Run tests while there are some. The one after the next tells which fixtures are needed again."""
        items = self._session.items
        number = self._next()
        while number is not None:
            after = self._next()
            self._connection.send(("start", number))
            items[number].config.hook.pytest_runtest_protocol(
                item=items[number], nextitem=None if after is None else items[after]
            )
            self._connection.send(("finish", number))
            number = after

    def _next(self) -> int | None:
        self._connection.send(("next", None))
        return self._connection.recv()

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        config = self._session.config
        data = config.hook.pytest_report_to_serializable(config=config, report=report)
        self._connection.send(("report", data))

    @pytest.hookimpl
    def pytest_warning_recorded(
        self,
        warning_message: warnings.WarningMessage,
        when: str,
        nodeid: str,
        location: tuple[str, int, str] | None,
    ) -> None:
        said = warnings.WarningMessage(
            str(warning_message.message), warning_message.category, warning_message.filename, warning_message.lineno
        )
        self._connection.send(
            ("warning", {"warning_message": said, "when": when, "nodeid": nodeid, "location": location})
        )
