"""Check of a machine for all that a cluster needs to run."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import paths
from .build import go_problem
from .cgroups import hierarchies
from .commands import run
from .programs import CNI_FOLDERS, CNI_PLUGINS

_DISK = 15
_MEMORY = 8
# inotify instances of a control plane, and of a node, as measured.
_CONTROL_PLANE_WATCHES = 10
_NODE_WATCHES = 8
# Command → Debian's package.
_PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "crun": "crun",
    "conntrack": "conntrack",
    "iptables": "iptables",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
    "mkfs.ext4": "e2fsprogs",
    # Of the proof, where this machine is the router of the external network.
    "ping": "iputils-ping",
}


class MissingError(Exception):
    """Parts that a machine lacks, with how to get them."""


@dataclass(frozen=True)
class Finding:
    """One thing looked at; `cure` says what to do, and is empty if nothing is wrong."""

    subject: str
    cure: str = ""


def report() -> int:
    """Print all findings, and return the exit status: 1 if something is missing, else 0."""
    findings = list(examine())
    for finding in findings:
        print(f"missing  {finding.subject}: {finding.cure}" if finding.cure else f"ok       {finding.subject}")
    return 1 if any(finding.cure for finding in findings) else 0


def require(nodes: int) -> None:
    """Raise MissingError, naming all that is missing, if a cluster of so many nodes could not start."""
    lacks = [f"{finding.subject}: {finding.cure}" for finding in examine(nodes) if finding.cure]
    if lacks:
        raise MissingError("this machine lacks:\n  " + "\n  ".join(lacks))


def examine(nodes: int = 1) -> Iterator[Finding]:
    yield Finding("root", "run as root: namespaces, mounts and containers need it" if os.geteuid() else "")
    yield Finding("go", go_problem())
    missing = missing_packages()
    if missing and shutil.which("apt-get"):
        yield Finding(f"system packages: `up` installs {' '.join(missing)}")
    else:
        yield Finding("system packages", f"install {' '.join(missing)}" if missing else "")
    yield from check_sizes()
    yield from _kernel()
    yield _watches(_CONTROL_PLANE_WATCHES + nodes * _NODE_WATCHES)


def missing_packages() -> list[str]:
    """Return the system packages that a cluster needs and this machine lacks."""
    missing = {package for command, package in _PACKAGES.items() if not shutil.which(command)}
    if not any(all((folder / plugin).exists() for plugin in CNI_PLUGINS) for folder in CNI_FOLDERS):
        missing.add("containernetworking-plugins")
    return sorted(missing)


def install_packages(missing: Sequence[str]) -> None:
    """Install system packages on Debian and its derivatives. Raise MissingError elsewhere, unless there are none."""
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise MissingError(f"install these first, by the names your system has for them: {' '.join(missing)}")
    print(f"installing {' '.join(missing)} with apt-get ...", file=sys.stderr)
    run("apt-get", "update", "--quiet=2")
    run("apt-get", "install", "--quiet=2", "--yes", "--no-install-recommends", *missing)


def check_sizes() -> Iterator[Finding]:
    """Yield what was found about the room on the disk, and about memory."""
    folder = next(path for path in (paths.state(), *paths.state().parents) if path.exists())
    free = shutil.disk_usage(folder).free // 1024**3
    images = _kept_images()
    subject = f"disk: {free} GiB free in {folder}" + (
        f", beside {images} GiB of images that a cluster keeps" if images else ""
    )
    lacks = f"make room: a cloud's images, volumes and the build need {_DISK} GiB"
    yield Finding(subject, lacks if free + images < _DISK else "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    lacks = f"the smallest cloud needs {_MEMORY} GiB"
    # Firmware and kernel keep a little of what is built in.
    yield Finding(f"memory: {memory:.1f} GiB", lacks if memory < _MEMORY * 0.95 else "")


def _kept_images() -> int:
    """Return the GiB of images that a cluster has imported, of the one with most: it needs no room for them again."""
    folders = sorted(paths.state().glob("*/images"))
    sizes = [subprocess.run(["du", "-skx", path], capture_output=True, check=False).stdout.split() for path in folders]
    return max((int(size[0]) for size in sizes if size), default=0) // 1024**2


def _kernel() -> Iterator[Finding]:
    file_systems = Path("/proc/filesystems").read_text().split()
    yield Finding("kernel: overlayfs", "" if "overlay" in file_systems or _module("overlay") else "modprobe overlay")
    lacks = "" if Path("/dev/net/tun").exists() else "modprobe tun; virtual machines need it"
    yield Finding("kernel: /dev/net/tun", lacks)
    needed = {"cpu", "cpuset", "memory", "pids"}
    controllers = {path.name for path in hierarchies()}
    unified = Path("/sys/fs/cgroup/cgroup.controllers")
    if unified.exists():
        controllers = set(unified.read_text().split())
    lacking = needed - {name for joined in controllers for name in joined.split(",")}
    yield Finding("kernel: cgroups", f"enable the controllers {', '.join(sorted(lacking))}" if lacking else "")
    if os.geteuid() == 0 and not missing_packages():
        yield from _network()


def _network() -> Iterator[Finding]:
    """Yield what the kernel's network lacks. It is tried in a temporary network namespace, so that the host's does not
    change.
    """
    for kind in ("bridge", "veth", "vxlan id 1 dstport 4789"):
        name = kind.partition(" ")[0]
        works = _in_namespace(f"ip link add probe type {kind}")
        yield Finding(f"kernel: {name}", "" if works else f"modprobe {name}")
    works = _in_namespace("iptables -t nat -A POSTROUTING -m comment --comment probe -j MASQUERADE")
    yield Finding("kernel: iptables with NAT", "" if works else "load iptable_nat, or nf_tables with nft_chain_nat")


def _watches(needed: int) -> Finding:
    """Return whether enough inotify instances are free. All clusters of a user share them; kubelet and containerd need
    them.
    """
    descriptors: list[int] = []
    library = ctypes.CDLL(None)
    while len(descriptors) < needed and (descriptor := library.inotify_init1(os.O_CLOEXEC)) >= 0:
        descriptors.append(descriptor)
    for descriptor in descriptors:
        os.close(descriptor)
    cure = f"{len(descriptors)} are free: remove other clusters, or sysctl fs.inotify.max_user_instances=1024"
    return Finding(f"kernel: {needed} inotify instances", cure if len(descriptors) < needed else "")


def _in_namespace(script: str) -> bool:
    return "works" in run("unshare", "--net", "sh", "-c", f"({script}) >/dev/null 2>&1 && echo works", check=False)


def _module(name: str) -> bool:
    return bool(shutil.which("modprobe")) and "loaded" in run(
        "sh", "-c", f"modprobe {name} && echo loaded", check=False
    )
