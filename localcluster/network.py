"""What the host sees of the nodes' network: one bridge, and a cable for each node."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

from .commands import CommandError, run
from .components import SERVICE_RANGE
from .layout import MAX_NODES, Cluster, Node, subnets


def subnet_of(cluster: Cluster) -> ipaddress.IPv4Network | None:
    """The subnet of the cluster's bridge; None if there is no bridge."""
    for link in _json("ip", "-j", "address", "show", "type", "bridge"):
        if link.get("ifname") == cluster.bridge:
            for address in link.get("addr_info", []):
                if address["family"] == "inet":
                    return ipaddress.IPv4Network(f"{address['local']}/{address['prefixlen']}", strict=False)
    return None


def create(cluster: Cluster) -> ipaddress.IPv4Network:
    """The cluster's bridge is there, with the first address of the subnet that is returned."""
    present = subnet_of(cluster)
    if present is not None:
        return present
    subnet = _free_subnet(cluster.name)
    run("ip", "link", "add", cluster.bridge, "type", "bridge")
    run("ip", "address", "add", f"{subnet[1]}/{subnet.prefixlen}", "dev", cluster.bridge)
    run("ip", "link", "set", cluster.bridge, "up")
    return subnet


def connect(node: Node, subnet: ipaddress.IPv4Network, pid: int) -> None:
    """The node whose first process is `pid` has its address on the bridge, and routes to the others' pods."""
    address = node.address(subnet)
    # The kernel takes its time to remove the cable of a node that was lost a moment ago.
    run("ip", "link", "delete", node.interface, check=False)
    run("ip", "link", "add", node.interface, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    run("ip", "link", "set", node.interface, "master", node.cluster.bridge, "up")
    batch = [
        "link set lo up",
        f"address add {address}/{subnet.prefixlen} dev eth0",
        "link set eth0 up",
        # There is no default route, as there is nowhere to go. Services still need one: a packet is routed before
        # kube-proxy's rules give it the address of a pod.
        f"route add {SERVICE_RANGE} dev eth0",
    ]
    for index in range(1, MAX_NODES + 1):
        other = node.cluster.node(index)
        if other != node:
            batch.append(f"route add {other.pod_range} via {other.address(subnet)}")
    run("nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-batch", "-", stdin="\n".join(batch) + "\n")


def remove(cluster: Cluster) -> None:
    """The bridge and all cables are gone."""
    for link in _json("ip", "-j", "link", "show"):
        name = str(link.get("ifname", ""))
        if name == cluster.bridge or name.startswith(f"{cluster.bridge}."):
            # The kernel may be taking down a cable just now, together with its node's namespace.
            run("ip", "link", "delete", name, check=False)


def _free_subnet(name: str) -> ipaddress.IPv4Network:
    used = [
        ipaddress.IPv4Network(route["dst"])
        for route in _json("ip", "-j", "-4", "route", "show", "table", "all")
        if route.get("dst", "default") != "default" and route.get("type") != "broadcast"
    ]
    for subnet in subnets(name):
        if not any(subnet.overlaps(other) for other in used):
            return subnet
    raise CommandError("no free subnet in 10.89.0.0/16: remove clusters with `python -m localcluster down --name NAME`")


def _json(*command: str) -> list[dict[str, Any]]:
    return json.loads(run(*command) or "[]")
