"""Answers of programs, read with a bound: seconds as a whole, and bytes."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

LARGEST = 4 * 1024 * 1024
"""Bytes of an answer; a longer one is none."""


def blocks(connection: socket.socket, seconds: float, clock: Callable[[], float] = time.monotonic) -> Iterator[bytes]:
    """Yield what a program sends until it closes the connection. Raises OSError if that is too much, or takes longer
    than some seconds as a whole, however often it sends a byte.
    """
    end, size = clock() + seconds, 0
    while True:
        remaining = end - clock()
        if remaining <= 0:
            raise TimeoutError(f"the answer takes longer than {seconds:g} s")
        connection.settimeout(remaining)
        block = connection.recv(65536)
        size += len(block)
        if not block:
            return
        if size > LARGEST:
            raise OSError(f"the answer has more than {LARGEST} bytes")
        yield block
