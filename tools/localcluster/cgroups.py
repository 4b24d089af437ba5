"""A cgroup of its own for each node, which is also how its processes are found after a crash."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
_GONE_TIMEOUT = 20.0
_GONE_LOOK = 0.02
"""Seconds between two looks at whether killed processes have been reaped: their parents do it at once, or when they
have a turn, and to remove a cluster waits for it a few times for each node.
"""
_KUBELETS = {"cpu", "cpuset", "hugetlb", "io", "memory", "pids"}


def unified() -> bool:
    """Return True if the machine has cgroup v2 only."""
    return (ROOT / "cgroup.controllers").exists()


def hierarchies() -> list[Path]:
    """Return the mount point of every hierarchy, of v1 and v2."""
    if unified():
        return [ROOT]
    return sorted(path for path in ROOT.iterdir() if not path.is_symlink() and (path / "cgroup.procs").exists())


def create(name: str) -> None:
    """Create the cgroup `name`, a path, in every hierarchy, able to hold processes."""
    for hierarchy in hierarchies():
        path = hierarchy
        for part in Path(name).parts:
            parent, path = path, path / part
            path.mkdir(exist_ok=True)
            if unified():
                _pass_on(parent)
            # A v1 cpuset starts empty, and an empty one refuses processes.
            for setting in ("cpuset.cpus", "cpuset.mems"):
                if not unified() and (path / setting).exists() and not (path / setting).read_text().strip():
                    (path / setting).write_text((parent / setting).read_text())


def _pass_on(parent: Path) -> None:
    """Let cgroups below a v2 cgroup use the controllers that kubelet insists on, as far as the kernel has them."""
    for controller in set((parent / "cgroup.controllers").read_text().split()) & _KUBELETS:
        (parent / "cgroup.subtree_control").write_text(f"+{controller}")


def prefer(name: str) -> None:
    """Give the cgroup `name` most of the CPU when it and its siblings want more than there is: four times what kubelet
    gives all pods of a node with two CPUs.
    """
    for hierarchy in hierarchies():
        for file, value in (("cpu.shares", "8192"), ("cpu.weight", "316")):
            if (hierarchy / name / file).exists():
                (hierarchy / name / file).write_text(value)


def join(name: str) -> None:
    """Move the calling process to the cgroup `name` of every hierarchy."""
    for hierarchy in hierarchies():
        (hierarchy / name / "cgroup.procs").write_text("0")


def members(name: str) -> set[int]:
    """Return the processes in the cgroup `name` or below it, in any hierarchy."""
    pids: set[int] = set()
    for group in _groups(name):
        with contextlib.suppress(OSError):
            pids.update(int(line) for line in (group / "cgroup.procs").read_text().split())
    return pids - {0, os.getpid()}


def exists(name: str) -> bool:
    return any((hierarchy / name).exists() for hierarchy in hierarchies())


def clear(name: str) -> None:
    """Delete the cgroup `name` and kill all its processes. Raises TimeoutError if that takes too long."""
    deadline = time.monotonic() + _GONE_TIMEOUT
    while exists(name):
        for pid in members(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for group in _groups(name):
            # Busy until the last process is reaped.
            with contextlib.suppress(OSError):
                group.rmdir()
        if time.monotonic() > deadline:
            raise TimeoutError(f"cgroup {name}: processes {sorted(members(name))} do not end")
        # cgroup v1, which some of these machines have, sends no notice when the last process is gone.
        time.sleep(_GONE_LOOK)


def _groups(name: str) -> list[Path]:
    """Return the cgroups, deepest first, as they have to be removed."""
    groups: list[Path] = []
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(hierarchy / name, topdown=False):
            groups.append(Path(folder))
    return groups
