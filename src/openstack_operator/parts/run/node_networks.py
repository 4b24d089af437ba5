"""Networks of compute nodes in which each node has an address of its own."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network

from ... import agents

_PROGRAM = "nova/own_addresses.sh"


def network_env(*, migration: str | None = None, console: str | None = None) -> dict[str, str]:
    """Return the environment of a program that asks for the node's addresses in these networks; empty without one."""
    networks = {"MIGRATION_NETWORK": migration, "CONSOLE_NETWORK": console}
    return {name: network for name, network in networks.items() if network}


def network_programs(network: str | None) -> tuple[str, ...]:
    """Return the program that sets the addresses, to run before another one; none without a network."""
    return (_PROGRAM,) if network else ()


def with_addresses(command: Sequence[str], *networks: str | None) -> Sequence[str]:
    """Return a command that sets the node's addresses first, if it has networks of its own."""
    return agents.shell(_PROGRAM, "nova/start_compute.sh", words=command) if any(networks) else command


def addresses(network: str | None) -> frozenset[str]:
    """Return all addresses of a network. A certificate for them is valid on each node, also on those that come."""
    return frozenset(map(str, ip_network(network, strict=False))) if network else frozenset()
