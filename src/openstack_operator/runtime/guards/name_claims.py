"""Ownership of a name on a server: by the oldest resource, and by others that its owner makes with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...plan import NameClaim, NameClaims
from ..cache.entries import Cached, Meta, Request
from ..cache.plans import Maker
from ..cache.world import World
from ..kubernetes.kinds import Kind


class Conflicts(NamedTuple):
    """Names that belong to other resources."""

    problems: Mapping[str, str]
    """Reason, by the field of its spec."""
    unknown: bool = False
    """True if this may still change once its owner was planned."""


class _Claimant(NamedTuple):
    """A resource that claims names."""

    kind: Kind
    resource: Cached

    @property
    def meta(self) -> Meta:
        return self.resource.meta


class Ownership:
    """The claims of all resources of a kind, and of others that claim the same names. Each spec is decoded once for
    each generation, not at each check.
    """

    def __init__(self, world: World, kind: Kind, claims: Mapping[Kind, NameClaims]) -> None:
        self._world = world
        self._kind = kind
        self._claims = claims
        self._cache: dict[str, tuple[tuple[int, int], Sequence[NameClaim]]] = {}
        """Generation, with the epoch of the world, and its claims, by uid."""

    def conflicts(self, resource: Cached) -> Conflicts:
        """Return the claims of the resource that belong to other resources."""
        mine = _Claimant(self._kind, resource)
        claims = {claim.key: claim for claim in self._claims_of(mine)}
        rival_claims = [
            (rival, claim)
            for rival in self._rivals(mine)
            for claim in self._claims_of(rival)
            if claim.key in claims and not self._has_same_maker(mine, rival)
        ]
        problems: dict[str, str] = {}
        for rival, claim in rival_claims:
            if self._is_older(rival, mine):
                field, noun, _ = claims[claim.key]
                name = f"{rival.kind.kind}/{rival.meta.name}"
                server = f"{claim.key[0]}/{claim.key[1]}"
                text = f"{noun} of {server} belongs to the older {name}"
                problems.setdefault(field, f"{text}; choose another name, or delete this resource")
        return Conflicts(problems, unknown=bool(problems) and not self._maker(mine).is_known)

    def _rivals(self, mine: _Claimant) -> Iterable[_Claimant]:
        claimants = [_Claimant(kind, each) for kind in self._claims for each in self._world.stores[kind]]
        rivals = [each for each in claimants if each.meta.uid != mine.meta.uid]
        self._cache = {uid: self._cache[uid] for each in (mine, *rivals) if (uid := each.meta.uid) in self._cache}
        return [each for each in rivals if each.meta.namespace == mine.meta.namespace]

    def _claims_of(self, claimant: _Claimant) -> Sequence[NameClaim]:
        meta, version = claimant.meta, (self._world.epoch, claimant.meta.generation)
        entry = self._cache.get(meta.uid)
        if entry is None or entry[0] != version:
            spec = claimant.resource.decode().get("spec") or {}
            entry = self._cache[meta.uid] = version, self._claims[claimant.kind](spec)
        return entry[1]

    def _maker(self, claimant: _Claimant) -> Maker:
        return self._world.plans.maker(claimant.kind, claimant.meta)

    def _has_same_maker(self, mine: _Claimant, rival: _Claimant) -> bool:
        """Return True if one plan has both: two accounts of one schema while a password is replaced."""
        makers = self._maker(mine), self._maker(rival)
        return makers[0].is_known and makers[0] == makers[1] and makers[0].request is not None

    def _is_older(self, rival: _Claimant, mine: _Claimant) -> bool:
        # Before the owners are planned, rivals may be as old as they claim, but this resource may not.
        return self._age(rival, believed=not self._maker(mine).request) < self._age(mine, believed=False)

    def _age(self, claimant: _Claimant, *, believed: bool) -> tuple[str, str, str]:
        """Return the sort key of an age, smaller for older. A child is as old as its owner: an account that replaces
        another one keeps its schema.
        """
        kind, current = claimant.kind, claimant.meta
        oldest, visited = current.creation_timestamp, set[Request]()
        while True:
            request, is_known = self._world.plans.maker(kind, current)
            owner = self._world.get(request) if request else None
            if request is None or owner is None or request in visited or not (is_known or believed):
                return oldest, claimant.meta.name, claimant.kind.kind
            visited.add(request)
            kind, current = self._world.resource(request.kind), owner.meta
            oldest = min(oldest, current.creation_timestamp)
