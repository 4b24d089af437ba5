"""A Galera cluster of the image: each member has a network of its own, and the program and the files of the plan."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pymysql

from openstack_operator import kube
from openstack_operator.plan import Object, Release, key
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.mariadb.service import plan
from openstack_operator.testing import context
from tests import leftovers
from tests.unit.image_root import image_root, inside
from tests.unit.polling import TIMEOUT, until

T = TypeVar("T")
PASSWORD, BACKUP_PASSWORD, USER = 'root # \\"password"', "it's \\ of backups", 999
_CLIENTS = "192.0.2.254"
_CLONE_NEWNET = 0x40000000


class Network:
    """A network without a way out, as long as a process of it lives."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        path, own = Path(f"/proc/{self.pid}/ns/net"), Path("/proc/self/ns/net").readlink()
        until("a network", lambda: path.readlink() != own)
        self._thread = ThreadPoolExecutor(1, initializer=self._enter, initargs=(path,))

    @staticmethod
    def _enter(path: Path) -> None:
        with path.open(encoding="utf-8") as file:
            assert ctypes.CDLL(None).setns(file.fileno(), _CLONE_NEWNET) == 0

    def do(self, function: Callable[[], T]) -> T:
        """Return what a function returns that opens sockets, or starts programs, in this network."""
        return self._thread.submit(function).result()

    def ip(self, *words: str) -> None:
        self.do(lambda: subprocess.run(["ip", *words], check=True))

    def close(self) -> None:
        self._thread.shutdown()


@contextmanager
def network() -> Generator[Network]:
    process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], env={**os.environ, **leftovers.marked()})
    try:
        place = Network(process)
        yield place
        place.close()
    finally:
        process.kill()
        process.wait(TIMEOUT)


@dataclass
class Node:
    """A member's pod."""

    name: str
    address: str
    root: Path
    network: Network
    outside: Network
    cable: str
    command: Sequence[str]
    env: Mapping[str, str]
    _running: ExitStack = field(default_factory=ExitStack)
    _process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start its program."""
        pod = inside(self.root, USER, *self.command, env=self.env)
        self._process = self.network.do(lambda: self._running.enter_context(pod))

    def end(self) -> None:
        """Tell its program to end, as the kubelet does."""
        assert self._process
        for child in Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split():
            os.kill(int(child), signal.SIGTERM)

    def await_end(self) -> None:
        """Wait until its program has ended."""
        assert self._process
        self._process.wait(TIMEOUT)
        self.close()

    def close(self) -> None:
        """Kill its program."""
        self._running.close()

    def write(self, path: str, text: str) -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f"{target.name}.new")
        new.write_text(text, encoding="utf-8")
        new.replace(target)

    def label(self, role: str) -> None:
        """Write the label of its pod as the kubelet does."""
        self.write("/etc/mysql/role/role", role)

    def facts(self) -> dict[str, Any]:
        """Return what it says of itself to its own network; empty while it says nothing."""

        def ask() -> dict[str, Any]:
            try:
                with urllib.request.urlopen("http://127.0.0.1:4569/", timeout=10) as answer:
                    return dict(json.load(answer))
            except OSError:
                return {}

        return self.network.do(ask)

    def connect(self) -> Any:
        """Return a connection through the network, as a Service makes it."""
        return self.outside.do(lambda: pymysql.connect(host=self.address, **self._login()))

    def connect_inside(self) -> Any:
        """Return a connection through the socket, whose path is too long for a socket's name."""
        folder = os.open(self.root / "run/mysqld", os.O_RDONLY)
        try:
            return pymysql.connect(unix_socket=f"/proc/self/fd/{folder}/mysqld.sock", **self._login())
        finally:
            os.close(folder)

    @staticmethod
    def _login() -> dict[str, Any]:
        return {"user": "root", "password": PASSWORD, "autocommit": True, "connect_timeout": 60, "read_timeout": 120}

    def cut(self) -> None:
        """Lose all packets from now on; connections stay open."""
        self.outside.ip("link", "set", self.cable, "nomaster")

    def heal(self) -> None:
        self.outside.ip("link", "set", self.cable, "master", "bridge")


@dataclass
class GaleraCluster:
    """A cluster of three."""

    nodes: list[Node] = field(default_factory=list[Node])

    def await_ready(self) -> None:
        """Wait until all members serve in one cluster."""
        until("all members to serve", lambda: all(serves(node, len(self.nodes)) for node in self.nodes))

    def label(self, primary: Node | None) -> None:
        """Make a member the primary, the others backups; None takes the labels away."""
        for node in self.nodes:
            role = "primary" if node is primary else "backup"
            if primary is None or node.facts()["role"] != role:
                node.label(role if primary else "")
        roles = {node.facts()["role"] for node in self.nodes}
        assert roles == ({"primary", "backup"} if primary else {""})


def serves(node: Node, size: int) -> bool:
    """Return True if a member serves in a cluster of this size."""
    facts = node.facts()
    return bool(facts.get("ready")) and facts["size"] == size


@contextmanager
def galera_cluster(release: Release) -> Generator[GaleraCluster]:
    objects = {key(obj): obj for obj in plan(context(MARIADB, {"replicas": 3}, release=release)).objects}
    record = kube.secret_data(objects["Secret", "mariadb-galera"])
    [container] = objects["StatefulSet", "mariadb-server"]["spec"]["template"]["spec"]["containers"]
    names = record["members"].split(",")
    env = {entry["name"]: entry.get("value", "") for entry in container["env"]}
    addresses = {name: f"192.0.2.{ordinal + 1}" for ordinal, name in enumerate(names)}
    hosts = "".join(f"{address} {name}.{env['GALERA_DOMAIN']}\n" for name, address in addresses.items())
    cluster = GaleraCluster()
    with ExitStack() as stack:
        outside = stack.enter_context(network())
        for words in ("link add bridge type bridge", f"address add {_CLIENTS}/24 dev bridge", "link set bridge up"):
            outside.ip(*words.split())
        for name, address in addresses.items():
            root, own = stack.enter_context(image_root("mariadb")), stack.enter_context(network())
            cable = f"cable{address.rpartition('.')[2]}"
            outside.ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(own.pid))
            outside.ip("link", "set", cable, "master", "bridge", "up")
            for words in ("link set lo up", f"address add {address}/24 dev eth0", "link set eth0 up"):
                own.ip(*words.split())
            variables = {**env, "POD_NAME": name, "POD_IP": address}
            node = Node(name, address, root, own, outside, cable, container["command"], variables)
            node.write("/etc/hosts", f"127.0.0.1 localhost\n{hosts}")
            node.write(env["MARIADB_ROOT_PASSWORD_FILE"], PASSWORD)
            node.write(env["BACKUP_PASSWORD_FILE"], BACKUP_PASSWORD)
            node.label("")
            for path, text in {**_files(objects, container), **_record(env, record)}.items():
                node.write(path, text)
            stack.callback(node.close)
            node.start()
            cluster.nodes.append(node)
        cluster.await_ready()
        yield cluster


def _files(objects: dict[tuple[str, str], Object], container: Object) -> dict[str, str]:
    data = kube.secret_data(objects["Secret", "mariadb-config"])
    return {
        mount["mountPath"]: data[mount["subPath"]] for mount in container["volumeMounts"] if mount["name"] == "config"
    }


def _record(env: dict[str, str], record: dict[str, str]) -> dict[str, str]:
    return {f"{env['GALERA_RECORD']}/{name}": text for name, text in record.items()}
