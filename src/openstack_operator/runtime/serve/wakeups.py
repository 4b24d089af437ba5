"""The resources that a change of the cluster concerns."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable

import structlog

from ...kube import child_verdict, conditions, referent_verdict
from ...plan import ALLOWED_RESOURCES, HELD_REASONS, Verdict
from .. import metrics
from ..cache import nodes
from ..cache.entries import Cached, Change, Request
from ..cache.warnings import is_repetition
from ..cache.world import World
from ..guards.node_claims import NodeClaims
from ..kubernetes.kinds import NODE, POD, SECRET, WARNING, Kind
from ..reconcile.finalizers import is_deletion_pending

_log: structlog.stdlib.BoundLogger = structlog.get_logger()


class Wakeups:
    """The resources to look at after a change."""

    def __init__(self, world: World, node_claims: NodeClaims, planned: Iterable[Kind]) -> None:
        """Take as `planned` the kinds whose resources have plans."""
        planned_kinds = frozenset(planned)
        self._world, self._node_claims = world, node_claims
        self._on_nodes = [kind for kind in world.catalog.on_nodes if kind in planned_kinds]
        """Kinds whose plans look at Nodes. Resources of actuators look at Nodes in their next pass."""

    def requests(self, kinds: Iterable[Kind]) -> list[Request]:
        """Return all resources of these kinds."""
        return [
            Request(kind.handle, resource.meta.namespace, resource.meta.name)
            for kind in kinds
            for resource in self._world.stores[kind]
        ]

    def after(self, change: Change) -> list[Request]:
        """Return the resources that a change concerns, without the one whose pass made it and knows of it. An
        unforeseen object that breaks this computation concerns itself alone, so that the watch of its kind goes on.
        """
        affected = self._guarded(self._requests_for, change)
        return [request for request in affected if request != change.by or _is_overtaken(change, request)]

    def quoting(self, change: Change) -> list[Request]:
        """Return the resources that wait for this one, and quote a message of it that changed."""
        return self._guarded(self._quoting, change)

    def _guarded(self, concerned: Callable[[Change], list[Request]], change: Change) -> list[Request]:
        try:
            return concerned(change)
        except Exception as error:
            meta, kind = change.meta, change.kind
            frames = "".join(traceback.format_tb(error.__traceback__))
            fields = {"kind": kind.kind, "namespace": meta.namespace, "name": meta.name}
            _log.error(
                "cannot find the resources that a change affects", error=type(error).__name__, frames=frames, **fields
            )
            metrics.PANICS.labels(kind.kind).inc()
            return [Request(kind.handle, meta.namespace, meta.name)] if kind in self._world.catalog.resources else []

    def _requests_for(self, change: Change) -> list[Request]:
        meta, kind = change.meta, change.kind
        requests = self._world.volume_owners(change)
        if self._node_claims.frees(change) or (kind is NODE and nodes.has_changed(change)):
            requests += self._node_claims.refused()
        if kind in self._world.catalog.resources:
            # A list shows a status that others wrote, or that of a cluster that was put back.
            if _spec_changed(change) or change.is_listed:
                requests.append(Request(kind.handle, meta.namespace, meta.name))
            if _contract(change.old) != _contract(change.new):
                requests += self._world.references.users_of((kind.role, meta.namespace, meta.name))
                if change.by is None:
                    # A user may have written the status by hand.
                    requests.append(Request(kind.handle, meta.namespace, meta.name))
            for condition in _changed_conditions(change):
                requests += self._world.references.users_of((f"{kind.role}.{condition}", meta.namespace, meta.name))
        elif kind is NODE:
            return [*requests, *self.requests(self._on_nodes)] if nodes.has_changed(change) else []
        elif kind is SECRET:
            requests += self._world.references.users_of((kind.role, meta.namespace, meta.name))
        elif kind is POD:
            # The part of a pod that the operator shows; the kubelet writes more often than that changes.
            is_same = change.old and change.new and change.old.raw == change.new.raw
            owner = None if is_same else self._world.labeled_owner(meta)
            return [owner] if owner else []
        elif kind is WARNING:
            owner = None if is_repetition(change) else self._world.event_subject(change)
            return [owner] if owner else []
        if meta.node and not _spec_changed(change):
            # Kubernetes reports the objects of each node every few minutes, by thousands.
            return requests
        deletion_pending = change.new is not None and is_deletion_pending(kind, change.new)
        if owner := self._world.last_owner(meta) if deletion_pending else self._world.owner(meta):
            requests.append(owner)
        return requests

    def _quoting(self, change: Change) -> list[Request]:
        if change.kind not in self._world.catalog.resources or change.old is None or change.new is None:
            return []
        meta, role = change.meta, change.kind.role
        old, new = _pending_messages(change.old), _pending_messages(change.new)
        users = {
            (user, message)
            for type_, message in new.items()
            if old.get(type_) != message
            for target in (role if type_ == "Ready" else "", f"{role}.{type_}")
            for user in self._world.references.users_of((target, meta.namespace, meta.name))
        }
        # In a circle of references the quotes would grow without an end.
        return [user for user, message in users if not self._is_quoted(user, message)]

    def _is_quoted(self, request: Request, message: str) -> bool:
        kind = self._world.resource(request.kind)
        subjects = "|".join(re.escape(f"{name}/{request.name}") for name in (kind.kind, kind.role))
        return re.search(rf"(?:{subjects})(?![\w-])", message) is not None


def _is_overtaken(change: Change, by: Request) -> bool:
    """Return True if the response to a write of this resource's own pass shows a change by another client: it deleted
    the object, or changed the spec or the annotations of the resource. The watch then sends no event for that change.
    """
    if change.old is None or change.new is None:
        return False
    old, new = change.old.meta, change.new.meta
    is_itself = Request(change.kind.handle, new.namespace, new.name) == by
    is_edited = (old.generation, old.annotations) != (new.generation, new.annotations)
    return old.deletion_timestamp != new.deletion_timestamp or (is_itself and is_edited)


def _spec_changed(change: Change) -> bool:
    """Return True if more than the status changed."""
    if change.old is None or change.new is None:
        return True
    old, new = change.old.meta, change.new.meta
    return (old.uid, old.generation, old.deletion_timestamp, old.annotations, old.finalizers) != (
        new.uid,
        new.generation,
        new.deletion_timestamp,
        new.annotations,
        new.finalizers,
    )


def _contract(resource: Cached | None) -> object:
    """Return the part of a resource that its users look at."""
    if resource is None:
        return None
    live = resource.decode()
    verdict: Verdict = referent_verdict(live)
    published = (live.get("status") or {}).get("published")
    allowed = resource.meta.annotations.get(ALLOWED_RESOURCES)
    return published, verdict.state, resource.meta.deletion_timestamp, allowed


def _pending_messages(resource: Cached) -> dict[str, str]:
    """Return the messages of conditions that are not True, by type; of Ready until all is done, too."""
    live = resource.decode()
    by_type, is_pending = conditions(live), not child_verdict(live).ready
    return {
        name: condition.get("message", "")
        for name, condition in by_type.items()
        if condition["status"] != "True" or (name == "Ready" and is_pending)
    }


def _changed_conditions(change: Change) -> set[str]:
    """Return the types of the conditions whose status changed, or that a user holds now or did before."""
    sides = [conditions(side.decode()) if side else {} for side in (change.old, change.new)]
    old, new = (
        {name: (condition["status"], condition.get("reason") in HELD_REASONS) for name, condition in each.items()}
        for each in sides
    )
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
