"""The exporter of a server's metrics, beside it in its pod."""

from __future__ import annotations

from dataclasses import replace

from ... import agents, kube, parts
from ...parts.run.monitoring import METRICS, monitored, watched
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
    return kube.Container(
        # In the group of the server, so that the pod has one group for its volumes.
        entry=replace(entry, gid=server.gid),
        name="exporter",
        command=agents.shell("mariadb/start_exporter.sh", words=entry.command, options="-euc"),
        env={
            "METRICS_USER": ACCOUNT,
            "RUN_FOLDER": _RUN,
            # It collects garbage before it needs more, and uses one thread.
            "GOMEMLIMIT": "24MiB",
            "GOMAXPROCS": "1",
            **({"TLS_FOLDER": TLS} if certificate else {}),
        },
        ports={METRICS: _PORT},
        mounts=(*certificate.mounts(TLS), *kube.scratch("/run/mysqld", _RUN)),
        # It lives without the server, too.
        # Each connection that ends without a handshake would be a line in its log.
        alive=kube.Probe(http=("/", _PORT), tls=True) if certificate else kube.Probe(tcp=_PORT),
        memory="24Mi",
        # Image and resources of the spec are those of the server. Another image may have no exporter.
        settings=kube.settings(ctx.spec.model_copy(update={"image": None, "resources": None})),
    )


def monitors(ctx: Context[MariaDBSpec], certificate: parts.Certified) -> tuple[Object, ...]:
    """Return the objects by which a Prometheus finds the metrics."""
    return watched(ctx, "server", _PORT, certificate, ctx.name()) if has_exporter(ctx) else ()
