"""The roll-out of DaemonSets node by node: which pods are to end next, read from live objects alone.

Kubernetes leaves the pods of a DaemonSet with the strategy OnDelete as they are. If one ends, it makes the next from
the newest template. Its own strategy, RollingUpdate, knows no canaries and no pause.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from ..plan import (
    READY,
    RELEASE_ANNOTATION,
    ROLLOUT_PAUSED,
    ROLLOUT_STOPPED,
    Context,
    Object,
    Verdict,
    failed,
    is_earlier,
    progressing,
    waiting,
)
from .agents import name_nodes
from .objects import annotated, digest
from .pod_facts import (
    TEMPLATE_DIGEST,
    container_statuses,
    is_placed,
    node_of,
    predecessor,
    template_digest,
    unready_since,
)
from .pod_templates import COMPUTE
from .rollout import ON_DELETE, Rollout, conditions

LISTED = 10
"""Names of nodes in a status at most."""

_RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""Annotation that `kubectl rollout restart` sets in a template."""
_DEADLINE = timedelta(minutes=10)
"""Time in which a new pod has to become ready, as for the pods of a Deployment."""


@dataclass(frozen=True, kw_only=True)
class RolloutLimits:
    """Limits of a roll-out: the number of nodes that get a change at a time, and the nodes that come first."""

    path: str
    """Field of the spec that says so."""
    max_unavailable: str = "1"
    """A number of nodes, or a percentage of them (`10%`), rounded up."""
    canaries: Mapping[str, str] | None = None
    """Labels of the nodes that come first; None without canaries."""
    canaries_only: bool = False
    paused: bool = False

    def limit(self, nodes: int) -> int:
        """Return how many of that many nodes may be without a ready pod."""
        share = int(self.max_unavailable.removesuffix("%"))
        return max(1, math.ceil(nodes * share / 100) if self.max_unavailable.endswith("%") else share)


def by_node(daemon_set: Object, release: str = "") -> Object:
    """Return the DaemonSet with pods that the operator replaces, in place of Kubernetes. Each pod says from which
    template and for which release it was made.
    """
    spec = daemon_set["spec"]
    template = annotated(spec["template"], {RELEASE_ANNOTATION: release}) if release else spec["template"]
    template = annotated(template, {TEMPLATE_DIGEST: digest(template)})
    return {**daemon_set, "spec": {**spec, "template": template, "updateStrategy": {"type": ON_DELETE}}}


@dataclass(frozen=True)
class _NodePod:
    """The pod of a node, seen from the template that it should have."""

    live: Object
    is_current: bool
    is_canary: bool
    is_node_away: bool
    has_predecessor: bool = False
    """True if it has to wait for another pod, which still ends on its node: that node has changed its DaemonSet."""

    @property
    def node(self) -> str:
        """The node that it is for, also while that has no room; empty if the pod does not say."""
        return node_of(self.live)

    @property
    def is_ending(self) -> bool:
        return "deletionTimestamp" in self.live["metadata"]

    @property
    def is_ready(self) -> bool:
        return not self.is_ending and conditions(self.live).get("Ready", {}).get("status") == "True"

    @property
    def is_silent(self) -> bool:
        """True if its node does not answer, as the Node says or, some seconds before that, the pod: Kubernetes calls it
        unready, and its containers what they were.
        """
        by_type = conditions(self.live)
        ready, containers = (by_type.get(name, {}).get("status") for name in ("Ready", "ContainersReady"))
        return self.is_node_away or (ready == "False" and containers == "True")

    @property
    def release(self) -> str:
        return (self.live["metadata"].get("annotations") or {}).get(RELEASE_ANNOTATION, "")


@dataclass(frozen=True, kw_only=True)
class NodeRollout:
    """State of a roll-out, and its next step."""

    nodes: int = 0
    """Nodes that should have a pod."""
    updated: int = 0
    """Nodes whose pod is of the newest template."""
    behind: Sequence[str] = ()
    """Nodes whose pod is of an older template."""
    releases: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of nodes by the release of their pods; empty text for pods that do not say it."""
    ends: tuple[Object, ...] = ()
    """Pods to end now, by name and uid."""
    verdict: Verdict = READY
    wake: datetime | None = None
    """Time at which the roll-out stops by itself, if nothing changes."""

    @property
    def details(self) -> dict[str, Any]:
        """Return what a status says of it."""
        releases = [{"name": name or "unknown", "nodes": count} for name, count in sorted(self.releases.items())]
        return {
            "nodes": self.nodes,
            "updatedNodes": self.updated,
            "releases": releases,
            "behind": list(self.behind[:LISTED]),
        }


def nodes_of_later_release(ctx: Context[Any]) -> list[str]:
    """Return the nodes that answer and have a pod, by `by_node`, of a later release than the spec asks for."""
    pods = (
        _NodePod(live, is_current=False, is_canary=False, is_node_away=_is_node_away(ctx, live)) for live in ctx.pods
    )
    later = (pod for pod in pods if is_placed(pod.live) and is_earlier(ctx.release.name, pod.release))
    return sorted(pod.node for pod in later if not pod.is_silent)


def node_rollout(ctx: Context[Any], program: str, daemon_sets: Iterable[Object], limits: RolloutLimits) -> NodeRollout:
    """Return the roll-out of DaemonSets that `by_node` made, over all their nodes together. `program` is what their
    pods run. No pod ends before the controller of its DaemonSet has seen the new template: the next one would be as the
    last.
    """
    desired = {each["metadata"]["name"]: each for each in daemon_sets}
    live = {name: ctx.children.get(("DaemonSet", name)) for name in desired}
    names = {uid: name for name, each in live.items() if each and (uid := each["metadata"].get("uid"))}
    pods = _pods(ctx, {uid: _version(live[name], desired[name]) for uid, name in names.items()}, limits)
    behind = sorted((pod for pod in pods if not pod.is_current), key=lambda pod: pod.node)
    nodes = max(sum(Rollout(each).desired for each in live.values()), len(pods))
    releases: dict[str, int] = {}
    for pod in pods:
        releases[pod.release] = releases.get(pod.release, 0) + 1
    updated = len(pods) - len(behind)
    rollout = NodeRollout(
        nodes=nodes, updated=updated, behind=[pod.node for pod in behind if pod.node], releases=releases
    )
    if not behind:
        return rollout
    observed = {uid for uid, name in names.items() if _is_observed(live[name], desired[name])}
    return _plan_wave(ctx, program, rollout, pods, [pod for pod in behind if _owner(pod.live) in observed], limits)


def _plan_wave(
    ctx: Context[Any],
    program: str,
    rollout: NodeRollout,
    pods: Sequence[_NodePod],
    behind: Sequence[_NodePod],
    limits: RolloutLimits,
) -> NodeRollout:
    """Return the roll-out with its verdict and the pods to end. `behind` are those that may end."""
    answering = [pod for pod in pods if not pod.is_silent]
    ending = [pod for pod in answering if pod.is_ending or pod.has_predecessor]
    starting = [pod for pod in answering if pod.is_current and not pod.is_ready and pod not in ending]
    progress = _progress(ctx, rollout, pods)
    late = [pod for pod in starting if unready_since(pod.live) + _DEADLINE <= ctx.now]
    if limits.paused:
        text = f"{progress}; {limits.path}.paused: the other nodes do not change until it is false"
        verdict = waiting(f"{text}; {_describe(program, late)}" if late else text, ROLLOUT_PAUSED)
        return replace(rollout, verdict=verdict, wake=_wake(pod for pod in starting if pod not in late))
    if late:
        return replace(rollout, verdict=_stopped(program, progress, late))
    candidates = [pod for pod in behind if not pod.is_silent and not pod.is_ending]
    if limits.canaries is not None:
        canaries = [pod for pod in answering if pod.is_canary]
        if text := _halt_after_canaries(limits, canaries, is_first=any(pod in candidates for pod in canaries)):
            return replace(rollout, verdict=waiting(f"{progress}; {text}", ROLLOUT_PAUSED))
        if not all(pod.is_current and pod.is_ready for pod in canaries):
            candidates = [pod for pod in candidates if pod.is_canary]
    missing = rollout.nodes - len(pods)
    chosen = _choose(candidates, limits.limit(rollout.nodes) - len(starting) - len(ending) - missing)
    waits = _describe_waits(program, starting, [*ending, *(pod for pod in chosen if pod not in ending)], missing)
    if silent := [pod.node for pod in pods if pod.is_silent and not pod.is_current]:
        waits.append(f"{name_nodes(silent)} cannot be reached: repair it, or delete the Node if it is removed")
    return replace(
        rollout,
        ends=tuple(_identity(pod.live) for pod in chosen),
        verdict=progressing("; ".join([progress, *waits])),
        wake=_wake(starting),
    )


def _choose(candidates: Iterable[_NodePod], room: int) -> list[_NodePod]:
    """Return the pods to end: all that run nowhere, as their node has no room, and as many others as there is room."""
    by_loss = sorted(candidates, key=lambda pod: (is_placed(pod.live), pod.is_ready, pod.node))
    unplaced = sum(not is_placed(pod.live) for pod in by_loss)
    return by_loss[: max(unplaced, room)]


def _wake(starting: Iterable[_NodePod]) -> datetime | None:
    return min((unready_since(pod.live) + _DEADLINE for pod in starting), default=None)


def _pods(ctx: Context[Any], versions: Mapping[str, tuple[str, str]], limits: RolloutLimits) -> list[_NodePod]:
    """Return the pod of each node; while an older one ends beside it, the newer. One without a node stands alone.
    `versions` has the newest template of each DaemonSet, by uid.
    """
    by_node: dict[str, _NodePod] = {}
    for live in ctx.pods:
        version = template_digest(live), _restarted_at(live)
        if _owner(live) not in versions:
            continue
        is_canary, is_node_away = _is_canary(ctx, live, limits), _is_node_away(ctx, live)
        has_predecessor = predecessor(live, ctx.pods) is not None
        pod = _NodePod(live, version == versions[_owner(live)], is_canary, is_node_away, has_predecessor)
        place = pod.node or live["metadata"]["uid"]
        if place not in by_node or by_node[place].is_ending:
            by_node[place] = pod
    return list(by_node.values())


def _is_canary(ctx: Context[Any], pod: Object, limits: RolloutLimits) -> bool:
    node = ctx.nodes.get(node_of(pod))
    return limits.canaries is not None and node is not None and node.selected(limits.canaries)


def _is_node_away(ctx: Context[Any], pod: Object) -> bool:
    node = ctx.nodes.get(node_of(pod))
    return node is not None and node.is_away


def _version(live: Object | None, desired: Object) -> tuple[str, str]:
    """Return what pods of the newest template say of it: also of a restart that a user asked for by kubectl."""
    spec = (live or {}).get("spec") or desired["spec"]
    return template_digest(desired["spec"]["template"]), _restarted_at(spec["template"])


def _owner(pod: Object) -> str:
    """Return the uid of the object that controls a pod; empty without one. Names may be those of an object before."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((each["uid"] for each in owners if each.get("controller")), "")


def _restarted_at(pod: Mapping[str, Any]) -> str:
    return (pod["metadata"].get("annotations") or {}).get(_RESTARTED_AT, "")


def _is_observed(live: Object | None, desired: Object) -> bool:
    """Return True if the next pod of a live DaemonSet is made from the template of `desired`."""
    if live is None:
        return False
    is_same = template_digest(live["spec"]["template"]) == template_digest(desired["spec"]["template"])
    is_deleted = "deletionTimestamp" in live["metadata"]
    return is_same and not is_deleted and Rollout(live).is_observed


def _identity(pod: Object) -> Object:
    metadata = {name: pod["metadata"][name] for name in ("name", "namespace", "uid")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def _progress(ctx: Context[Any], rollout: NodeRollout, pods: Iterable[_NodePod]) -> str:
    release = ctx.release.name
    is_upgrade = any(pod.release not in ("", release) for pod in pods if not pod.is_current)
    if rollout.nodes == 1 and not rollout.updated:
        return f"the node does not {f'run {release}' if is_upgrade else 'have the change'} yet"
    return f"{rollout.updated} of {rollout.nodes} nodes {f'run {release}' if is_upgrade else 'have the change'}"


def _halt_after_canaries(limits: RolloutLimits, canaries: Sequence[_NodePod], *, is_first: bool) -> str:
    """Return why no node gets the change after the canaries; empty if one may."""
    labels = ",".join(f"{name}={value}" for name, value in sorted((limits.canaries or {}).items()))
    if not canaries:
        return f"{limits.path}.canaries: no reachable node has the labels {labels}; label one, or remove the field"
    if limits.canaries_only and not is_first and all(pod.is_current for pod in canaries):
        return f"{limits.path}.canaries.only: only canaries change until it is false"
    return ""


def _stopped(program: str, progress: str, late: Sequence[_NodePod]) -> Verdict:
    [label] = COMPUTE
    text = (
        f"{progress}; roll-out stopped: {_describe(program, late)}. Correct or undo the change,"
        f" or remove the label {label} from that node"
    )
    return failed(text, ROLLOUT_STOPPED)


def _describe(program: str, late: Sequence[_NodePod]) -> str:
    """Return which pod is late for the longest, and how to see why."""
    slowest = min(late, key=lambda pod: (unready_since(pod.live), pod.node))
    meta = slowest.live["metadata"]
    rest = f", and {len(late) - 1} more" if len(late) > 1 else ""
    runs = any(each.get("state", {}).get("running") for each in container_statuses(slowest.live))
    command = f"kubectl logs -n {meta['namespace']} {meta['name']}{'' if runs else ' --previous'}"
    if not is_placed(slowest.live):
        command = f"kubectl describe pod -n {meta['namespace']} {meta['name']}"
    where = (
        f"{meta['name']} {'on' if is_placed(slowest.live) else 'for'} node {slowest.node}"
        if slowest.node
        else meta["name"]
    )
    since = f"{unready_since(slowest.live):%H:%M} UTC"
    return f"the new {program} has not been Ready since {since} ({where}{rest}); see why by `{command}`"


def _describe_waits(program: str, starting: Sequence[_NodePod], ending: Sequence[_NodePod], missing: int) -> list[str]:
    """Return what the next nodes wait for."""
    waits: list[str] = []
    if starting:
        waits.append(f"waits for {_name(starting)} (the new {program} is not Ready yet)")
    if ending:
        waits.append(f"waits for {_name(ending)} ({program} ends)")
    if missing > 0:
        waits.append(f"waits for {missing} node{'s' if missing > 1 else ''} without a pod")
    return waits


def _name(pods: Iterable[_NodePod]) -> str:
    """Name the nodes of pods, and a pod that names no node itself."""
    return name_nodes(pod.node or f"of {pod.live['metadata']['name']}" for pod in pods)
