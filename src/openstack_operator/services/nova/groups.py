"""Groups of compute nodes: a DaemonSet of nova-compute for each group of a cell, and one for all its other nodes
(decision 0035).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

from ... import kube
from ...api import Sections
from ...plan import Context, Object, SpecError, State, Step, Verdict, node_labels
from .migration import LIBVIRT
from .model import NovaSpec

_CONFIG, _GROUPS = "spec.compute.config", "spec.compute.groups"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_MOST_TERMS = 32
"""Alternatives in the affinity of a DaemonSet at most."""


@dataclass(frozen=True, kw_only=True)
class NodeGroup:
    """A group of the spec, or the nodes that no group has."""

    name: str = ""
    """Empty for the nodes without a group."""
    labels: Mapping[str, str]
    """Labels that its nodes have besides those of all compute nodes."""
    excluded_selectors: Sequence[Mapping[str, str]] = ()
    """Labels of the groups that go before it."""
    layers: Mapping[str, Sections]
    """Options of nova-compute by the field that has them; later ones win."""

    def component(self, cell: str) -> str:
        """Return the component of its pods in a cell."""
        return _component(cell, self.name)

    def with_scheduling(self, ctx: Context[NovaSpec], daemon_set: Object) -> Object:
        """Return the DaemonSet on the nodes of this group alone, if there are groups. Its pods start where no other
        nova-compute of this resource is, also none that still ends. That holds until the last group is gone.
        """
        if not (self.labels or self.excluded_selectors or _has_removed_group(ctx)):
            return daemon_set
        spec = daemon_set["spec"]
        template = spec["template"]
        pod, kind = template["spec"], ctx.permissions.node_labels
        selector = {**(pod.get("nodeSelector") or {}), **node_labels.selector(self.labels, kind)}
        affinity = node_labels.affinity(reduce(kube.exclude_nodes, self.excluded_selectors, pod.get("affinity")), kind)
        pod = {**pod, "nodeSelector": selector, "affinity": _with_anti_affinity(ctx, affinity)}
        return {**daemon_set, "spec": {**spec, "template": {**template, "spec": pod}}}


def node_groups(ctx: Context[NovaSpec]) -> list[NodeGroup]:
    """Return the groups of the spec, and last the nodes of none: these end nova-compute on nodes that go elsewhere."""
    groups, common = ctx.spec.compute.groups, {_CONFIG: ctx.spec.compute.config}
    selectors = [each.node_selector for each in groups]
    own_groups = [
        NodeGroup(
            name=each.name,
            labels=each.node_selector,
            excluded_selectors=selectors[:index],
            layers={**common, f"{_GROUPS}[{index}].config": each.config},
        )
        for index, each in enumerate(groups)
    ]
    return [*own_groups, NodeGroup(labels={}, excluded_selectors=selectors, layers=common)]


def rollouts(ctx: Context[NovaSpec], cell: str) -> list[kube.Rollout]:
    """Return the roll-outs of nova-compute in a cell, one for each group."""
    return [kube.Rollout(ctx.live("DaemonSet", each.component(cell))) for each in node_groups(ctx)]


def ready_nodes(ctx: Context[NovaSpec], cell: str) -> int:
    """Return how many nodes of a cell have a ready nova-compute."""
    return sum(each.ready for each in rollouts(ctx, cell))


def check(ctx: Context[NovaSpec], cells: Sequence[str]) -> None:
    """Raise SpecError for a group that no node can be in, or whose DaemonSet would have the name of another one."""
    groups, common = ctx.spec.compute.groups, _compute_labels(ctx)
    names = Counter([*cells, *(f"{cell}-{each.name}" for cell in cells for each in groups)])
    for index, group in enumerate(groups):
        path, labels = f"{_GROUPS}[{index}]", group.node_selector.items()
        if name := next((each for each in (f"{cell}-{group.name}" for cell in cells) if names[each] > 1), None):
            text = f"two groups or cells would share DaemonSet {_component(name)}; choose another name"
            raise SpecError(f"{path}.name", text)
        if label := next((name for name, value in labels if common.get(name, value) != value), None):
            text = f"compute.nodeSelector has {label}={common[label]}, so no node can match this group; remove {label}"
            raise SpecError(f"{path}.nodeSelector", text)
        if earlier_group := next((each.name for each in groups[:index] if each.node_selector.items() <= labels), None):
            text = f"the earlier group {earlier_group} takes all nodes of this group; move this group before it"
            raise SpecError(f"{path}.nodeSelector", text)
    if prod(len(each.node_selector) for each in groups) > _MOST_TERMS:
        raise SpecError(_GROUPS, "too many groups with several labels; use one label for each group")


def _compute_labels(ctx: Context[NovaSpec]) -> Mapping[str, str]:
    selector = ctx.spec.compute.node_selector
    return kube.COMPUTE if selector is None else selector


def _component(cell: str, group: str = "") -> str:
    return f"{cell}-{group}-compute" if group else f"{cell}-compute"


def _has_removed_group(ctx: Context[NovaSpec]) -> bool:
    """Return True if a nova-compute of a group or cell that the spec no longer has is still there."""
    components = {kube.fitting(_component(cell.name)) for cell in ctx.spec.cells}
    metadata = (pod["metadata"] for pod in ctx.pods if kube.template_digest(pod))
    return any(each["labels"].get(kube.COMPONENT) not in components for each in metadata)


def _with_anti_affinity(ctx: Context[NovaSpec], affinity: Object) -> Object:
    """Return the affinity, narrowed to nodes without another nova-compute. It knows these by labels that they have
    without groups as well: those that run when the first group comes count, too.
    """
    is_nova_compute = [
        {"key": kube.WATCHED, "operator": "Exists"},
        {"key": kube.COMPONENT, "operator": "NotIn", "values": [LIBVIRT]},
    ]
    pods = {"matchLabels": kube.pods_of(ctx.kind, ctx.owner), "matchExpressions": is_nova_compute}
    term = {"labelSelector": pods, "topologyKey": "kubernetes.io/hostname"}
    anti_affinity: Object = affinity.get("podAntiAffinity") or {}
    required = [*(anti_affinity.get(_REQUIRED) or ()), term]
    return {**affinity, "podAntiAffinity": {**anti_affinity, _REQUIRED: required}}


def remarks(ctx: Context[NovaSpec]) -> list[Step]:
    """Return a step that names nodes with the labels of several groups; none without such nodes."""
    common = _compute_labels(ctx)
    texts: list[str] = []
    for name, node in sorted(ctx.nodes.items()):
        groups = [each.name for each in ctx.spec.compute.groups if node.selected(each.node_selector)]
        if len(groups) > 1 and node.selected(common):
            texts.append(f"node {name} has the labels of the groups {', '.join(groups)}, and is in {groups[0]}")
    return [Step(name="Groups", verdict=Verdict(State.READY, "; ".join(texts)))] if texts else []
