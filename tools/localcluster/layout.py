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
# "-t" and "-x" at its end would make it the name of another cluster's second or third bridge.
_NAME = re.compile(r"(?!.*-[tx]$)[a-z][a-z0-9-]{0,8}")
TUNNELS = "eth1"
"""A node's interface for the packets between its virtual machines and the others'."""
EXTERNAL = "eth2"
"""A node's interface to the network outside."""
_FIRST_HOST = 10


@dataclass(frozen=True)
class Cluster:
    """A cluster by its name; nothing needs to exist yet."""

    name: str = DEFAULT_NAME

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"--name {self.name}: must be 1 to 9 lower-case letters, digits or '-', a letter first;"
                " '-t' and '-x' cannot be last"
            )

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
    def discovered(self) -> Path:
        """Cache of kubectl for the kinds served. In its usual one, keyed by address, a later cluster would read it."""
        return self.home / "discovered"

    @property
    def bridge(self) -> str:
        return f"lc-{self.name}"

    @property
    def tunnels(self) -> str:
        """The bridge that joins the nodes' `TUNNELS`; the host has no address on it."""
        return f"{self.bridge}-t"

    @property
    def external(self) -> str:
        """The bridge that joins the nodes' `EXTERNAL`, where the nodes have no address."""
        return f"{self.bridge}-x"

    @property
    def bridges(self) -> tuple[str, str, str]:
        return self.bridge, self.tunnels, self.external

    @property
    def cgroup(self) -> str:
        """Path below the root of every cgroup hierarchy."""
        return f"localcluster-{self.name}"

    def node(self, index: int) -> Node:
        return Node(self, index)

    def node_called(self, name: str) -> Node:
        """Return the node of that name. Raises ValueError if the cluster never had one."""
        for node in self.nodes():
            if node.name == name:
                return node
        names = ", ".join(node.name for node in self.nodes()) or "none"
        raise ValueError(f"{name}: there is no such node; there are: {names}")

    def nodes(self) -> list[Node]:
        """Return the nodes that were started at some time and not taken down, running or not."""
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
        """The file that the node's first process reads."""
        return self.home / "boot.json"

    @property
    def pid_file(self) -> Path:
        return self.home / "init.pid"

    @property
    def furnished_file(self) -> Path:
        """Made when the node has all its file systems."""
        return self.home / "logs" / "furnished"

    @property
    def images(self) -> Path:
        """Root folder of containerd; it outlives the cluster, so that no image is imported twice."""
        return self.cluster.home / "images" / self.name

    @property
    def cgroup(self) -> str:
        return f"{self.cluster.cgroup}/{self.name}"

    @property
    def cables(self) -> dict[str, str]:
        """The node's interface → the host's end of its cable, in the order of `Cluster.bridges`."""
        bridge = self.cluster.bridge
        return {"eth0": f"{bridge}.{self.index}", TUNNELS: f"{bridge}_{self.index}", EXTERNAL: f"{bridge}~{self.index}"}

    @property
    def pod_range(self) -> str:
        return f"10.244.{self.index}.0/24"

    def address(self, subnet: ipaddress.IPv4Network) -> str:
        return str(subnet[_FIRST_HOST + self.index])

    def tunnel_address(self, subnet: ipaddress.IPv4Network) -> str:
        """Return the address to which other nodes send tunnelled packets, with the length of the prefix."""
        tunnels = tunnel_subnet(subnet)
        return f"{tunnels[_FIRST_HOST + self.index]}/{tunnels.prefixlen}"


def subnets(name: str) -> list[ipaddress.IPv4Network]:
    """Yield the subnets that a cluster may take, best first: a name always prefers the same one, so that addresses stay
    familiar.
    """
    start = 0 if name == DEFAULT_NAME else hashlib.sha256(name.encode()).digest()[0]
    return [ipaddress.IPv4Network(f"10.89.{(start + offset) % 256}.0/24") for offset in range(256)]


def tunnel_subnet(subnet: ipaddress.IPv4Network) -> ipaddress.IPv4Network:
    """Return 10.90.X.0/24 for 10.89.X.0/24."""
    return ipaddress.IPv4Network((int(subnet.network_address) + (1 << 16), subnet.prefixlen))
