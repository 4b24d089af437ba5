"""Claims of nodes: agents of the older resource stay, and the operator refuses the node to later resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ...kube import KIND, NODES_FIELD, NodeSelection, name_nodes
from ...plan import Object, SpecError, Verdict, failed
from ..cache.entries import Change, Meta, Request
from ..cache.world import World
from ..kubernetes.kinds import DAEMON_SET

_Age = tuple[str, str, str]
"""Sort key, smaller for older: creation time, namespace and name."""
_NOT_YET = "~"
"""Creation time of an object that does not exist yet: it is younger than all."""


class NodesTaken(SpecError):
    """Nodes that a spec chooses run agents of another cloud."""

    reason = "NodesTaken"


class _Agents(NamedTuple):
    """A DaemonSet of agents that exists."""

    meta: Meta
    selection: NodeSelection


class NodeClaims:
    """The agents that each resource runs or is allowed to run: they exist only a moment after the operator allowed
    them, and agents whose DaemonSet a user deletes come back to their nodes.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._existing: dict[str, dict[tuple[str, str], _Agents]] = {}
        """By the label of the role, and by namespace and name: a check decodes nothing."""
        self._allowed: dict[Request, dict[str, NodeSelection]] = {}
        """By the DaemonSet's name."""
        self._refused: set[Request] = set()

    def follow(self, change: Change) -> None:
        """Take in a change of a DaemonSet, before it wakes any resource; other changes change nothing."""
        if change.kind is not DAEMON_SET:
            return
        before = self._forget(change.old.meta) if change.old else None
        if change.new is None or NODES_FIELD not in change.new.meta.annotations:
            return
        meta = change.new.meta
        # Its status changes with every pod; which nodes it takes, only with its generation.
        is_same = before and (before.meta.uid, before.meta.generation) == (meta.uid, meta.generation)
        selection = before.selection if before and is_same else NodeSelection.of(change.new.decode())
        self._existing.setdefault(meta.labels.get(KIND, ""), {})[_key(meta)] = _Agents(meta, selection)

    def read_again(self) -> None:
        """Read the nodes of all agents again, since a generation may stand for another selection now."""
        for agents in self._existing.values():
            agents.clear()
        for daemon_set in self._world.stores[DAEMON_SET]:
            self.follow(Change(DAEMON_SET, None, daemon_set))

    def _forget(self, meta: Meta) -> _Agents | None:
        return self._existing.get(meta.labels.get(KIND, ""), {}).pop(_key(meta), None)

    def check(self, request: Request, daemon_set: Object) -> None:
        """Allow a DaemonSet that does not exist. Raises NodesTaken if other resources run agents on one of its nodes.

        It awaits nothing, so that of two resources that want the same nodes at the same time only one gets them.
        """
        field = _field(daemon_set)
        if not field:
            return
        selection = NodeSelection.of(daemon_set)
        if text := self._conflict(selection, self._other_agents(request)):
            self._refused.add(request)
            raise NodesTaken(field, text)
        self._allowed.setdefault(request, {})[daemon_set["metadata"]["name"]] = selection

    def settle(self, request: Request, objects: Iterable[Object]) -> None:
        """Release DaemonSets that the plan of a resource, with these objects, no longer has; keep existing ones."""
        allowed, store = self._allowed.pop(request, {}), self._world.stores[DAEMON_SET]
        agents = {obj["metadata"]["name"]: obj for obj in objects if _field(obj)}
        names = [name for name in agents if name in allowed or store.get(request.namespace, name)]
        if names:
            self._allowed[request] = {name: NodeSelection.of(agents[name]) for name in names}

    def frees(self, change: Change) -> bool:
        """Return True if a change may free nodes: agents are gone or choose others, or their resource goes first."""
        if change.old is None:
            return False
        meta = change.old.meta
        if change.kind is DAEMON_SET:
            return NODES_FIELD in meta.annotations and (
                change.new is None or (change.new.meta.uid, change.new.meta.generation) != (meta.uid, meta.generation)
            )
        goes = change.new is None or change.new.meta.deletion_timestamp is not None
        return goes and Request(change.kind.handle, meta.namespace, meta.name) in self._allowed

    def refused(self) -> set[Request]:
        """Return the resources that were refused since the last call."""
        refused, self._refused = self._refused, set()
        return refused

    def judge(self, request: Request, rule: Callable[[Object], Verdict]) -> Callable[[Object], Verdict]:
        """Return a rule of readiness that also reports older agents on the nodes of agents that are not ready: both
        resources may have chosen a node only later.
        """

        def verdict(live: Object) -> Verdict:
            usual, field = rule(live), _field(live)
            if usual.ready or not field:
                return usual
            older = (each for each in self._other_agents(request) if each[1] < _age(live))
            text = self._conflict(NodeSelection.of(live), older)
            return failed(str(NodesTaken(field, text)), NodesTaken.reason) if text else usual

        return verdict

    def _other_agents(self, request: Request) -> Iterator[tuple[Request, _Age, NodeSelection]]:
        """Yield the agents of the same role that other resources run or are allowed to run."""
        role = self._world.resource(request.kind).role
        existing = self._existing.get(role.lower(), {})
        for meta, selection in existing.values():
            owner = self._world.owner(meta)
            if owner and owner != request and self._world.plans.holds(owner, (DAEMON_SET.handle, meta.name)):
                yield owner, (meta.creation_timestamp or _NOT_YET, *_key(meta)), selection
        for claimant, allowed in self._allowed.items():
            resource = self._world.get(claimant)
            # Agents that are gone do not come back if their resource is being deleted.
            is_alive = resource is not None and resource.meta.deletion_timestamp is None
            if claimant != request and is_alive and self._world.resource(claimant.kind).role == role:
                for name, selection in allowed.items():
                    if (claimant.namespace, name) not in existing:
                        yield claimant, (_NOT_YET, claimant.namespace, name), selection

    def _conflict(self, desired: NodeSelection, other_agents: Iterable[tuple[Request, _Age, NodeSelection]]) -> str:
        """Return which agents run on which of its nodes, and what to do; empty where all are free."""
        nodes = desired.nodes((node.meta.name, node.meta.labels) for node in self._world.nodes)
        by_cloud: dict[Request, set[str]] = {}
        for owner, _, selection in other_agents:
            if shared := selection.nodes(nodes):
                by_cloud.setdefault(self._cloud(owner), set()).update(name for name, _ in shared)
        if not by_cloud:
            return ""
        whose = "; ".join(f"{name_nodes(names)}: {_describe(each)}" for each, names in sorted(by_cloud.items()))
        advice = "choose nodes without agents, or remove the agents of the other cloud from these"
        return f"agents of another cloud run on {whose}; {advice}"

    def _cloud(self, request: Request) -> Request:
        """Return the top owner of a resource: the control plane where there is one."""
        visited: set[Request] = set()
        # Users write owner references, in a circle if they like.
        while request not in visited:
            visited.add(request)
            if resource := self._world.get(request):
                request = self._world.owner(resource.meta) or request
        return request


def _field(obj: Mapping[str, Any]) -> str:
    """Return the field that chooses the nodes of agents; empty for all other objects."""
    return (obj["metadata"].get("annotations") or {}).get(NODES_FIELD, "")


def _age(obj: Mapping[str, Any]) -> _Age:
    meta = obj["metadata"]
    return meta.get("creationTimestamp") or _NOT_YET, meta.get("namespace", ""), meta["name"]


def _key(meta: Meta) -> tuple[str, str]:
    return meta.namespace, meta.name


def _describe(request: Request) -> str:
    """Return `OpenStackControlPlane production/cloud`."""
    return f"{request.kind.partition('.')[0]} {request.namespace}/{request.name}"
