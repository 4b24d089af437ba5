"""Questions to programs of OVN and Open vSwitch through their sockets, as `ovs-appctl` asks them."""

from __future__ import annotations

import json
import re
import socket
from typing import Any

from .answers import blocks
from .serve import Page

PATIENCE = 5.0
"""Seconds for a program to answer."""
_COUNTER = re.compile(r"^(\w+) .* total: (\d+)$", re.MULTILINE)


def call(path: str, method: str, *parameters: Any) -> Any:
    """Return the result of a method of JSON-RPC. Raises OSError or ValueError if the program refuses, or is silent."""
    request = {"id": 0, "method": method, "params": parameters}
    received, decoder = bytearray(), json.JSONDecoder()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(path)
        connection.sendall(json.dumps(request).encode())
        for block in blocks(connection, PATIENCE):
            received += block
            # Looked at once for each end of an object, and not for each piece.
            if not block.rstrip().endswith(b"}"):
                continue
            try:
                message, _ = decoder.raw_decode(received.decode(errors="replace"))
            except (ValueError, RecursionError):
                continue
            if message.get("id") != 0:
                raise ValueError(f"{path}: {method}: another message than the answer")
            if message.get("error"):
                raise ValueError(f"{path}: {method}: {message['error']}")
            return message["result"]
    raise ValueError(f"{path}: {method}: the answer ends too early")


COVERAGE = ("event", "Internal events of the program, counted by `coverage/show`.")
"""Labels and meaning of `<program>_coverage_total`."""


def add_coverage(page: Page, program: str, path: str) -> None:
    """Add how often events inside of a program happened."""
    for event, count in _COUNTER.findall(str(call(path, "coverage/show"))):
        page.add(f"{program}_coverage_total", float(count), event=event)
