"""An HTTP server for clusters of either address family."""

from __future__ import annotations

import socket
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from typing import Any


class DualStackServer(ThreadingHTTPServer):
    """A server at all addresses of the pod, with a thread for each connection."""

    daemon_threads = True

    def __init__(self, port: int, handler: Callable[..., Any]) -> None:
        """Bind to a port. Raise OSError."""
        # `::` takes IPv4, too.
        self.address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        super().__init__(("", port), handler)

    def server_bind(self) -> None:
        """Bind to all addresses."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()
