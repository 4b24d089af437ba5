"""Number of a program's pods, which may follow their load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ... import kube
from ...api import Autoscaling, ComponentSettings, Scalable
from ...plan import Context


@dataclass(frozen=True)
class Size:
    """Number of a program's pods, and its autoscaling."""

    replicas: int | None
    """Number to write; None once an autoscaler writes it."""
    autoscaling: Autoscaling | None = None

    @property
    def several(self) -> bool:
        """Return True if there may be more than one."""
        return self.replicas is None or self.replicas > 1 or self.autoscaling is not None

    def autoscaler(self, ctx: Context[Any], pods: kube.Object) -> Sequence[kube.Object]:
        """Return the autoscaler of these pods, if there is one."""
        return [kube.autoscaler(ctx, pods, self.autoscaling)] if self.autoscaling else []


def size_of(ctx: Context[Any], kind: str, name: str, settings: ComponentSettings | None) -> Size:
    """Return the number of pods of the workload `<owner>-<name>`.

    An autoscaled number is not written any more once the autoscaler has written it. Until then its live value is
    written: a field without another owner falls back to its default, one pod, as soon as we release it (server-side
    apply).
    """
    scaling = settings.autoscaling if isinstance(settings, Scalable) else None
    if scaling is None:
        return Size(kube.replicas(ctx.spec.replicas, settings))
    name = kube.fitting(ctx.name(name), *([kube.STATEFUL_SET_LIMIT] if kind == "StatefulSet" else []))
    live = ctx.children.get((kind, name))
    scaler = ctx.children.get(("HorizontalPodAutoscaler", name), {})
    if live and (scaler.get("status") or {}).get("lastScaleTime"):
        return Size(None, scaling)
    runs = live["spec"].get("replicas", 1) if live else scaling.min_replicas
    return Size(min(max(runs, scaling.min_replicas), scaling.max_replicas), scaling)
