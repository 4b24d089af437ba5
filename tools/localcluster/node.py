"""Starting, losing and entering a node."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from . import cgroups, network, programs
from .init import start_time
from .layout import Node

_START_TIMEOUT = 30.0
_START_LOOK = 0.01
"""Seconds between two looks at the files that a node writes when it is as far, which is a fraction of a second: nodes
start one after the other.
"""
_LAST_LINES = 12


class NodeError(Exception):
    """A node that does not start, with where to look."""


def pid(node: Node) -> int | None:
    """Return the node's first process as the host sees it; None if it does not run."""
    try:
        number, started = node.pid_file.read_text().split()
        return int(number) if start_time(int(number)) == started else None
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return None


def start(nodes: Sequence[Node], subnet: ipaddress.IPv4Network) -> None:
    """Start and connect each node's first process, which starts the node's programs. Raises NodeError if that fails."""
    begun = [(node, _begin(node, subnet)) for node in nodes]
    for node, process in begun:
        number = _await(node, process, lambda node=node: pid(node))
        network.connect(node, subnet, number)
        assert process.stdin
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(b"go\n")
    for node, process in begun:
        # A process that enters a node earlier sees half of its file systems, and may block the mounts of the others.
        _await(node, process, node.furnished_file.exists)


def _begin(node: Node, subnet: ipaddress.IPv4Network) -> subprocess.Popen[bytes]:
    """Start the process that makes the node's namespaces. The first one in them waits for a line on its input."""
    programs.write(node, subnet, fresh=not node.boot_file.exists())
    node.pid_file.unlink(missing_ok=True)
    node.furnished_file.unlink(missing_ok=True)
    cgroups.create(f"{node.cgroup}/system")
    # As long as pods that have begun keep those that have not from it, what all wait for may be the last to begin.
    cgroups.prefer(f"{node.cgroup}/system")
    command = ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child=SIGKILL"]
    command += [sys.executable, "-m", "tools.localcluster.init", str(node.boot_file)]
    with _log(node).open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd="/",
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,
            # A v2 cgroup that has children cannot hold processes, hence one below the node's own.
            preexec_fn=lambda: cgroups.join(f"{node.cgroup}/system"),  # noqa: PLW1509  # there are no threads
        )


def stop(nodes: Sequence[Node]) -> None:
    """Stop the nodes at once as in a power cut; what they stored stays."""
    for node in nodes:
        kill(node)
    for node in nodes:
        cgroups.clear(node.cgroup)


def kill(node: Node) -> None:
    """Kill the node's first process; with it the kernel ends all processes and mounts of the node."""
    number = pid(node)
    if number is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def command_in(node: Node, *command: str) -> list[str]:
    """Return the command line that runs `command` in the node's namespaces. Raises NodeError if it does not run."""
    number = pid(node)
    if number is None:
        raise NodeError(
            f"{node.name} does not run; start it with `python -m tools.localcluster start-node {node.name}`"
        )
    return ["nsenter", f"--target={number}", "--mount", "--uts", "--ipc", "--net", "--pid", "--wd=/", "--", *command]


def _log(node: Node) -> Path:
    return node.home / "logs" / "init.log"


def _await(node: Node, process: subprocess.Popen[bytes], look: Callable[[], int | None]) -> int:
    """Return the first true result of `look`; raises NodeError, with the end of the log, if the node ends before."""
    deadline = time.monotonic() + _START_TIMEOUT
    while not (result := look()):
        if process.poll() is not None or time.monotonic() > deadline:
            last = _log(node).read_text(errors="replace").splitlines()[-_LAST_LINES:]
            raise NodeError("\n".join([f"{node.name} does not start; see {_log(node)}, which ends:", *last]))
        # Its init is a process of its own: only what it has made shows that it runs.
        time.sleep(_START_LOOK)
    return result
