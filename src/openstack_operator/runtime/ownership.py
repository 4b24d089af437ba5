"""Ownership of a name on a server: by the oldest resource, and by others that its owner makes with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..plan import Claim, Claims
from .kinds import Kind
from .store import Cached, Meta, Request

if TYPE_CHECKING:
    from .world import World


class Maker(NamedTuple):
    """The resource whose plan made another one, if there is one."""

    request: Request | None
    is_known: bool = True
    """True if it was planned in the life of this process; any user may write labels and owner references."""


class Conflicts(NamedTuple):
    """Names that belong to other resources."""

    problems: Mapping[str, str]
    """Reason, by the field of its spec."""
    unknown: bool = False
    """True if this may still change once its owner was planned."""


class Ownership:
    """The claims of all resources of a kind. Each spec is decoded once for each generation, not at each check."""

    def __init__(self, world: World, kind: Kind, claims: Claims) -> None:
        self._world = world
        self._kind = kind
        self._claims = claims
        self._cache: dict[str, tuple[int, Sequence[Claim]]] = {}
        """Generation and its claims, by uid."""

    def conflicts(self, resource: Cached) -> Conflicts:
        """Return the claims of the resource that belong to other resources."""
        claims = {claim.key: claim for claim in self._claims_of(resource)}
        rival_claims = [
            (rival, claim)
            for rival in self._rivals(resource)
            for claim in self._claims_of(rival)
            if claim.key in claims and not self._has_same_maker(resource, rival)
        ]
        problems: dict[str, str] = {}
        for rival, claim in rival_claims:
            if self._is_older(rival, resource):
                field, noun, _ = claims[claim.key]
                name = f"{self._kind.kind}/{rival.meta.name}"
                server = f"{claim.key[0]}/{claim.key[1]}"
                text = f"{noun} of {server} belongs to {name}, which was here first; choose another name"
                problems.setdefault(field, text)
        return Conflicts(problems, unknown=bool(problems) and not self._maker(resource.meta).is_known)

    def _rivals(self, resource: Cached) -> Iterable[Cached]:
        rivals = [each for each in self._world.stores[self._kind] if each.meta.uid != resource.meta.uid]
        self._cache = {uid: self._cache[uid] for each in (resource, *rivals) if (uid := each.meta.uid) in self._cache}
        return [each for each in rivals if each.meta.namespace == resource.meta.namespace]

    def _claims_of(self, resource: Cached) -> Sequence[Claim]:
        meta = resource.meta
        entry = self._cache.get(meta.uid)
        if entry is None or entry[0] != meta.generation:
            entry = self._cache[meta.uid] = meta.generation, self._claims(resource.decode().get("spec") or {})
        return entry[1]

    def _maker(self, meta: Meta) -> Maker:
        return self._world.plans.maker(self._kind, meta)

    def _has_same_maker(self, resource: Cached, rival: Cached) -> bool:
        """Return True if one plan has both: two accounts of one schema while a password is replaced."""
        makers = self._maker(resource.meta), self._maker(rival.meta)
        return makers[0].is_known and makers[0] == makers[1] and makers[0].request is not None

    def _is_older(self, rival: Cached, live: Cached) -> bool:
        # Before the owners are planned, rivals may be as old as they claim, but this resource may not.
        return self._age(rival.meta, believed=not self._maker(live.meta).request) < self._age(live.meta, believed=False)

    def _age(self, meta: Meta, *, believed: bool) -> tuple[str, str]:
        """Return the sort key of an age, smaller for older. A child is as old as its owner: an account that replaces
        another one keeps its schema.
        """
        oldest, visited, kind, current = meta.creation_timestamp, set[Request](), self._kind, meta
        while True:
            request, is_known = self._world.plans.maker(kind, current)
            owner = self._world.get(request) if request else None
            if request is None or owner is None or request in visited or not (is_known or believed):
                return oldest, meta.name
            visited.add(request)
            kind, current = self._world.resource(request.kind), owner.meta
            oldest = min(oldest, current.creation_timestamp)
