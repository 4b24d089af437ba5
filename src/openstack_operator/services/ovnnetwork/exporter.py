"""Exporters of metrics: beside each member of a database and each ovn-northd, and one for the programs of a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ... import kube
from ...api import PodSettings
from ...parts.connect.ovn import OVN_TLS
from ...parts.expose.monitoring import monitored, watched
from ...parts.run import exporters
from ...plan import Context, Object, Step
from .model import OVNNetworkSpec
from .tls import TLS

_PORT, _NODE_PORT = 9476, 9475
_COMPONENT = "ovn-exporter"
_PROGRAM = ("metrics/appctl.py", "metrics/ovn.py")
_SOCKETS = "/run/ovn"


def _has_exporter(ctx: Context[OVNNetworkSpec]) -> bool:
    """Return True if the spec enables metrics, and the images have an exporter."""
    return monitored(ctx) and _COMPONENT in ctx.release.components


def containers(ctx: Context[OVNNetworkSpec], program: str, tls: TLS) -> list[kube.Container]:
    """Return the container beside a `program`, nb, sb or northd; none if metrics are off or the images have no
    exporter. It uses the socket by which the program takes orders.
    """
    if not _has_exporter(ctx):
        return []
    exporter = exporters.Exporter(
        entry=ctx.release[_COMPONENT],
        port=_PORT,
        modules=_PROGRAM,
        words=[program],
        env={},
        mounts=tuple(kube.scratch(_SOCKETS)),
    )
    return [exporters.beside(ctx, exporter, tls.server, OVN_TLS)]


def with_monitors(ctx: Context[OVNNetworkSpec], step: Step, component: str, tls: TLS) -> Step:
    """Return a step with the objects by which a Prometheus finds the metrics of a component."""
    if not _has_exporter(ctx):
        return step
    monitors: tuple[Object, ...] = watched(ctx, component, _PORT, tls.server, ctx.name("relay"))
    return replace(step, objects=(*step.objects, *monitors))


def of_nodes(ctx: Context[OVNNetworkSpec], node_selector: Mapping[str, str], settings: PodSettings) -> list[Step]:
    """Return the steps of the exporters of Open vSwitch and ovn-controller."""
    if not _has_exporter(ctx):
        return []
    exporter = exporters.Exporter(
        entry=ctx.release[_COMPONENT],
        port=_NODE_PORT,
        modules=("metrics/appctl.py", "metrics/chassis.py"),
        env={},
        mounts=[replace(kube.host(name, f"/run/{name}"), read_only=True) for name in ("openvswitch", "ovn")],
        # The sockets are root's.
        root=True,
    )
    return exporters.on_nodes(
        ctx,
        "exporter",
        exporter,
        settings=settings.model_copy(update={"image": None, "resources": None}),
        node_selector=node_selector,
        field="spec.chassis.nodeSelector",
        encrypted=ctx.spec.tls is not None,
    )
