"""Serve metrics at `/metrics` of METRICS_PORT, and nothing else: by TLS if TLS_FOLDER has a certificate, which is read
again for each connection. Clients share a page, which is a second old at most.
"""

from __future__ import annotations

import contextlib
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
from typing import Any

PATH = "/metrics"
TIMEOUT = 10.0
"""Seconds for a client to send its request and to take the answer."""
CLIENTS = 8
"""Connections at a time; more are closed."""
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


class _Handler(BaseHTTPRequestHandler):
    timeout = TIMEOUT

    def do_GET(self) -> None:
        """Answer a request."""
        if self.path != PATH:
            self.send_error(404)
            return
        try:
            assert isinstance(self.server, Server)
            body = self.server.answer()
        except OSError as error:
            say(str(error))
            self.send_error(502)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (its name in the class below)
        """Write nothing: there is a request every few seconds."""


class Server(socketserver.ThreadingTCPServer):
    """A server of one page."""

    allow_reuse_address = daemon_threads = True
    request_queue_size = 2 * CLIENTS

    def __init__(self, make: Callable[[], bytes], port: int, tls_folder: str = "") -> None:
        """`make` returns the page. It raises OSError if there is none."""
        # `::` takes IPv4, too.
        self.address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        super().__init__(("", port), _Handler)
        self._make, self._tls_folder = make, tls_folder
        self._lock, self._free = threading.Lock(), threading.BoundedSemaphore(CLIENTS)
        self._body, self._made_at = b"", 0.0

    def server_bind(self) -> None:
        """Bind to all addresses."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def answer(self) -> bytes:
        """Return the page, which other clients may have asked for a moment ago. Raises OSError if there is none."""
        with self._lock:
            if not self._made_at or time.monotonic() - self._made_at > FRESH:
                self._body, self._made_at = self._make(), time.monotonic()
            return self._body

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take a connection, unless there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection, after the handshake of TLS."""
        request.settimeout(TIMEOUT)
        if not self._tls_folder:
            super().finish_request(request, client_address)
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{self._tls_folder}/tls.crt", f"{self._tls_folder}/tls.key")
        with context.wrap_socket(request, server_side=True) as wrapped:
            super().finish_request(wrapped, client_address)  # type: ignore[arg-type]  # pyright: ignore

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Write what is no fault of a connection."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            say(repr(error))


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
    server.serve_forever(poll_interval=60)


def export(collectors: Mapping[str, Collect], metrics: Metrics) -> None:
    """Serve metrics of programs by name."""
    serve(lambda: page(collectors, metrics))
