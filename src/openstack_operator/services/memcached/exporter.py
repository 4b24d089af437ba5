"""The exporter of a server's metrics, beside it in its pod."""

from __future__ import annotations

from dataclasses import replace

from ... import kube, parts
from ...parts.expose.monitoring import monitored, watched
from ...parts.run import exporters
from ...plan import Context, Object
from .model import MemcachedSpec

_PORT = 9150
_COMPONENT = "memcached-exporter"


def _has_exporter(ctx: Context[MemcachedSpec]) -> bool:
    return monitored(ctx) and _COMPONENT in ctx.release.components


def containers(ctx: Context[MemcachedSpec], certificate: parts.Certified, tls: str, port: int) -> list[kube.Container]:
    """Return the container, which asks the server at a port of the pod's own address; none if metrics are off or the
    images have no exporter. `tls` is the folder of the certificate.
    """
    if not _has_exporter(ctx):
        return []
    # In the group of the server, so that the pod has one group for its certificate.
    program = exporters.Exporter(
        entry=replace(ctx.release[_COMPONENT], gid=ctx.release["memcached"].gid),
        port=_PORT,
        modules=("metrics/memcached.py",),
        env={"PLAIN_PORT": str(port)},
    )
    return [exporters.beside(ctx, program, certificate, tls)]


def monitors(ctx: Context[MemcachedSpec], certificate: parts.Certified) -> tuple[Object, ...]:
    """Return the objects by which a Prometheus finds the metrics."""
    return watched(ctx, "server", _PORT, certificate, ctx.name()) if _has_exporter(ctx) else ()
