"""The machine that a node sees: the host's programs, read-only, and directories of its own for all state."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from .commands import run

STATE = Path("/run/localcluster/state")
"""The cluster's directory as its nodes see it: short, as the path of a socket has at most 107 characters."""
CACHE = Path("/run/localcluster/cache")
SHARED_VOLUMES = STATE / "shared"
"""On the machine's disk, the same for all nodes."""
SIZED_VOLUMES = Path("/var/lib/local-path-provisioner/sized")
"""On the node's disk: an image file for each volume, and beside it the directory it is mounted on."""

# kubelet sets these for the whole kernel. A file that already says what it wants keeps it from doing so.
_KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def furnish(boot: dict[str, Any]) -> None:
    """Give the calling process, alone in new namespaces, the node's own file systems, name and kernel settings.

    Nothing of it is visible outside, and all of it goes when the last process of the node ends.
    """
    home = Path(boot["home"])
    stage = home / "run"
    for folder in ("run", "lib/containerd", "log", "etc"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    socket.sethostname(boot["name"])
    _mount("--make-rprivate", "/")
    _mount("-t", "proc", "proc", "/proc")
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(stage))
    _bind_below(stage, boot)
    # sysfs shows the network of the namespace it was mounted in.
    _mount("-t", "sysfs", "sysfs", "/sys")
    _mount("--move", str(stage / "localcluster/cgroup"), "/sys/fs/cgroup")
    if os.path.ismount("/sys/fs/cgroup/unified"):
        # Beside those of v1, crun would insist on having it to itself; nothing on a node needs it.
        run("umount", "/sys/fs/cgroup/unified")
    files = _own_files(home, boot)
    # First of all that covers: the state may be below any of the others.
    _mount("--move", str(stage), "/run")
    inside = STATE / home.relative_to(boot["cluster_home"])
    _mount("--bind", str(inside / "log"), "/var/log")
    _mount("--bind", str(inside / "lib"), "/var/lib")
    _mount("--bind", "/run/localcluster/images", "/var/lib/containerd")
    for folder in ("/tmp", "/dev/shm"):
        _mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", folder)
    for source, target in files.items():
        _cover(STATE / source.relative_to(boot["cluster_home"]), Path(target))
    _mount("-o", "remount,bind,ro", "/")
    # From here on what one pod mounts with Bidirectional propagation, the others see.
    _mount("--make-rshared", "/")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _bind_below(stage: Path, boot: dict[str, Any]) -> None:
    """Bind the host directories that the node works with, before anything covers their paths."""
    for name, source in {
        "state": boot["cluster_home"],
        "cache": boot["cache"],
        "images": boot["images"],
        "cgroup": "/sys/fs/cgroup",
    }.items():
        target = stage / "localcluster" / name
        target.mkdir(parents=True)
        _mount("--rbind", source, str(target))
    for name, mode in {"lock": 0o1777, "netns": 0o755}.items():
        (stage / name).mkdir()
        (stage / name).chmod(mode)


def _own_files(home: Path, boot: dict[str, Any]) -> dict[Path, str]:
    """Return files written for this node, each with the path that it covers."""
    contents = {
        "/etc/hostname": f"{boot['name']}\n",
        "/etc/hosts": f"127.0.0.1 localhost\n{boot['address']} {boot['name']}\n",
        # There is no resolver outside the cluster; pods get the cluster's own from kubelet.
        "/etc/resolv.conf": "",
        "/etc/machine-id": f"{boot['machine_id']}\n",
    }
    for setting, value in _KERNEL_SETTINGS.items():
        path = Path("/proc/sys", setting)
        if path.exists() and path.read_text().strip() != value:
            contents[str(path)] = f"{value}\n"
    files: dict[Path, str] = {}
    for target, content in contents.items():
        source = home / "etc" / target.strip("/").replace("/", "-")
        source.write_text(content)
        files[source] = target
    return files


def _cover(source: Path, target: Path) -> None:
    # /etc/resolv.conf is often a link into /run, which is the node's own and empty by now.
    path = target.resolve()
    if not path.exists():
        if not path.is_relative_to("/run"):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    _mount("--bind", str(source), str(path))


def _mount(*arguments: str) -> None:
    # Without a record in /run/mount, which is the host's at first and gone later.
    run("mount", "--no-mtab", *arguments)
