"""Egress of pods: they reach every address except the loopback, link-local and metadata addresses of their node.

A NetworkPolicy has no effect where the cluster's network does not enforce it, nor on pods with `hostNetwork`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from ..plan import Object

NETWORKS: tuple[Object, ...] = (
    {
        "ipBlock": {
            "cidr": "0.0.0.0/0",
            "except": [
                "127.0.0.0/8",
                "169.254.0.0/16",
                "224.0.0.0/4",
                "168.63.129.16/32",  # Azure
                "100.100.100.200/32",  # Alibaba
            ],
        }
    },
    {
        "ipBlock": {
            "cidr": "::/0",
            "except": [
                "::1/128",
                "fe80::/10",
                "ff00::/8",
                "fd00:ec2::254/128",  # Amazon
                "fd00:ec2::23/128",  # Amazon's pod identities
                "fd20:ce::254/128",  # Google
                "fd00:c1::a9fe:a9fe/128",  # Oracle
            ],
        }
    },
)
"""Addresses at which servers may be: all but those of a pod's own node, of its link, and of its provider's metadata
service. Most providers have that at 169.254.169.254, some also at an address that is not link-local.
"""
DNS: tuple[Object, ...] = tuple({"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP"))
"""Open at every address: caches of DNS on nodes have link-local ones (169.254.20.10), and Google's resolver is at
169.254.169.254.
"""


_NAT64 = ip_network("64:ff9b::/96")
_NUMBER = re.compile(r"(0x)?[0-9a-f]*")


def may_be_server(host: str) -> bool:
    """Return False for an address that pods do not reach, for names of the pod's own node, and for what a resolver may
    read as an address in another form, such as `127.1`, `2130706433` or `127.0.0.1.`.
    """
    try:
        ip = ip_address(host.strip("[]"))
    except ValueError:
        label = host.lower().removesuffix(".").rpartition(".")[2]
        is_number = label[:1].isdigit() and _NUMBER.fullmatch(label)
        return not is_number and host.lower().rstrip(".").rpartition(".")[2] != "localhost"
    ip = _ipv4(ip)
    refused = [ip_network(block) for each in NETWORKS for block in each["ipBlock"]["except"]]
    return not ip.is_unspecified and not any(ip in network for network in refused)


def _ipv4(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the address of IPv4 that one of IPv6 leads to."""
    if isinstance(ip, IPv6Address):
        return IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else ip.ipv4_mapped or ip
    return ip


def egress(target: Mapping[str, str], ports: Sequence[Object]) -> Object:
    """The spec of a policy: the pods `target` selects reach all pods and `NETWORKS` at any port, and every address at
    `ports` and those of DNS.

    For some networks, such as Cilium, a node or an API server is in no ipBlock: there, pods reach it by `ports` alone.
    """
    return {
        "podSelector": {"matchLabels": dict(target)},
        "policyTypes": ["Egress"],
        "egress": [{"ports": [*DNS, *ports]}, {"to": [{"namespaceSelector": {}}, *NETWORKS]}],
    }
