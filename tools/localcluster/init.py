"""The first process of a node: it furnishes the node's namespaces, then starts its programs and keeps them running."""

from __future__ import annotations

# Nothing can be imported once the node's own /var/lib, /run and /tmp cover the host's, so the codec that sockets
# load on first use is loaded here.
import encodings.idna  # noqa: F401  # pyright: ignore[reportUnusedImport]
import json
import os
import resource
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import furnish
from .apiserver import ready
from .layout import EXTERNAL, TUNNELS
from .offload import complete_checksums

_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
_RESTART_DELAY = 1.0
_POLL = 0.05
_MAX_FILES = 1048576


@dataclass
class Program:
    """One process to keep running, or to run `once`."""

    name: str
    command: list[str]
    env: dict[str, str] = field(default_factory=dict[str, str])
    """Added to the little that every program gets."""
    file: str = ""
    """Wait for this path to exist."""
    url: str = ""
    """Wait for the API server at this address to be ready."""
    after: list[str] = field(default_factory=list[str])
    """Wait for these programs, which run once, to succeed."""
    once: bool = False
    pid: int = 0
    is_complete: bool = False
    not_before: float = 0.0


def main() -> None:
    boot: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    Path(boot["pid_file"]).write_text(_identity())
    furnish.furnish(boot)
    # The starter says when the network is up. If it died instead, the node ends too: half a node is of no use.
    if sys.stdin.readline().strip() != "go":
        sys.exit("the process that started this node is gone")
    for interface in (TUNNELS, EXTERNAL):
        complete_checksums(interface)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    logs, authority = Path(boot["logs"]), Path(boot["authority"])
    (logs / "furnished").touch()
    supervise([Program(**program) for program in boot["programs"]], logs, authority)


def hold(logs: Path, name: str, seconds: float) -> None:
    """Keep the program from being started in the next `seconds`, once it ends."""
    (logs / f"{name}.held").write_text(str(time.monotonic() + seconds))


def supervise(programs: list[Program], logs: Path, authority: Path) -> None:
    """Return on SIGTERM; until then start each program once what it waits for exists, and again when it ends.

    Each writes into a file of its name below `logs`, where `hold` says when it may start at the earliest.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})
    while True:
        _reap(programs, logs)
        waiting = [program for program in programs if not program.pid and not program.is_complete]
        urls = {program.url: ready(program.url, authority) for program in waiting if program.url}
        for program in waiting:
            if _may_start(program, programs, urls):
                program.pid = _start(program, logs)
        waiting = [program for program in waiting if not program.pid]
        received = signal.sigtimedwait({signal.SIGCHLD, signal.SIGTERM}, _POLL if waiting else 60)
        if received is not None and received.si_signo == signal.SIGTERM:
            return


def _may_start(program: Program, programs: list[Program], urls: dict[str, bool]) -> bool:
    return (
        time.monotonic() >= program.not_before
        and (not program.file or Path(program.file).exists())
        and all(predecessor.is_complete for predecessor in programs if predecessor.name in program.after)
        and urls.get(program.url, True)
    )


def _start(program: Program, logs: Path) -> int:
    log = str(logs / f"{program.name}.log")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawnp(
        program.command[0],
        program.command,
        _ENV | program.env,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
    )


def _reap(programs: list[Program], logs: Path) -> None:
    """Collect every child that ended: our programs, and orphans of the node's processes."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        for program in programs:
            if program.pid == pid:
                program.pid = 0
                program.is_complete = program.once and status == 0
                program.not_before = max(time.monotonic() + _RESTART_DELAY, _held_until(logs / f"{program.name}.held"))
                print(f"{program.name} ended with status {os.waitstatus_to_exitcode(status)}", flush=True)


def _held_until(file: Path) -> float:
    return float(file.read_text()) if file.exists() else 0.0


def _identity() -> str:
    """Return process id and start time as the host sees them: the host's /proc is still mounted."""
    pid = Path("/proc/self").readlink().name
    return f"{pid} {start_time(int(pid))}\n"


def start_time(pid: int) -> str:
    """Return when the process started, in clock ticks since boot; with `pid` it is unique until a reboot.

    Raises ProcessLookupError if there is none, or only what is left of one until its parent takes notice.
    """
    try:
        # The second field is the command in parentheses, which may hold spaces.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError as error:
        raise ProcessLookupError(pid) from error
    if fields[0] in {"Z", "X"}:
        raise ProcessLookupError(pid)
    return fields[19]


if __name__ == "__main__":
    main()
