"""What a guest's process may do on its node, read where root of the node reads it: in the pod of libvirt."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tools.localcluster.kubernetes import Kubernetes

_READ = r"""
import json, os, re
from pathlib import Path

def listed(path):
    return sorted(os.listdir(path)) if os.path.isdir(path) else []

found = []
for process in Path("/proc").glob("[0-9]*"):
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        if not os.path.basename(words[0]).startswith(b"qemu-system"):
            continue
        status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
        groups = (process / "cgroup").read_text().splitlines()
        device = next((line.split(":", 2)[2] for line in groups if line.split(":")[1] in ("devices", "")), "")
        guest = next(word.decode() for word in words if word.startswith(b"guest="))
        found.append({
            "guest": re.match(r"guest=([^,]*)", guest)[1],
            "user": int(status["Uid"].split()[1]),
            "group": int(status["Gid"].split()[1]),
            "capabilities": int(status["CapEff"], 16) | int(status["CapPrm"], 16),
            "no_new_privileges": status["NoNewPrivs"].strip() == "1",
            "seccomp": int(status["Seccomp"]),
            "cgroup": device,
            "own_mounts": os.readlink(process / "ns/mnt") != os.readlink("/proc/self/ns/mnt"),
            "devices": listed(process / "root/dev"),
        })
    except (FileNotFoundError, ProcessLookupError):
        continue
print(json.dumps(found))
"""

USER = 64055
"""libvirt-qemu, in images/libvirt."""


@dataclass(frozen=True, kw_only=True)
class Guest:
    """A process of QEMU."""

    guest: str
    """libvirt's name of it."""
    user: int
    group: int
    capabilities: int
    """Those it has or could take, as bits."""
    no_new_privileges: bool
    seccomp: int
    """2: a filter."""
    cgroup: str
    """The one that says which devices it may use."""
    own_mounts: bool
    """Whether it sees other mounts than libvirt."""
    devices: list[str]
    """Names in its /dev."""


def guests(cluster: Kubernetes, pod: str, namespace: str = "openstack") -> list[Guest]:
    """The guests of a node, by the pod of libvirt there."""
    read = cluster.kubectl("exec", "-n", namespace, pod, "--", "python3", "-c", _READ)
    return [Guest(**each) for each in json.loads(read)]
