"""Door between the programs of a pod: one has Ceph's programs and its key, the other the repository and its login. A
connection to its Unix socket is one request, a line of JSON; data follow in frames, and the answer is a line of JSON.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from .run import RunError

SOCKET = "rbd.sock"
"""Name of the socket in the folder that the programs share."""
STAY = "stay"
"""Request that lasts as long as the work: when its connection ends, so does the server."""
LARGEST_FRAME = 4 << 20
_FAILURE = 0xFFFF_FFFF
"""In the place of a frame's size: a line follows that says why there are no more data."""
_OPEN_SECONDS = 600.0
_MAX_LINE = 1 << 24


class Connection:
    """One request to the other program."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self.reader: IO[bytes] = stream.makefile("rb")

    def say(self, values: Mapping[str, Any]) -> None:
        """Send a line."""
        self._stream.sendall(json.dumps(values).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        """Return the next line. Raise RunError for one that says why a request failed, or if there is none."""
        line = self.reader.readline(_MAX_LINE)
        if not line.endswith(b"\n"):
            raise RunError("the program 'rbd' of this pod ended before its work was complete; see its log")
        values: dict[str, Any] = json.loads(line)
        if error := values.get("error"):
            raise RunError(str(error))
        return values

    def send(self, pieces: Iterable[bytes]) -> None:
        """Send data, and their end."""
        for piece in pieces:
            for begin in range(0, len(piece), LARGEST_FRAME):
                part = piece[begin : begin + LARGEST_FRAME]
                self._stream.sendall(struct.pack(">I", len(part)) + part)
        self._stream.sendall(struct.pack(">I", 0))

    def fail(self, error: RunError) -> None:
        """Send why there are no more data."""
        self._stream.sendall(struct.pack(">I", _FAILURE))
        self.say({"error": str(error)})

    def receive(self) -> Iterator[bytes]:
        """Yield data until their end. Raise RunError if it does not come."""
        while size := struct.unpack(">I", self._exact(4))[0]:
            if size == _FAILURE:
                self.hear()
            if size > LARGEST_FRAME:
                raise RunError("the other program of this pod sent a frame that is too large")
            yield self._exact(size)

    def _exact(self, size: int) -> bytes:
        data = self.reader.read(size)
        if len(data) < size:
            raise RunError("the other program of this pod ended before its data did; see its log")
        return data


@contextmanager
def ask_rbd(folder: Path, **request: Any) -> Generator[Connection]:
    """Send a request to the program that serves a folder's socket, once it does; yield the connection. Raise RunError
    if there is none within ten minutes.
    """
    deadline, path = time.monotonic() + _OPEN_SECONDS, folder / SOCKET
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        while True:
            try:
                stream.connect(str(path))
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > deadline:
                    raise RunError("the program 'rbd' of this pod does not answer; see its log") from None
                time.sleep(0.2)
            else:
                break
        connection = Connection(stream)
        connection.say(request)
        yield connection


def answer_of(folder: Path, **request: Any) -> dict[str, Any]:
    """Return the answer to a request without data. Raise RunError."""
    with ask_rbd(folder, **request) as connection:
        return connection.hear()
