"""The exporter of metrics of each node's libvirt."""

from __future__ import annotations

from dataclasses import replace

from ... import kube
from ...parts.expose.monitoring import monitored
from ...parts.run import exporters
from ...plan import Context, Step
from .model import NovaSpec

_COMPONENT = "libvirt-exporter"
_PORT = 9177


def libvirt_exporter(ctx: Context[NovaSpec]) -> list[Step]:
    """Return the steps of the exporters; none if metrics are off or the images have none."""
    if not monitored(ctx) or _COMPONENT not in ctx.release.components:
        return []
    exporter = exporters.Exporter(
        # The socket is for nova's group, whose number is the same on each node.
        entry=ctx.release[_COMPONENT],
        port=_PORT,
        modules=("metrics/libvirt.py",),
        env={"HOME": "/tmp"},  # noqa: S108
        mounts=(replace(kube.host("libvirt-run", "/run/libvirt"), read_only=True), *kube.scratch("/tmp")),  # noqa: S108
    )
    return exporters.on_nodes(
        ctx,
        _COMPONENT,
        exporter,
        settings=kube.settings(ctx.spec.compute.model_copy(update={"image": None, "resources": None})),
        node_selector=kube.COMPUTE,
        field="spec.compute.nodeSelector",
        encrypted=ctx.spec.tls is not None,
    )
