"""Egress of pods: they reach every address except the loopback, link-local and metadata addresses of their node.

A NetworkPolicy has no effect where the cluster's network does not enforce it, nor on pods with `hostNetwork`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..plan import Object
from .addresses import refused_kind, refused_networks

NETWORKS: tuple[Object, ...] = tuple(
    {"ipBlock": {"cidr": cidr, "except": refused_networks(version)}}
    for cidr, version in (("0.0.0.0/0", 4), ("::/0", 6))
)
"""Addresses at which servers may be: all but those of a pod's own node, of its link, and of its provider's metadata
service.
"""
DNS: tuple[Object, ...] = tuple({"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP"))
"""Open at every address: caches of DNS on nodes have link-local ones (169.254.20.10), and Google's resolver is at
169.254.169.254.
"""


_NUMBER = re.compile(r"(0x)?[0-9a-f]*")


def may_be_server(host: str) -> bool:
    """Return False for an address that pods do not reach, for names of the pod's own node, and for what a resolver may
    read as an address in another form, such as `127.1`, `2130706433` or `127.0.0.1.`.
    """
    try:
        return not refused_kind(host.strip("[]"))
    except ValueError:
        label = host.lower().removesuffix(".").rpartition(".")[2]
        is_number = label[:1].isdigit() and _NUMBER.fullmatch(label)
        return not is_number and host.lower().rstrip(".").rpartition(".")[2] != "localhost"


def egress(target: Mapping[str, str], ports: Sequence[Object]) -> Object:
    """Return the spec of a policy: pods that `target` selects reach all pods and `NETWORKS` at any port, and every
    address at `ports` and those of DNS.

    For some networks, such as Cilium, a node or an API server is in no ipBlock: there, pods reach it by `ports` alone.
    """
    return {
        "podSelector": {"matchLabels": dict(target)},
        "policyTypes": ["Egress"],
        "egress": [{"ports": [*DNS, *ports]}, {"to": [{"namespaceSelector": {}}, *NETWORKS]}],
    }
