"""The ports at which the operator answers: to the kubelet, and to clients that read metrics."""

from __future__ import annotations

import socket
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..kubernetes.client import Client
from .health import Health
from .scrapers import Scrapers
from .scraping import MetricsServer
from .serving_certificate import ServingCertificate

Address = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Addresses; None serves nothing."""

    health: Address | None = None
    metrics: Address | None = None
    """HTTPS, for clients that the API server lets read metrics."""
    certificate: Path | None = None
    """Folder with tls.crt and tls.key for metrics; None has the process make a certificate."""
    insecure: bool = False
    """True serves metrics at the port for health instead, in plain text and to every client."""


NO_PORTS = Ports()


def serve(
    ports: Ports, client: Client, ready: Callable[[], bool], text: Callable[[], bytes]
) -> Sequence[Coroutine[Any, Any, None]]:
    """Return the servers, to be run. `ready` is what the kubelet asks, `text` the metrics."""
    servers = [Health(ready, text if ports.insecure else None).serve(ports.health)] if ports.health else []
    if ports.metrics and not ports.insecure:
        certificate = ServingCertificate(ports.certificate, [socket.gethostname()])
        servers.append(MetricsServer(text, Scrapers(client), certificate).serve(ports.metrics))
    return servers
