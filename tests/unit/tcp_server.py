"""Servers on the loopback that say what a test wants them to say."""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from threading import Thread


@contextmanager
def tcp_server(speak: Callable[[socket.socket], object]) -> Generator[int]:
    """The port of a server that speaks to one client after the other, until they or the test end."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                speak(connection)

    thread = Thread(target=serve)
    thread.start()
    try:
        yield int(listening.getsockname()[1])
    finally:
        # To close it does not wake who accepts.
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
