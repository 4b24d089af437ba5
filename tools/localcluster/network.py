"""The host's side of the nodes' networks: three bridges, and a cable for each node to each of them."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

from .commands import CommandError, run
from .components import POD_RANGE, SERVICE_RANGE
from .layout import EXTERNAL, MAX_NODES, TUNNELS, Cluster, Node, subnets
from .offload import complete_checksums


def subnet_of(cluster: Cluster) -> ipaddress.IPv4Network | None:
    """Return the subnet of the cluster's bridge; None if there is no bridge."""
    for link in _json("ip", "-j", "address", "show", "type", "bridge"):
        if link.get("ifname") == cluster.bridge:
            for address in link.get("addr_info", []):
                if address["family"] == "inet":
                    return ipaddress.IPv4Network(f"{address['local']}/{address['prefixlen']}", strict=False)
    return None


def create(cluster: Cluster) -> ipaddress.IPv4Network:
    """Create the cluster's bridges, the first one with the first address of the subnet that is returned."""
    present = {str(link.get("ifname")) for link in _json("ip", "-j", "link", "show", "type", "bridge")}
    subnet = subnet_of(cluster)
    for bridge in cluster.bridges:
        if bridge not in present:
            run("ip", "link", "add", bridge, "type", "bridge")
    if subnet is None:
        subnet = _free_subnet(cluster.name)
        run("ip", "address", "add", f"{subnet[1]}/{subnet.prefixlen}", "dev", cluster.bridge)
    for bridge in cluster.bridges:
        run("ip", "link", "set", bridge, "up")
    return subnet


def reach_outside(cluster: Cluster, address: str) -> None:
    """Give the host `address`, with the length of its prefix, on the nodes' external network, and no other one there.

    So it can be the router of that network, and a client outside the cloud.
    Raises ValueError for what is no such address, CommandError where another interface has one of that network.
    """
    try:
        interface = ipaddress.IPv4Interface(address)
    except ValueError as error:
        raise ValueError(f"--external {address}: expected an address with its prefix, as 172.24.4.1/24") from error
    if interface.network.prefixlen > 30:
        raise ValueError(f"--external {address}: a network of /30 or larger is needed")
    for link in _json("ip", "-j", "-4", "address", "show"):
        for entry in link.get("addr_info", []):
            used = ipaddress.IPv4Interface(f"{entry['local']}/{entry['prefixlen']}")
            if link["ifname"] != cluster.external and used.network.overlaps(interface.network):
                raise CommandError(f"--external {address}: {link['ifname']} has {used}; choose another network")
    run("ip", "-4", "address", "flush", "dev", cluster.external)
    run("ip", "address", "add", str(interface), "dev", cluster.external)


def connect(node: Node, subnet: ipaddress.IPv4Network, pid: int) -> None:
    """Give the node whose first process is `pid` its cables and addresses, routes to the others' pods, and its pods a
    way to the host.
    """
    address = node.address(subnet)
    host_batch: list[str] = []
    for (inside, cable), bridge in zip(node.cables.items(), node.cluster.bridges, strict=True):
        # The kernel takes its time to remove the cable of a node that was lost a moment ago.
        run("ip", "link", "delete", cable, check=False)
        host_batch.append(f"link add {cable} type veth peer name {inside} netns {pid}")
        host_batch.append(f"link set {cable} master {bridge} up")
    _batch("ip", host_batch)
    for inside in (TUNNELS, EXTERNAL):
        complete_checksums(node.cables[inside])
    batch = [
        "link set lo up",
        f"address add {address}/{subnet.prefixlen} dev eth0",
        "link set eth0 up",
        f"address add {node.tunnel_address(subnet)} dev {TUNNELS}",
        f"link set {TUNNELS} up",
        f"link set {EXTERNAL} up",
        # There is no default route, as there is nowhere to go. Services still need one: a packet is routed before
        # kube-proxy's rules give it the address of a pod.
        f"route add {SERVICE_RANGE} dev eth0",
    ]
    for peer in _possible(node.cluster):
        if peer != node:
            batch.append(f"route add {peer.pod_range} via {peer.address(subnet)}")
    namespace = f"--net=/proc/{pid}/ns/net"
    _batch("nsenter", batch, namespace, "ip")
    # The host has no routes to pods, whose addresses other clusters on it have, too: it answers the node.
    rule = f"-t nat -A POSTROUTING -s {POD_RANGE} -d {subnet[1]} -j MASQUERADE"
    run("nsenter", namespace, "iptables", "--wait", *rule.split())


def remove(cluster: Cluster) -> None:
    """Delete the bridges and all cables."""
    ours = (*cluster.bridges, *(cable for node in _possible(cluster) for cable in node.cables.values()))
    for link in _json("ip", "-j", "link", "show"):
        name = str(link.get("ifname", ""))
        if name in ours:
            # The kernel may be taking down a cable just now, together with its node's namespace.
            run("ip", "link", "delete", name, check=False)


def _free_subnet(name: str) -> ipaddress.IPv4Network:
    used = [
        ipaddress.IPv4Network(route["dst"])
        for route in _json("ip", "-j", "-4", "route", "show", "table", "all")
        if route.get("dst", "default") != "default" and route.get("type") != "broadcast"
    ]
    for subnet in subnets(name):
        if not any(subnet.overlaps(used_subnet) for used_subnet in used):
            return subnet
    raise CommandError(
        "no free subnet in 10.89.0.0/16: remove clusters with `python -m tools.localcluster down --name NAME`"
    )


def _possible(cluster: Cluster) -> list[Node]:
    return [cluster.node(index) for index in range(1, MAX_NODES + 1)]


def _batch(command: str, lines: list[str], *arguments: str) -> None:
    run(command, *arguments, "-batch", "-", stdin="\n".join(lines) + "\n")


def _json(*command: str) -> list[dict[str, Any]]:
    return json.loads(run(*command) or "[]")
