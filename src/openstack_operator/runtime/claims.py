"""Claims of nodes: agents of the resource that came first stay, and later resources are refused the node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..kube import KIND, NODES_FIELD, NodeSelection, name_nodes
from ..plan import Object, SpecError, Verdict, failed
from .kinds import DAEMON_SET
from .store import Change, Meta, Request

if TYPE_CHECKING:
    from .world import World

_Age = tuple[str, str, str]
"""Less for what is older: when it was created, its namespace and name."""
_NOT_YET = "~"
"""When something was created that is not there yet: it is younger than all."""


class NodesTaken(SpecError):
    """Nodes that a spec chooses run agents of another cloud."""

    reason = "NodesTaken"


class _Agents(NamedTuple):
    """A DaemonSet of agents that exists."""

    meta: Meta
    selection: NodeSelection


class Claims:
    """The agents that each resource runs, or is about to: they exist only a moment after they were allowed, and agents
    whose DaemonSet somebody deletes come back to their nodes.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._running: dict[str, dict[tuple[str, str], _Agents]] = {}
        """By the label of the role, namespace and name: a look decodes nothing."""
        self._allowed: dict[Request, dict[str, NodeSelection]] = {}
        """By the DaemonSet's name."""
        self._refused: set[Request] = set()

    def follow(self, change: Change) -> None:
        """Takes in what happened to a DaemonSet, before anybody is told of it."""
        before = self._forget(change.old.meta) if change.old else None
        if change.new is None or NODES_FIELD not in change.new.meta.annotations:
            return
        meta = change.new.meta
        # Its status changes with every pod; which nodes it takes, only with its generation.
        same = before and (before.meta.uid, before.meta.generation) == (meta.uid, meta.generation)
        selection = before.selection if before and same else NodeSelection.of(change.new.decode())
        self._running.setdefault(meta.labels.get(KIND, ""), {})[_key(meta)] = _Agents(meta, selection)

    def _forget(self, meta: Meta) -> _Agents | None:
        return self._running.get(meta.labels.get(KIND, ""), {}).pop(_key(meta), None)

    def check(self, request: Request, wanted: Object) -> None:
        """Allows a DaemonSet that does not exist. Raises NodesTaken where others run agents on one of its nodes.

        Nothing is awaited in here, so that of two that want the same nodes at a time one is the first.
        """
        field = _field(wanted)
        if not field:
            return
        selection = NodeSelection.of(wanted)
        if text := self._conflict(selection, self._others(request)):
            self._refused.add(request)
            raise NodesTaken(field, text)
        self._allowed.setdefault(request, {})[wanted["metadata"]["name"]] = selection

    def settle(self, request: Request, objects: Iterable[Object]) -> None:
        """Gives up what the plan of a resource, with these objects, no longer holds; what exists is allowed."""
        allowed, store = self._allowed.pop(request, {}), self._world.stores[DAEMON_SET]
        agents = {obj["metadata"]["name"]: obj for obj in objects if _field(obj)}
        own = [name for name in agents if name in allowed or store.get(request.namespace, name)]
        if own:
            self._allowed[request] = {name: NodeSelection.of(agents[name]) for name in own}

    def frees(self, change: Change) -> bool:
        """Whether nodes may be free after a change: agents went or choose others, or went before they were made."""
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
        """Resources that were refused since this was last asked."""
        refused, self._refused = self._refused, set()
        return refused

    def judge(self, request: Request, rule: Callable[[Object], Verdict]) -> Callable[[Object], Verdict]:
        """A rule of readiness, by which agents that are not ready are also told of older ones on their nodes: these
        may have been chosen by both only later.
        """

        def verdict(live: Object) -> Verdict:
            usual, field = rule(live), _field(live)
            if usual.ready or not field:
                return usual
            older = (each for each in self._others(request) if each[1] < _age(live))
            text = self._conflict(NodeSelection.of(live), older)
            return failed(str(NodesTaken(field, text)), NodesTaken.reason) if text else usual

        return verdict

    def _others(self, request: Request) -> Iterator[tuple[Request, _Age, NodeSelection]]:
        """Agents of the same role that other resources run, and those that they were allowed."""
        role = self._world.resource(request.kind).role
        running = self._running.get(role.lower(), {})
        for meta, selection in running.values():
            owner = self._world.owner(meta)
            if owner and owner != request and self._world.plans.holds(owner, (DAEMON_SET.handle, meta.name)):
                yield owner, (meta.creation_timestamp or _NOT_YET, *_key(meta)), selection
        for other, allowed in self._allowed.items():
            held = self._world.held(other)
            # Of one that is being deleted, agents that are gone do not come back.
            comes_back = held is not None and held.meta.deletion_timestamp is None
            if other != request and comes_back and self._world.resource(other.kind).role == role:
                for name, selection in allowed.items():
                    if (other.namespace, name) not in running:
                        yield other, (_NOT_YET, other.namespace, name), selection

    def _conflict(self, wanted: NodeSelection, others: Iterable[tuple[Request, _Age, NodeSelection]]) -> str:
        """Whose agents have which of its nodes, and what to do; empty where all are free."""
        nodes = wanted.nodes((held.meta.name, held.meta.labels) for held in self._world.nodes)
        taken: dict[Request, set[str]] = {}
        for other, _, selection in others:
            if shared := selection.nodes(nodes):
                taken.setdefault(self._cloud(other), set()).update(name for name, _ in shared)
        if not taken:
            return ""
        whose = "; ".join(f"{name_nodes(names)}: {_named(each)}" for each, names in sorted(taken.items()))
        advice = "choose nodes without agents, take these from the other cloud, or remove it"
        return f"agents of another cloud run on {whose}; {advice}"

    def _cloud(self, request: Request) -> Request:
        """The resource that others follow from: the control plane where there is one."""
        seen: set[Request] = set()
        # Users write owner references, in a circle if they like.
        while request not in seen:
            seen.add(request)
            held = self._world.held(request)
            request = (held and self._world.owner(held.meta)) or request
        return request


def _field(obj: Mapping[str, Any]) -> str:
    """The field that chooses the nodes of agents; empty for all else."""
    return (obj["metadata"].get("annotations") or {}).get(NODES_FIELD, "")


def _age(obj: Mapping[str, Any]) -> _Age:
    meta = obj["metadata"]
    return meta.get("creationTimestamp") or _NOT_YET, meta.get("namespace", ""), meta["name"]


def _key(meta: Meta) -> tuple[str, str]:
    return meta.namespace, meta.name


def _named(request: Request) -> str:
    """`OpenStackControlPlane production/cloud`"""
    return f"{request.kind.partition('.')[0]} {request.namespace}/{request.name}"
