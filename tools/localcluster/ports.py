"""Ports of this machine for servers that start a moment later."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Sequence
from pathlib import Path

# Below the ports of Kubernetes' Services, and below those that the kernel gives to clients: a connection that anybody
# opens between the choice of a port and the start of its server could take one of those.
_FIRST, _END = 17_000, 30_000
_RANGE_OF_CLIENTS = Path("/proc/sys/net/ipv4/ip_local_port_range")

_past_choices: set[int] = set()


def free_port(hosts: Sequence[str] = ("127.0.0.1",)) -> int:
    """Return a port on which nothing listens at these addresses, and that this process was not given before.

    The kernel gives it to no client and no server that asks for any port. Raises OSError where no port is left.
    """
    end = min(_END, _first_of_clients())
    # Other processes choose, too: from another place, so that two hardly get the same one.
    start = random.SystemRandom().randrange(_FIRST, end)
    for port in (*range(start, end), *range(_FIRST, start)):
        if port not in _past_choices and _is_free(port, hosts):
            _past_choices.add(port)
            return port
    raise OSError(f"no port between {_FIRST} and {end} is free at {', '.join(hosts)}")


def _is_free(port: int, hosts: Sequence[str]) -> bool:
    with contextlib.ExitStack() as stack:
        try:
            for host in hosts:
                stack.enter_context(socket.socket()).bind((host, port))
        except OSError:
            return False
    return True


def _first_of_clients() -> int:
    lowest_port = int(_RANGE_OF_CLIENTS.read_text().split()[0])
    # A machine that gives nearly every port to clients leaves no better choice.
    return lowest_port if lowest_port > _FIRST + 1_000 else _END
