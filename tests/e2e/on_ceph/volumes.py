"""What the storage of a cloud is looked at with: servers that write and read disks, and Ceph's own tools."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from openstack.connection import Connection

from tools.chaos.servers import Guest
from tools.localcluster.kubernetes import KubeError, Kubernetes

from ..waiting import until

NAMESPACE = "openstack"
USES = ("volumes", "images", "vms", "backups")
"""What Ceph is used for; the pools are called the same."""
SETUP = "/etc/ceph-storage"
"""Where the pod that looks at Ceph has everybody's key."""


def user_of(cluster: Kubernetes, use: str) -> str:
    """Name of the client that services have for a use at present, without `client.`."""
    published = cluster.get("cephstorage", "ceph", "-n", NAMESPACE)["status"]["published"]
    return str(published[f"{use}User"]).removeprefix("client.")


def rbd(cluster: Kubernetes, pool: str, *words: str) -> str:
    """Standard output of `rbd`, as the client that has that pool."""
    user = user_of(cluster, pool)
    login = ("--conf", f"{SETUP}/ceph.conf", "--id", user, "--keyring", f"{SETUP}/client.{user}.keyring")
    return cluster.kubectl("exec", "-n", NAMESPACE, "deploy/ceph-status", "--", "rbd", *login, "-p", pool, *words)


def images(cluster: Kubernetes, pool: str) -> list[str]:
    """Names of the RBD images in a pool."""
    return rbd(cluster, pool, "ls").split()


def used(cluster: Kubernetes, pool: str, image: str) -> int:
    """Bytes an RBD image takes of its own; what it shares with its parent is the parent's."""
    found = json.loads(rbd(cluster, pool, "du", image, "--format", "json"))
    return sum(entry["used_size"] for entry in found["images"] if entry["name"] == image)


def parent(cluster: Kubernetes, pool: str, image: str) -> str:
    """`pool/image@snapshot` an RBD image is a clone of; empty where it is none."""
    found = json.loads(rbd(cluster, pool, "info", image, "--format", "json")).get("parent")
    return f"{found['pool']}/{found['image']}@{found['snapshot']}" if found else ""


@dataclass(frozen=True)
class Disks:
    """The disks of a server, as its own web server shows them."""

    guest: Guest

    def ask(self, query: str = "", patience: float = 60) -> str:
        """What the page answers, tried until the server does."""

        def answer() -> list[str]:
            try:
                return [self.guest.page(f"cgi-bin/disk?{query}")]
            except OSError:
                return []

        return until(f"the disks of the server on {self.guest.node}", answer, patience)[0]

    def sizes(self) -> dict[str, int]:
        """Bytes by name."""
        return {name: int(size) for name, size in (line.split() for line in self.ask().splitlines() if line)}

    def appears(self, before: dict[str, int]) -> str:
        """Name of a disk that was not there before."""
        return until("the disk to appear in the server", lambda: sorted(set(self.sizes()) - set(before)), 60, 1)[0]

    def goes(self, name: str) -> None:
        """Waits until the disk is not there anymore."""
        until(f"{name} to leave the server", lambda: name not in self.sizes(), 60, 1)

    def write(self, name: str, block: int, text: str) -> None:
        """Puts a text on the disk. Raises KubeError where the server does not acknowledge it."""
        if (answer := self.ask(f"{name}/{block}/{text}")) != text:
            raise KubeError(f"{text} was not written to block {block} of {name}: {answer}")

    def read(self, name: str, block: int) -> str:
        """The text in a block."""
        return self.ask(f"{name}/{block}")


def storage(conn: Connection) -> Any:
    """The Block Storage API; openstacksdk has a type for each version of it."""
    return conn.block_storage


def volume(conn: Connection, name: str, size: int = 1, **more: Any) -> Any:
    """A new volume of so many GiB, available."""
    made = storage(conn).create_volume(name=name, size=size, **more)
    return storage(conn).wait_for_status(made, "available", failures=["error"], interval=0.5, wait=180)


def status(conn: Connection, held: Any) -> str:
    """What Cinder says of a volume."""
    return storage(conn).get_volume(held).status


def attach(conn: Connection, guest: Guest, held: Any) -> str:
    """The disk as which the server sees the volume from now on."""
    disks = Disks(guest)
    before = disks.sizes()
    conn.compute.create_volume_attachment(guest.id, volume_id=held.id)
    storage(conn).wait_for_status(held, "in-use", failures=["error"], interval=0.5, wait=120)
    return disks.appears(before)


def detach(conn: Connection, guest: Guest, held: Any, disk: str) -> None:
    """The volume is available again, and the server without it."""
    conn.compute.delete_volume_attachment(guest.id, held.id)
    storage(conn).wait_for_status(held, "available", failures=["error"], interval=0.5, wait=120)
    Disks(guest).goes(disk)


@dataclass
class Writer:
    """Writes numbers to a disk, one block after the other, and remembers what was acknowledged."""

    disks: Disks
    disk: str
    first: int
    """Block of the first number."""
    pause: float = 0.0
    """Seconds between two writes."""
    acknowledged: list[int] = field(default_factory=list[int])
    longest: float = 0.0
    """Seconds the slowest write took."""

    def run(self, stop: threading.Event) -> None:
        """Until told to stop; a write that fails is tried again with the next number."""
        number = 0
        while not stop.is_set():
            started = time.monotonic()
            try:
                self.disks.write(self.disk, self.first + number, f"number-{number}")
            except (KubeError, OSError):
                stop.wait(0.5)
            else:
                self.acknowledged.append(number)
                self.longest = max(self.longest, time.monotonic() - started)
                stop.wait(self.pause)
            number += 1

    def lost(self) -> list[int]:
        """Acknowledged numbers that are not on the disk."""
        return [n for n in self.acknowledged if self.disks.read(self.disk, self.first + n) != f"number-{n}"]


@contextmanager
def writing(guest: Guest, disk: str, first: int, pause: float = 0.0) -> Generator[Writer]:
    """A writer at work, with a pause after each write, until the end of the block."""
    writer, stop = Writer(Disks(guest), disk, first, pause), threading.Event()
    thread = threading.Thread(target=writer.run, args=(stop,))
    thread.start()
    try:
        yield writer
    finally:
        stop.set()
        thread.join(120)


@contextmanager
def pinging(guest: Guest, every: float = 0.2) -> Generator[list[float]]:
    """The gaps between answers of the server's page, in seconds, until the end of the block."""
    gaps, stop = list[float](), threading.Event()

    def run() -> None:
        last = time.monotonic()
        while not stop.is_set():
            try:
                guest.boot()
            except OSError:
                pass
            else:
                gaps.append(time.monotonic() - last)
                last = time.monotonic()
            stop.wait(every)
        gaps.append(time.monotonic() - last)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield gaps
    finally:
        stop.set()
        thread.join(30)
