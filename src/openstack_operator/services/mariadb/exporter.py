"""The exporter of a server's metrics, beside it in its pod."""

from __future__ import annotations

from dataclasses import replace

from ... import agents, kube, parts
from ...parts.expose.monitoring import monitored, watched
from ...parts.run import exporters
from ...plan import Context, Object
from .config import TLS
from .model import MariaDBSpec

ACCOUNT = "metrics"
"""Account of the database, and user of the system in its image, by which the server knows it."""
_PORT, _RUN = 9104, "/run/exporter"
_COMPONENT = "mariadb-exporter"


def has_exporter(ctx: Context[MariaDBSpec]) -> bool:
    """Return True if the spec enables metrics, and the images have an exporter."""
    return monitored(ctx) and _COMPONENT in ctx.release.components


def exporter(ctx: Context[MariaDBSpec], certificate: parts.Certified) -> kube.Container:
    """Return the container, which uses the socket of the server beside it."""
    entry, server = ctx.release[_COMPONENT], ctx.release["mariadb"]
    program = exporters.upstream(
        # In the group of the server, so that the pod has one group for its volumes.
        replace(entry, gid=server.gid),
        _PORT,
        agents.shell("mariadb/start_exporter.sh", words=entry.command, options="-euc"),
        {"METRICS_USER": ACCOUNT, "RUN_FOLDER": _RUN},
        *kube.scratch("/run/mysqld", _RUN),
    )
    return exporters.beside(ctx, program, certificate, TLS)


def monitors(ctx: Context[MariaDBSpec], certificate: parts.Certified) -> tuple[Object, ...]:
    """Return the objects by which a Prometheus finds the metrics."""
    return watched(ctx, "server", _PORT, certificate, ctx.name()) if has_exporter(ctx) else ()
