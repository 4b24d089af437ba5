"""Serve metrics at `/metrics` of METRICS_PORT, and nothing else: by TLS if TLS_FOLDER has a certificate, which is read
again for each connection. Clients share a page, which is a second old at most. A client that is slow, sends much, or
has many connections keeps no other one away.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import signal
import socket
import socketserver
import ssl
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, BinaryIO

from .connections import CLIENTS, Connection, Connections

PATH = "/metrics"
REQUEST = 16 * 1024
"""Bytes of a request; a longer one is closed."""
FRESH = 1.0
"""Seconds for which an answer is given again."""


def say(text: str) -> None:
    """Write a line to the log."""
    print(f"exporter: {text}", file=sys.stderr, flush=True)


Metrics = Mapping[str, tuple[str, str]]
"""Labels and meaning of each metric by its name. One whose name ends in `_total` is a counter, others are gauges."""


def kind(name: str) -> str:
    """Return the type of a metric."""
    return "counter" if name.endswith("_total") else "gauge"


class Page:
    """Samples of some metrics in the text format of Prometheus."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._samples: dict[str, list[str]] = {}

    def add(self, name: str, value: float, /, **labels: str) -> None:
        """Add a sample of one of the metrics."""
        _, text = self._metrics[name]
        lines = self._samples.setdefault(name, [f"# HELP {name} {text}", f"# TYPE {name} {kind(name)}"])
        marks = ",".join(f'{label}="{_escaped(each)}"' for label, each in labels.items())
        lines.append(f"{name}{{{marks}}} {value:.16g}" if marks else f"{name} {value:.16g}")

    def update(self, page: Page) -> None:
        """Add the metrics of another page, which has other ones."""
        self._samples.update(page._samples)

    def text(self) -> str:
        """Return the page."""
        return "".join(f"{line}\n" for lines in self._samples.values() for line in lines)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


Collect = Callable[[Page], None]
"""Adds metrics of a program to a page. Raises OSError, ValueError or LookupError if it does not answer as
expected."""
UP = ("", "1 if the program answers.")
"""Labels and meaning of `<name>_up`."""


def page(collectors: Mapping[str, Collect], metrics: Metrics) -> bytes:
    """Return the metrics of programs by name, with `<name>_up` for each: 0, and no other metric, if it is silent."""
    metrics = {**metrics, **{f"{name}_up": UP for name in collectors}}
    whole = Page(metrics)
    for name, collect in collectors.items():
        part = Page(metrics)
        try:
            collect(part)
        except (OSError, ValueError, LookupError) as error:
            # The text of a KeyError is a name alone.
            say(f"{name}: {repr(error) if isinstance(error, LookupError) else error}")
            part, is_up = Page(metrics), 0
        else:
            is_up = 1
        part.add(f"{name}_up", is_up)
        whole.update(part)
    return whole.text().encode()


def head(stream: BinaryIO) -> bytes:
    """Return a request up to its empty line. Raises OSError if it has none, or is too long."""
    text = b""
    while not text.endswith((b"\r\n\r\n", b"\n\n")):
        line = stream.readline(REQUEST - len(text))
        if not line:
            raise ConnectionError("an incomplete request")
        text += line
    return text


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, request: socket.socket, connection: Connection, server: Server) -> None:
        self._connection, self._server = connection, server
        super().__init__(request, (connection.address, 0), server)

    def handle(self) -> None:
        """Answer a request, whose length is bounded. There is one in a connection."""
        with self.rfile as stream:
            self.rfile = io.BytesIO(head(stream))  # type: ignore[assignment]
        super().handle()

    def do_GET(self) -> None:
        """Answer a request."""
        if self.path != PATH:
            self.send_error(404)
            return
        body = self._server.answer(self._connection)
        if body is None:
            self.send_error(502)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (its name in the class below)
        """Write nothing: there is a request every few seconds."""


class Server(socketserver.TCPServer):
    """A server of one page, with a thread for each connection."""

    allow_reuse_address = True
    request_queue_size = 2 * CLIENTS

    def __init__(
        self,
        make: Callable[[], bytes],
        port: int,
        tls_folder: str = "",
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`make` returns the page. It raises OSError if there is none."""
        # `::` takes IPv4, too.
        self.address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        super().__init__(("", port), socketserver.BaseRequestHandler)
        self._make, self._tls_folder, self._clock = make, tls_folder, clock
        self._changed, self._connections = threading.Condition(), Connections()
        self._body: bytes | None = None
        self._made_at, self._is_making = -math.inf, False

    def server_bind(self) -> None:
        """Bind to all addresses."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def answer(self, connection: Connection) -> bytes | None:
        """Return the page, which other clients may have asked for a moment ago; None if there is none, or the
        connection ends before.
        """
        with self._changed:
            if not self._is_making and self._clock() - self._made_at > FRESH:
                threading.Thread(target=self._make_page, daemon=True).start()
                # Under the lock of the thread's end, and after its start, which may fail.
                self._is_making = True
            self._changed.wait_for(lambda: not self._is_making or connection.has_ended)
            return None if connection.has_ended else self._body

    def _make_page(self) -> None:
        body = None
        try:
            body = self._make()
        except OSError as error:
            say(str(error))
        finally:
            with self._changed:
                self._body, self._made_at, self._is_making = body, self._clock(), False
                self._changed.notify_all()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own."""
        with self._changed:
            connection = self._connections.open(request, client_address[0], self._clock())
            self._changed.notify_all()
        if connection:
            threading.Thread(target=self._serve, args=(request, connection), daemon=True).start()
        else:
            self.shutdown_request(request)

    def service_actions(self) -> None:
        """End connections that last too long: each second, and after each new one."""
        with self._changed:
            if self._connections.end_late(self._clock()):
                self._changed.notify_all()

    def _serve(self, request: socket.socket, connection: Connection) -> None:
        try:
            # An error of a connection is the client's: it went away, or knows no TLS.
            with contextlib.suppress(OSError), self._encrypted(request) as stream:
                _Handler(stream, connection, self)
        finally:
            self.shutdown_request(request)
            with self._changed:
                self._connections.close(connection)

    def _encrypted(self, request: socket.socket) -> socket.socket:
        if not self._tls_folder:
            return request
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{self._tls_folder}/tls.crt", f"{self._tls_folder}/tls.key")
        return context.wrap_socket(request, server_side=True)


def serve(make: Callable[[], bytes], ending: Callable[[], None] | None = None) -> None:
    """Serve until Kubernetes ends the pod; `ending` is called then."""

    def end(*_: object) -> None:
        with contextlib.suppress(OSError):
            if ending:
                ending()
        os._exit(0)

    # The first process of a container has no default action for it.
    signal.signal(signal.SIGTERM, end)
    server = Server(make, int(os.environ["METRICS_PORT"]), os.environ.get("TLS_FOLDER", ""))
    server.serve_forever(poll_interval=1)


def export(collectors: Mapping[str, Collect], metrics: Metrics) -> None:
    """Serve metrics of programs by name."""
    serve(lambda: page(collectors, metrics))
