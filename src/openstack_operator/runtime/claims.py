"""Claims of nodes: agents of the resource that came first stay, and later resources are refused the node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..kube import KIND, NODES_FIELD, name_nodes, shared_nodes
from ..plan import Object, SpecError, Verdict, failed
from .kinds import DAEMON_SET
from .store import Change, Request

if TYPE_CHECKING:
    from .world import World


class NodesTaken(SpecError):
    """Nodes that a spec chooses run agents of another cloud."""

    reason = "NodesTaken"


class Claims:
    """The agents that each resource runs, or is about to: they exist only a moment after they were allowed, and agents
    whose DaemonSet somebody deletes come back to their nodes.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._allowed: dict[Request, dict[str, Object]] = {}
        """DaemonSets by name."""
        self._refused: set[Request] = set()

    def check(self, request: Request, wanted: Object) -> None:
        """Allows a DaemonSet that does not exist. Raises NodesTaken where others run agents on one of its nodes.

        Nothing is awaited in here, so that of two that want the same nodes at a time one is the first.
        """
        field = _field(wanted)
        if not field:
            return
        if text := self._conflict(wanted, self._others(request)):
            self._refused.add(request)
            raise NodesTaken(field, text)
        self._allowed.setdefault(request, {})[wanted["metadata"]["name"]] = wanted

    def settle(self, request: Request, objects: Iterable[Object]) -> None:
        """Gives up what the plan of a resource, with these objects, no longer holds; what exists is allowed."""
        allowed, store = self._allowed.pop(request, {}), self._world.stores[DAEMON_SET]
        agents = {obj["metadata"]["name"]: obj for obj in objects if _field(obj)}
        own = {name: obj for name, obj in agents.items() if name in allowed or store.get(request.namespace, name)}
        if own:
            self._allowed[request] = own

    def frees(self, change: Change) -> bool:
        """Whether nodes may be free after a change: agents went or choose others, or went before they were made."""
        if change.old is None:
            return False
        meta = change.old.meta
        if change.kind is DAEMON_SET:
            return NODES_FIELD in meta.annotations and (
                change.new is None or (change.new.meta.uid, change.new.meta.generation) != (meta.uid, meta.generation)
            )
        return change.new is None and Request(change.kind.handle, meta.namespace, meta.name) in self._allowed

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
            older = (each for each in self._others(request) if _age(each[1]) < _age(live))
            text = self._conflict(live, older)
            return failed(str(NodesTaken(field, text)), NodesTaken.reason) if text else usual

        return verdict

    def _others(self, request: Request) -> Iterator[tuple[Request, Object]]:
        """Agents of the same role that other resources run, and those that they were allowed."""
        role, there = self._world.resource(request.kind).role, set[tuple[str, str]]()
        for held in self._world.stores[DAEMON_SET]:
            if held.meta.labels.get(KIND) == role.lower():
                owner = self._world.owner(held.meta)
                there.add((held.meta.namespace, held.meta.name))
                if owner and owner != request:
                    yield owner, held.decode()
        for other, allowed in self._allowed.items():
            if other != request and self._world.held(other) and self._world.resource(other.kind).role == role:
                yield from ((other, obj) for name, obj in allowed.items() if (other.namespace, name) not in there)

    def _conflict(self, wanted: Object, others: Iterable[tuple[Request, Object]]) -> str:
        """Whose agents have which of its nodes, and what to do; empty where all are free."""
        nodes = [(held.meta.name, held.meta.labels) for held in self._world.nodes]
        taken: dict[Request, set[str]] = {}
        for other, obj in others:
            if names := shared_nodes(wanted, obj, nodes):
                taken.setdefault(self._cloud(other), set()).update(names)
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


def _age(obj: Mapping[str, Any]) -> tuple[str, str, str]:
    """Less for what is older; what is not there yet is younger than all."""
    meta = obj["metadata"]
    return meta.get("creationTimestamp") or "~", meta.get("namespace", ""), meta["name"]


def _named(request: Request) -> str:
    """`OpenStackControlPlane production/cloud`"""
    return f"{request.kind.partition('.')[0]} {request.namespace}/{request.name}"
