"""The address of a server that is alone in its cluster, changed in its database's file: `address.py FILE ADDRESS`.

Raft cannot change one ("immutable for the server", raft.c): among several, a server leaves and joins again. One that is
alone cannot, and a new cluster of its data would have another identity, which its clients would refuse.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_START = re.compile(rb"OVSDB CLUSTER (\d+) ([0-9a-f]{40})\n")
_SERVERS = re.compile(rb'"(?:prev_)?servers":\{([^{}]*)\}')
"""Servers of the cluster, addresses by identities. Nothing in a database looks like it: quotes in strings have a
backslash before them, and rows hold no objects.
"""


def _records(log: BinaryIO) -> Iterator[bytes]:
    """Those that ovsdb-server would read: up to the first that is not whole, as a power cut leaves one (ovsdb(5))."""
    while start := _START.fullmatch(log.readline()):
        text = log.read(int(start[1]))
        if hashlib.sha1(text, usedforsecurity=False).hexdigest().encode() != start[2]:
            return
        yield text


def _header_field(name: bytes, header: bytes) -> bytes:
    match = re.search(rb'"%b":"([^"\\]+)"' % name, header)
    if not match:
        raise ValueError(f"its header has no {name.decode()}")
    return match[1]


def readdressed(file: Path, address: str) -> bool:
    """Return True if the server has that address from its next start on, and False where other servers count on the
    address it has. There is a whole file at any time. Raises ValueError for what is no clustered database.
    """
    with file.open("rb") as log:
        header = next(_records(log), b"")
        server, before = _header_field(b"server_id", header), _header_field(b"local_address", header)
        log.seek(0)
        # The last one counts, whether it is committed or not.
        last = next(reversed([match[1] for text in _records(log) for match in _SERVERS.finditer(text)]), b"")
        old = b'"%b":"%b"' % (server, before)
        if last != old:
            return False
        log.seek(0)
        fresh = file.with_suffix(".readdressed")
        with fresh.open("wb") as copy:
            for number, record in enumerate(_records(log)):
                text = record.replace(old, b'"%b":"%b"' % (server, address.encode()))
                if not number:
                    text = text.replace(b'"local_address":"%b"' % before, b'"local_address":"%b"' % address.encode(), 1)
                digest = hashlib.sha1(text, usedforsecurity=False).hexdigest()
                copy.write(b"OVSDB CLUSTER %d %b\n%b" % (len(text), digest.encode(), text))
            copy.flush()
            os.fsync(copy.fileno())
    shutil.copymode(file, fresh)
    fresh.rename(file)
    return True


if __name__ == "__main__":
    sys.exit(not readdressed(Path(sys.argv[1]), sys.argv[2]))
