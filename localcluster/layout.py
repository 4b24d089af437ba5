"""Names, addresses and directories of a cluster and its nodes, all following from its name."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

from . import paths

DEFAULT_NAME = "openstack"
MAX_NODES = 16
API_PORT = 6443
# An interface's name has at most 15 characters: "lc-" + name + "." + two digits.
_NAME = re.compile(r"[a-z][a-z0-9-]{0,8}")
_FIRST_HOST = 10


@dataclass(frozen=True)
class Cluster:
    """A cluster by its name; nothing needs to exist yet."""

    name: str = DEFAULT_NAME

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"--name {self.name}: must be 1 to 9 lower-case letters, digits or '-', a letter first")

    @property
    def home(self) -> Path:
        return paths.state() / self.name

    @property
    def pki(self) -> Path:
        return self.home / "pki"

    @property
    def kubeconfig(self) -> Path:
        return self.home / "kubeconfig"

    @property
    def bridge(self) -> str:
        return f"lc-{self.name}"

    @property
    def cgroup(self) -> str:
        """Path below the root of every cgroup hierarchy."""
        return f"localcluster-{self.name}"

    def node(self, index: int) -> Node:
        return Node(self, index)

    def node_called(self, name: str) -> Node:
        """Raises ValueError if the cluster was never given a node of that name."""
        for node in self.nodes():
            if node.name == name:
                return node
        known = ", ".join(node.name for node in self.nodes()) or "none"
        raise ValueError(f"{name}: there is no such node; there are: {known}")

    def nodes(self) -> list[Node]:
        """The nodes that were started at some time and not taken down, running or not."""
        candidates = (self.node(index) for index in range(1, MAX_NODES + 1))
        return [node for node in candidates if node.boot_file.exists()]


@dataclass(frozen=True)
class Node:
    """One node of a cluster, counted from 1; the first one runs the control plane too."""

    cluster: Cluster
    index: int

    @property
    def name(self) -> str:
        return f"node{self.index}"

    @property
    def home(self) -> Path:
        return self.cluster.home / "nodes" / self.name

    @property
    def boot_file(self) -> Path:
        """What the node's first process reads."""
        return self.home / "boot.json"

    @property
    def pid_file(self) -> Path:
        return self.home / "init.pid"

    @property
    def images(self) -> Path:
        """containerd's root; it outlives the cluster, so that no image is imported twice."""
        return self.cluster.home / "images" / self.name

    @property
    def cgroup(self) -> str:
        return f"{self.cluster.cgroup}/{self.name}"

    @property
    def interface(self) -> str:
        """The host's end of the node's cable."""
        return f"{self.cluster.bridge}.{self.index}"

    @property
    def pod_range(self) -> str:
        return f"10.244.{self.index}.0/24"

    def address(self, subnet: ipaddress.IPv4Network) -> str:
        return str(subnet[_FIRST_HOST + self.index])


def subnets(name: str) -> list[ipaddress.IPv4Network]:
    """Subnets a cluster may take, best first: the same name asks for the same one, so that addresses stay familiar."""
    start = 0 if name == DEFAULT_NAME else hashlib.sha256(name.encode()).digest()[0]
    return [ipaddress.IPv4Network(f"10.89.{(start + offset) % 256}.0/24") for offset in range(256)]
