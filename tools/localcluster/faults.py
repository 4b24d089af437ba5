"""Faults of machines, for tests of what recovers from them; none of them asks the API server for anything."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

from . import cgroups, init, node
from .clock import set_clock
from .cluster import ClusterError, lose_node, running_nodes, start_node, stop_node
from .commands import run
from .furnish import SIZED_VOLUMES
from .layout import Cluster, Node

__all__ = [
    "compact",
    "cut",
    "freeze",
    "heal",
    "kill_namespace",
    "kill_pod",
    "lose_node",
    "lose_unwritten",
    "power_off",
    "power_on",
    "restart_program",
    "set_clock",
    "thaw",
]

_TIMEOUT = 60.0
"""Seconds that processes have to end, to stop, or to start again."""
_LOOK = 0.05
"""Seconds between two checks whether a program runs again, as often as the node's init checks whether it may: only that
init, its parent, can wait for it.
"""
_CHAIN = "LOCALCLUSTER-CUT"
# All ways into and through a node, as hostNetwork pods have the node's own address. kube-proxy has its rules elsewhere.
_HOOKS = ("INPUT", "FORWARD", "OUTPUT")
# EXT4_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH of the kernel, which its own tests of power cuts use.
_SHUTDOWN, _WITHOUT_JOURNAL = 0x8004587D, (2).to_bytes(4, sys.byteorder)
# Runs in the first node's network, where etcd listens.
_POST = """
import json, sys, urllib.request
url, body = sys.argv[1:]
with urllib.request.urlopen(urllib.request.Request(url, body.encode()), timeout=30) as answer:
    sys.stdout.write(answer.read().decode())
"""


def kill_pod(cluster: Cluster, namespace: str, pod: str) -> None:
    """Kill all processes of the pod's containers at once; the process that keeps its network stays.

    Raises ClusterError if no container of the pod runs on any node.
    """
    groups, moved = _containers(cluster, namespace, pod), _moved(cluster, namespace, pod)
    if not groups and not moved:
        raise ClusterError(f"{namespace}/{pod}: no container of it runs")
    _signal(moved, signal.SIGKILL)
    _kill(groups, f"{namespace}/{pod}")


def kill_namespace(cluster: Cluster, namespace: str) -> None:
    """Kill all processes of the containers of all pods of the namespace at once. Raises as `kill_pod` does."""
    groups, moved = _containers(cluster, namespace), _moved(cluster, namespace)
    if not groups:
        raise ClusterError(f"{namespace}: no container of it runs")
    _signal(moved, signal.SIGKILL)
    _kill(groups, namespace)


def _kill(groups: list[str], target: str) -> None:
    deadline = time.monotonic() + _TIMEOUT
    # A process may have been starting another one meanwhile.
    while members := _members(groups):
        _signal(members, signal.SIGKILL)
        _check(deadline, f"{target}: processes {sorted(members)} do not end")


def freeze(cluster: Cluster, namespace: str, pod: str) -> None:
    """Stop all processes of the pod's containers until `thaw`; its probes go on.

    Raises ClusterError if no container of the pod runs on any node.
    """
    if not (groups := _containers(cluster, namespace, pod)):
        raise ClusterError(f"{namespace}/{pod}: no container of it runs")
    deadline = time.monotonic() + _TIMEOUT
    while active := {pid for pid in _members(groups) if _state(pid) not in "TtZX"}:
        _signal(active, signal.SIGSTOP)
        _check(deadline, f"{namespace}/{pod}: processes {sorted(active)} do not stop")


def thaw(cluster: Cluster, namespace: str, pod: str) -> None:
    """Continue the processes that `freeze` stopped; raises ClusterError if the pod has no container any more."""
    _signal(_members(_containers(cluster, namespace, pod)), signal.SIGCONT)


def cut(cluster: Cluster, groups: Sequence[Sequence[str]]) -> None:
    """Drop all packets between addresses of different groups, in either direction, until `heal` or another `cut`.

    The addresses are those of pods, or of nodes for pods in their network. Everything else passes. Connections that are
    open go silent as well. A node that starts again starts without.
    """
    drops = [
        f"-A {_CHAIN} -s {','.join(source)} -d {','.join(destination)} -j DROP"
        for source, destination in permutations(groups, 2)
        if source and destination
    ]
    table = "\n".join(["*mangle", f":{_CHAIN} - [0:0]", *drops, "COMMIT", ""])
    hooks = "; ".join(f"$it -C {hook} -j {_CHAIN} 2>/dev/null || $it -I {hook} -j {_CHAIN}" for hook in _HOOKS)
    for each in running_nodes(cluster):
        _in_network(each, "iptables-restore", "--wait", "--noflush", stdin=table)
        _in_network(each, "sh", "-euc", f"it='iptables --wait --table mangle'; {hooks}")


def heal(cluster: Cluster) -> None:
    """Let all packets pass again."""
    lines = [f"while $it -D {hook} -j {_CHAIN} 2>/dev/null; do :; done" for hook in _HOOKS]
    lines.append(f"if $it -F {_CHAIN} 2>/dev/null; then $it -X {_CHAIN}; fi")
    for each in running_nodes(cluster):
        _in_network(each, "sh", "-euc", "; ".join(["it='iptables --wait --table mangle'", *lines]))


def power_off(cluster: Cluster) -> None:
    """Kill all processes of all nodes at once, those of etcd included."""
    stop_node(cluster)


def lose_unwritten(cluster: Cluster) -> None:
    """Let the file systems of all sized volumes lose what is not on the disk, and refuse everything, until the nodes
    start again. A power cut does that; `power_off` alone leaves what programs wrote to files to the kernel.
    """
    for each in running_nodes(cluster):
        for image in Path(f"/proc/{node.pid(each)}/root{SIZED_VOLUMES}").glob("*.img"):
            volume = os.open(image.with_suffix(""), os.O_RDONLY | os.O_DIRECTORY)
            try:
                # One that is not mounted is a directory of the node's own file system, which is that of this machine.
                if os.fstat(volume).st_dev != image.stat().st_dev:
                    fcntl.ioctl(volume, _SHUTDOWN, _WITHOUT_JOURNAL)
            finally:
                os.close(volume)


def power_on(cluster: Cluster) -> None:
    """Start all nodes again, with the disks they had, and wait until the API server answers."""
    start_node(cluster)


def restart_program(cluster: Cluster, node_name: str, program: str, down_seconds: float = 0.0) -> None:
    """Kill the program, such as kube-apiserver, and wait until it runs again, after `down_seconds` (at least one).

    Raises ValueError for a program the node does not have, ClusterError if it does not run now.
    """
    each = cluster.node_called(node_name)
    boot: dict[str, Any] = json.loads(each.boot_file.read_text())
    commands = {str(entry["name"]): str(entry["command"][0]) for entry in boot["programs"] if not entry.get("once")}
    if program not in commands:
        raise ValueError(f"{program}: {node_name} has no such program; choose from {', '.join(sorted(commands))}")
    before = _program(each, commands[program])
    if before is None:
        raise ClusterError(f"{program} does not run on {node_name}; see {each.home}/logs/{program}.log")
    init.hold(each.home / "logs", program, down_seconds)
    os.kill(before, signal.SIGKILL)
    deadline = time.monotonic() + down_seconds + _TIMEOUT
    while _program(each, commands[program]) in {before, None}:
        _check(deadline, f"{program} did not start again on {node_name}; see {each.home}/logs/{program}.log")
        # The program belongs to another process, its init, which sends no notice of a new start.
        time.sleep(_LOOK)


def compact(cluster: Cluster) -> int:
    """Let etcd forget all but the latest state of every object, and return the revision that is left.

    A watch from before gets 410 as soon as the API server cannot answer it from its own memory: after a restart.
    """
    node1 = cluster.node(1)
    status = _etcd(node1, "/v3/kv/range", {"key": base64.b64encode(b"/").decode(), "count_only": True})
    revision = int(status["header"]["revision"])
    _etcd(node1, "/v3/kv/compaction", {"revision": revision, "physical": True})
    return revision


def _containers(cluster: Cluster, namespace: str, pod: str = "") -> list[str]:
    """Return the cgroups of the containers with processes, of one pod or all, as paths below the root of every
    hierarchy.
    """
    containers: list[str] = []
    for each in running_nodes(cluster):
        identities = _identities(each, namespace, pod)
        groups = {
            str(Path(folder, name).relative_to(hierarchy))
            for hierarchy in (cgroups.hierarchies() if identities else [])
            # Unlike a glob, this is not upset by what vanishes meanwhile.
            for folder, names, _ in os.walk(hierarchy / each.cgroup)
            for name in identities.intersection(names)
        }
        containers += [group for group in groups if cgroups.members(group)]
    return containers


def _identities(each: Node, namespace: str, pod: str) -> set[str]:
    """Return the ids of a node's containers of one pod, or of all pods in the namespace."""
    labels = {"pod.namespace": namespace} | ({"pod.name": pod} if pod else {})
    chosen = [f'labels."io.kubernetes.{key}"=="{value}"' for key, value in labels.items()]
    chosen.append('labels."io.cri-containerd.kind"=="container"')
    listed = run(*node.command_in(each, "ctr", "-n", "k8s.io", "containers", "list", "-q", ",".join(chosen)))
    return set(listed.split())


def _moved(cluster: Cluster, namespace: str, pod: str = "") -> set[int]:
    """Return the processes of containers that left the cgroup they were started in, as libvirt does for the sake of its
    guests: the first one of each such container and those of its session. Guests have sessions of their own.
    """
    pids: set[int] = set()
    for each in running_nodes(cluster):
        identities = _identities(each, namespace, pod)
        tasks = [
            line.split() for line in run(*node.command_in(each, "ctr", "-n", "k8s.io", "tasks", "list")).splitlines()
        ]
        first_pids = {int(words[1]) for words in tasks if words and words[0] in identities and words[2] == "RUNNING"}
        present = cgroups.members(each.cgroup)
        here = {pid for pid in present if _on_node(pid) in first_pids and not identities & set(_cgroup(pid).parts)}
        sessions = {_session(pid) for pid in here} - {0}
        pids |= here | {pid for pid in present if _session(pid) in sessions}
    return pids


def _cgroup(pid: int) -> Path:
    """Return the cgroup of a process, below the root of some hierarchy; empty if there is none."""
    try:
        return Path(Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()[0].rpartition(":")[2])
    except (OSError, IndexError):
        return Path()


def _session(pid: int) -> int:
    """Return the session of a process; 0 if there is none."""
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def _on_node(pid: int) -> int:
    """Return the process id on the node, which counts its processes from 1 (NSpid in proc_pid_status(5)); 0 if there is
    none.
    """
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
            name, *numbers = line.split()
            if name == "NSpid:" and len(numbers) > 1:
                return int(numbers[1])
    return 0


def _members(groups: list[str]) -> set[int]:
    return {pid for group in groups for pid in cgroups.members(group) if _state(pid) not in "ZX"}


def _state(pid: int) -> str:
    """Return the state of a process as in proc(5): T is stopped, Z a zombie; X if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _check(deadline: float, problem: str) -> None:
    if time.monotonic() > deadline:
        raise ClusterError(problem)


def _program(each: Node, command: str) -> int | None:
    """Return the process, among the children of the node's first one, that this command started."""
    init_pid = node.pid(each)
    if init_pid is None:
        raise ClusterError(f"{each.name} does not run")
    for pid in Path(f"/proc/{init_pid}/task/{init_pid}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode() == command:
                return int(pid)
    return None


def _in_network(each: Node, *command: str, stdin: str | None = None) -> str:
    """Return the output of a command in the node's network. Commands and Python are those of the host."""
    number = node.pid(each)
    return run("nsenter", f"--net=/proc/{number}/ns/net", *command, stdin=stdin) if number else ""


def _etcd(each: Node, path: str, body: dict[str, Any]) -> dict[str, Any]:
    return json.loads(_in_network(each, sys.executable, "-c", _POST, f"http://127.0.0.1:2379{path}", json.dumps(body)))
