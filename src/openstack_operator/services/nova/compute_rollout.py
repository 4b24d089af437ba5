"""nova-compute reaches the nodes in waves: a few at a time, canaries first, none while that is paused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ... import kube
from ...plan import Context, Group, Step, progressing
from .compute import NOVA_COMPUTE
from .model import NovaSpec

CONDITION = "ComputeRollout"
"""Name of the condition: True if nova-compute of all nodes has the last change."""


@dataclass(frozen=True)
class RolloutPlan:
    """Steps of the roll-out of nova-compute, and its part of the status; empty without compute nodes."""

    steps: tuple[Step, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def groups(self) -> tuple[Group, ...]:
        """Return the steps under their condition."""
        return (Group(CONDITION, self.steps),) if self.steps else ()


def await_way_back(ctx: Context[NovaSpec]) -> tuple[Step, ...]:
    """Return a step, of the same condition, that holds back the programs of the control plane as long as nodes run
    nova-compute of a later release: on the way back to an earlier one the nodes come first. Empty if there are none.
    """
    nodes = kube.nodes_of_later_release(ctx)
    text = f"{kube.name_nodes(nodes)} with nova-compute newer than {ctx.release.name}: these go back first"
    return (Step(name="LaterNovaCompute", verdict=progressing(text), barrier=True),) if nodes else ()


def plan_rollout(ctx: Context[NovaSpec], steps: Iterable[Step | Group], *, after: Sequence[Step] = ()) -> RolloutPlan:
    """Plan the next wave of nova-compute, whose DaemonSets are in some of `steps`. No pod ends before all of `after`
    are ready: nova-compute of a release needs a conductor of that release.
    """
    daemons = [each for each in steps if isinstance(each, Step) and each.name == NOVA_COMPUTE]
    if not daemons:
        return RolloutPlan()
    settings = ctx.spec.compute.rollout
    canaries = settings.canaries
    limits = kube.RolloutLimits(
        path="spec.compute.rollout",
        max_unavailable=settings.max_unavailable,
        canaries=canaries.node_selector if canaries else None,
        canaries_only=canaries is not None and canaries.only,
        paused=settings.paused,
    )
    rollout = kube.node_rollout(ctx, "nova-compute", [obj for each in daemons for obj in each.workloads], limits)
    step = Step(name=CONDITION, ends=rollout.ends, verdict=rollout.verdict, wake=rollout.wake, after=tuple(after))
    return RolloutPlan((step,), {"compute": rollout.details})
