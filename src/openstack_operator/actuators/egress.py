"""Limits of where the operator connects for a resource: the writer of a resource chooses the address, but must not use
the operator's place in the network.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network

from ..kube import plain_address, refused_kind
from . import budget

_Network = IPv4Network | IPv6Network

_allowed: tuple[_Network, ...] = ()


class AddressRefused(OSError):
    """The operator connects to this address for no resource."""


def allow(networks: Iterable[str]) -> None:
    """Allow connections to these networks from now on, also where they would otherwise be refused. Raises ValueError
    for what is no network.
    """
    global _allowed  # noqa: PLW0603  (of the whole process, as its place in the network is)
    _allowed = tuple(ip_network(network) for network in networks)


def connect(host: str, port: int, timeout: float | None) -> socket.socket:
    """Return a connection to a server that a resource names, at the first of its addresses that answers. Raises
    OSError, which is AddressRefused as `addresses` raises it, and ExhaustedError once the thread's budget is used up.
    """
    failed = OSError(f"{host} has no address")
    for address in addresses(host, port):
        try:
            return socket.create_connection((address, port), budget.current().wait(timeout))
        except OSError as error:
            failed = error
    raise failed


def addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a server to connect to. They are to be used instead of the name, which may have others
    the next time. Raises AddressRefused where one is in the list of `kube/addresses.py`, and OSError for a name without
    any.
    """
    ips = [str(address[0]) for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    for address in ips:
        check(address)
    return ips


def check(address: str) -> None:
    """Raise AddressRefused where the operator connects to no such address."""
    ip = plain_address(address)
    if (kind := refused_kind(ip)) and not any(ip in network for network in _allowed):
        raise AddressRefused(
            f"the operator does not connect to {ip}, a {kind} address; to allow it, start the operator with "
            f"--allow-address {ip}"
        )
