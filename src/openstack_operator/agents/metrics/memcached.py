"""Serve metrics of the memcached at PLAIN_PORT of 127.0.0.1, by the names of Prometheus' memcached_exporter."""

from __future__ import annotations

import os
import socket

from .answers import blocks
from .serve import Page, export

PATIENCE = 5.0
"""Seconds for memcached to answer."""
NUMBERS = {
    "uptime": ("uptime_seconds", "Seconds since memcached started."),
    "bytes_read": ("read_bytes_total", "Bytes that clients sent."),
    "bytes_written": ("written_bytes_total", "Bytes that were sent to clients."),
    "curr_connections": ("current_connections", "Connections of clients."),
    "max_connections": ("max_connections", "Most connections that memcached accepts at a time."),
    "total_connections": ("connections_total", "Connections of clients since the start."),
    "rejected_connections": ("connections_rejected_total", "Connections refused because of the limit."),
    "bytes": ("current_bytes", "Bytes used by items."),
    "limit_maxbytes": ("limit_bytes", "Most bytes that items may use."),
    "curr_items": ("current_items", "Items stored now."),
    "total_items": ("items_total", "Items stored since the start."),
    "evictions": ("items_evicted_total", "Items evicted before they expired, to make room."),
    "reclaimed": ("items_reclaimed_total", "Expired items whose memory was reused."),
}
"""Metric and meaning of each number among the statistics."""
COMMANDS = {
    "get_hits": ("get", "hit"),
    "get_misses": ("get", "miss"),
    "cmd_set": ("set", "hit"),
    "delete_hits": ("delete", "hit"),
    "delete_misses": ("delete", "miss"),
    "incr_hits": ("incr", "hit"),
    "incr_misses": ("incr", "miss"),
    "decr_hits": ("decr", "hit"),
    "decr_misses": ("decr", "miss"),
    "cas_hits": ("cas", "hit"),
    "cas_misses": ("cas", "miss"),
    "cas_badval": ("cas", "badval"),
    "touch_hits": ("touch", "hit"),
    "touch_misses": ("touch", "miss"),
    "cmd_flush": ("flush", "hit"),
}
"""Command and result that each counter is about."""


METRICS = {
    **{f"memcached_{name}": ("", text) for name, text in NUMBERS.values()},
    "memcached_version": ("version", "Always 1; the label is the version of memcached."),
    "memcached_commands_total": ("command, status", "Commands of clients, by result."),
}


def statistics(port: int) -> dict[str, str]:
    """Return what `stats` prints. Raises OSError or ValueError if memcached does not answer so."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        connection.sendall(b"stats\r\n")
        for block in blocks(connection, PATIENCE):
            received += block
            if received.endswith((b"END\r\n", b"ERROR\r\n")):
                break
    lines = received.decode(errors="replace").splitlines()
    if lines[-1:] != ["END"]:
        raise ValueError(f"memcached answers {received[-80:]!r}")
    values = dict[str, str]()
    for line in lines[:-1]:
        words = line.split(None, 2)
        if words[:1] != ["STAT"] or len(words) < 2:
            raise ValueError(f"memcached answers {line[:80]!r}")
        values[words[1]] = words[2].strip() if len(words) > 2 else ""
    return values


def collect(page: Page, port: int) -> None:
    """Add metrics of memcached."""
    values = statistics(port)
    page.add("memcached_version", 1, version=values.get("version", ""))
    for name, (metric, _) in NUMBERS.items():
        if name in values:
            page.add(f"memcached_{metric}", float(values[name]))
    for name, (command, status) in COMMANDS.items():
        if name in values:
            page.add("memcached_commands_total", float(values[name]), command=command, status=status)


def main() -> None:
    """Serve the metrics."""
    port = int(os.environ["PLAIN_PORT"])
    export({"memcached": lambda page: collect(page, port)}, METRICS)


if __name__ == "__main__":
    main()
