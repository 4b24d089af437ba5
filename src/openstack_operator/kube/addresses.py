"""Addresses at which no server is that a resource may name: the one list for the operator and for NetworkPolicies."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, collapse_addresses, ip_address, ip_network

_Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network

_KINDS = {
    "loopback": ("127.0.0.0/8", "::1/128"),
    "link-local": ("169.254.0.0/16", "fe80::/10"),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "broadcast": ("255.255.255.255/32",),
    # Linux takes 0.0.0.0 for this machine.
    "unspecified": ("0.0.0.0/8", "::/128"),
    # Most providers have theirs at 169.254.169.254, some also at an address that is not link-local.
    "metadata": (
        "168.63.129.16/32",  # Azure
        "100.100.100.200/32",  # Alibaba
        "fd00:ec2::254/128",  # Amazon
        "fd00:ec2::23/128",  # Amazon's pod identities
        "fd20:ce::254/128",  # Google
        "fd00:c1::a9fe:a9fe/128",  # Oracle
    ),
    # Each leads to any address of IPv4, at places that no list of networks can tell.
    "translated": (
        "::/96",  # IPv4-compatible (RFC 4291, deprecated)
        "::ffff:0:0:0/96",  # IPv4-translated (RFC 2765)
        "64:ff9b:1::/48",  # NAT64 with a prefix of one's own (RFC 8215)
        "2002::/16",  # 6to4 (RFC 7526)
        "2001::/32",  # Teredo (RFC 4380)
    ),
}
_NAT64 = ip_network("64:ff9b::/96")
"""The prefix of NAT64 that all know (RFC 6052). Clusters with IPv6 alone reach servers with IPv4 by it."""


def _with_nat64(network: _Network) -> tuple[_Network, ...]:
    """Return the network, and where it is behind NAT64."""
    if isinstance(network, IPv6Network):
        return (network,)
    start = int(_NAT64.network_address) + int(network.network_address)
    return network, IPv6Network((start, 96 + network.prefixlen))


_REFUSED: tuple[tuple[str, _Network], ...] = tuple(
    (kind, each)
    for kind, names in _KINDS.items()
    for network in map(ip_network, names)
    for each in _with_nat64(network)
)
"""Networks with their kinds, the more special ones first."""


def refused_networks(version: int) -> list[str]:
    """Return the networks of that version of IP."""
    if version == 4:
        return [str(each) for each in collapse_addresses(each for _, each in _REFUSED if isinstance(each, IPv4Network))]
    return [str(each) for each in collapse_addresses(each for _, each in _REFUSED if isinstance(each, IPv6Network))]


def refused_kind(address: str | _Address) -> str:
    """Return the kind of an address at which no server is that a resource may name; empty for any other address. Raises
    ValueError for what is no address.
    """
    ip = plain_address(address)
    return next((kind for kind, network in _REFUSED if ip in network), "")


def plain_address(address: str | _Address) -> _Address:
    """Return an address without its zone; that of IPv4 for one of IPv6 that stands for it on this machine."""
    ip = ip_address(address.partition("%")[0] if isinstance(address, str) else address)
    return getattr(ip, "ipv4_mapped", None) or ip
