"""Processes that a run of tests started, and that outlive it: found by a mark in their environment, and killed.

A guard in a session of its own waits for the end of the run, and of each program above it up to `make`. It also does
its work if one of these is killed with all of its process group. Processes of the embedded cluster are no leftovers:
the cluster is what `make cloud` leaves, and `make cloud-down` removes.

The guard runs this file with Python's own library alone: `python -I tests/leftovers.py MARK RUN PARENT…`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

MARK = "OPENSTACK_OPERATOR_TEST_RUN"
"""Variable that all processes of a run have, with a value of its own."""
CLUSTER = "/localcluster-"
"""Part of the names of the embedded cluster's cgroups."""
_PATIENCE = 15.0
"""Seconds in which processes end that were told to."""
_PROC = Path("/proc")
_MAKE = ("make", "gmake")
_own: list[str] = []
"""Mark of the run that this process began."""


def begin() -> None:
    """Mark what this process starts from now on, and start its guard; nothing inside of a marked run."""
    if MARK in os.environ or not hasattr(os, "pidfd_open"):
        return
    run = [os.getpid(), *_parents()]
    # The guard itself has no mark.
    command = [sys.executable, "-I", __file__, mark := uuid.uuid4().hex, *map(str, run)]
    silence = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
        (os.POSIX_SPAWN_DUP2, 0, 1),
        (os.POSIX_SPAWN_DUP2, 0, 2),
    ]
    # Nobody waits for it: it outlives this process.
    os.posix_spawn(sys.executable, command, os.environ, file_actions=silence, setsid=True)
    os.environ[MARK] = mark
    _own.append(mark)


def marked() -> dict[str, str]:
    """Return the variable for processes that get an environment of their own."""
    return {MARK: os.environ[MARK]} if MARK in os.environ else {}


def left() -> list[str]:
    """Return the commands of processes of the run that this process began, and that do not end though it does."""
    return [_command(pid) for mark in _own for pid in sorted(_await_end(lambda mark=mark: _marked(mark)))]


def _parents() -> list[int]:
    """Return the processes above this one, up to the first `make`; none if no `make` started it."""
    chain = _ancestors(os.getpid())
    makes = [number for number, pid in enumerate(chain) if _name(pid) in _MAKE]
    return chain[: makes[-1] + 1] if makes else []


def _ancestors(pid: int) -> list[int]:
    chain: list[int] = []
    while (pid := _parent(pid)) > 1:
        chain.append(pid)
    return chain


def _parent(pid: int) -> int:
    # The name, in parentheses, may have any character.
    return int(_read(pid, "stat").rpartition(")")[2].split()[1]) if _read(pid, "stat") else 0


def _name(pid: int) -> str:
    return _read(pid, "comm").strip()


def _command(pid: int) -> str:
    return f"{pid} {_read(pid, 'cmdline').replace(chr(0), ' ').strip() or _name(pid)}"


def _read(pid: int, file: str) -> str:
    with suppress(OSError):
        return (_PROC / str(pid) / file).read_text(errors="replace")
    return ""


def _all() -> list[int]:
    return [int(folder.name) for folder in _PROC.iterdir() if folder.name.isdecimal()]


def _marked(mark: str) -> set[int]:
    """Return the processes with a mark but those of the embedded cluster. One that has ended has no environment."""
    text = f"{MARK}={mark}"
    return {pid for pid in _all() if text in _read(pid, "environ").split("\0") and CLUSTER not in _read(pid, "cgroup")}


def _descendants(pids: Sequence[int]) -> set[int]:
    """Return what was started by processes, and by what they started, but for the embedded cluster."""
    parents = {pid: _parent(pid) for pid in _all()}
    found, size = set(pids), -1
    while len(found) != size:
        size = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return {pid for pid in found - {os.getpid()} if CLUSTER not in _read(pid, "cgroup")}


def _await_end(look: Callable[[], set[int]], seconds: float = _PATIENCE) -> set[int]:
    """Return what is still seen after a while; nothing as soon as nothing is."""
    deadline = time.monotonic() + seconds
    while (pids := look()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return pids


def _guard(mark: str, run: Sequence[int]) -> None:
    """Wait for the end of a run, or of a program above it, and kill what that leaves."""
    os.chdir("/")
    ended = _first_end(run)
    # What is above the one that ended goes on, as it does after any command.
    below = run[:ended]

    def kill() -> set[int]:
        pids = (_descendants(below) if below else set[int]()) | _marked(mark)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return pids

    if ended == 0:
        # It has said itself what it left; workers that were not told yet that it ended get a moment.
        _await_end(lambda: _marked(mark), 1.0)
    _await_end(kill)


def _first_end(run: Sequence[int]) -> int:
    """Return the number of the process of a run that ended first, the one that is highest."""
    poll, numbers = select.poll(), dict[int, int]()
    for number, pid in enumerate(run):
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return number
        numbers[descriptor] = number
        poll.register(descriptor, select.POLLIN)
    return max(numbers[descriptor] for descriptor, _ in poll.poll())


if __name__ == "__main__":
    _guard(sys.argv[1], [int(word) for word in sys.argv[2:]])
