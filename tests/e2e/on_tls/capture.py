"""What goes over the networks of a node, and what of it anybody could read."""

from __future__ import annotations

import mmap
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tools.localcluster import node
from tools.localcluster.kubernetes import KubeError
from tools.localcluster.layout import Cluster

# All interfaces at once but the loopback, on which Kubernetes speaks with its etcd, until its input ends. What a server
# asks its metadata agent for has no encryption by definition, and neither has a tenant's own traffic, which is in
# tunnels or on its way to the outside.
_TAKE = """
import socket, struct, sys, threading
taken = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
taken.setsockopt(socket.SOL_SOCKET, 33, 256 << 20)
metadata = socket.inet_aton("169.254.169.254")
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
taken.settimeout(0.5)
print("begun", flush=True)
with open(sys.argv[1], "wb") as out:
    while not over.is_set():
        try:
            frame, where = taken.recvfrom(65535)
        except TimeoutError:
            continue
        if where[0] != "lo" and metadata not in frame[26:38]:
            out.write(frame)
print(*struct.unpack("II", taken.getsockopt(263, 6, 8)))
"""


@dataclass
class Taken:
    """What was seen on the way."""

    found: dict[str, int] = field(default_factory=dict[str, int])
    """How often each marker was there, of those that were."""
    packets: int = 0
    dropped: int = 0
    """Packets that came too fast to be taken."""
    size: int = 0
    """Bytes."""


@contextmanager
def capture(cluster: Cluster, markers: Mapping[str, bytes], at: int = 1) -> Generator[Taken]:
    """All that a node of a cluster, by number, sends or receives during the block, searched for markers at its end."""
    number = node.pid(cluster.node(at))
    taken = Taken()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "taken"
        command = ["nsenter", f"--net=/proc/{number}/ns/net", sys.executable, "-c", _TAKE, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            if process.stdout.readline() != "begun\n":
                raise KubeError("no packets can be taken")
            try:
                yield taken
            finally:
                told, _ = process.communicate()
        taken.packets, taken.dropped = (int(word) for word in told.split())
        taken.size = path.stat().st_size
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            counts = {name: _count(data, marker) for name, marker in markers.items()}
        taken.found = {name: count for name, count in counts.items() if count}


def _count(data: mmap.mmap, marker: bytes) -> int:
    count, at = 0, data.find(marker)
    while at >= 0:
        count, at = count + 1, data.find(marker, at + 1)
    return count
