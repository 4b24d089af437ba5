"""Additions of a spec to the pods of its resource: metadata, variables, sizes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..api import PodSettings, Resources, UsesPodExtras
from ..plan import Context
from .environment import user_environment
from .pod_metadata import pod_annotations, pod_labels
from .resources import amount


@dataclass(frozen=True, kw_only=True)
class PodExtras:
    """Additions of a spec to a pod."""

    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    env: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Variables of each container."""
    resources: Resources | None = None
    """Resources of containers, as far as no other field sets them."""

    def completed(self, settings: PodSettings) -> PodSettings:
        """Return the settings of a container, completed by these resources."""
        if self.resources is None:
            return settings
        specific, usual = settings.resources or Resources(), self.resources
        # Kubernetes refuses a request above its limit; of the two, what is said of this container counts.
        requests = _bounded(usual.requests, specific.limits, min) | specific.requests
        limits = _bounded(usual.limits, specific.requests, max) | specific.limits
        return settings.model_copy(update={"resources": Resources(requests=requests, limits=limits)})


def _bounded(amounts: Mapping[Any, str], bounds: Mapping[Any, str], choose: Any) -> dict[Any, str]:
    """Return the amounts, or in place of each its bound, whichever is chosen."""
    return {name: choose(value, bounds.get(name, value), key=amount) for name, value in amounts.items()}


def pod_extras(
    ctx: Context[Any], own_labels: Collection[str], own_variables: Collection[str], *, is_root_on_node: bool
) -> PodExtras:
    """Return the additions to a pod that has these labels and variables of the operator. One that is root on its node
    gets resources alone: all else may need the verb `run-on-nodes` (decision 0058). Raises SpecError.
    """
    resources = ctx.spec.default_resources if isinstance(ctx.spec, UsesPodExtras) else None
    if is_root_on_node:
        return PodExtras(resources=resources)
    return PodExtras(
        labels=pod_labels(ctx, own_labels),
        annotations=pod_annotations(ctx),
        env=user_environment(ctx, own_variables),
        resources=resources,
    )
