"""The beginning of a connection to MariaDB, before TLS."""

from __future__ import annotations

import struct

from ...plan import Reader, Writer

# CLIENT_PROTOCOL_41, CLIENT_SSL and CLIENT_SECURE_CONNECTION, as the second packet of a connection.
_REQUEST = struct.pack("<IIIB23x", 1 << 24 | 32, 0x8A00, 1 << 24, 33)

_LONGEST = 1024
"""Bytes of a greeting; one has about a hundred."""


async def start_tls(reader: Reader, writer: Writer) -> None:
    """Read the server's greeting and ask for TLS (MySQL protocol, SSLRequest). Raises EOFError if there is none."""
    length = int.from_bytes((await reader.readexactly(4))[:3], "little")
    if length > _LONGEST:
        raise EOFError
    await reader.readexactly(length)
    writer.write(_REQUEST)
