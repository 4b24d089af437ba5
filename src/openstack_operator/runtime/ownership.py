"""Who may have a name on a server: the resource that came first, and those that its owner makes beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..plan import Claim, Claims
from .kinds import Kind
from .store import Cached, Meta, Request

if TYPE_CHECKING:
    from .world import World


class Maker(NamedTuple):
    """The resource by whose plan another one is there, if there is one."""

    request: Request | None
    known: bool = True
    """Whether it was planned in the life of this process; anybody may write labels and owner references."""


class Taken(NamedTuple):
    """What a resource must leave alone."""

    problems: Mapping[str, str]
    """Why, by the field of its spec."""
    unknown: bool = False
    """Whether that may still turn out otherwise, once its owner was looked at."""


class Ownership:
    """The claims of all resources of a kind. Each is read once for each generation, so that a look decodes little."""

    def __init__(self, world: World, kind: Kind, claims: Claims) -> None:
        self._world = world
        self._kind = kind
        self._claims = claims
        self._read: dict[str, tuple[int, Sequence[Claim]]] = {}
        """By uid: generation, and what was claimed in it."""

    def taken(self, held: Cached) -> Taken:
        """What of the resource's claims belongs to others."""
        wanted = {claim.key: claim for claim in self._of(held)}
        rivals = [
            (other, claim)
            for other in self._others(held)
            for claim in self._of(other)
            if claim.key in wanted and not self._beside(held, other)
        ]
        problems: dict[str, str] = {}
        for other, claim in rivals:
            if self._before(other, held):
                field, what, _ = wanted[claim.key]
                name = f"{self._kind.kind}/{other.meta.name}"
                where = f"{claim.key[0]}/{claim.key[1]}"
                text = f"{what} of {where} belongs to {name}, which was here first; choose another name"
                problems.setdefault(field, text)
        return Taken(problems, unknown=bool(problems) and not self._maker(held.meta).known)

    def _others(self, held: Cached) -> Iterable[Cached]:
        others = [each for each in self._world.stores[self._kind] if each.meta.uid != held.meta.uid]
        self._read = {uid: self._read[uid] for each in (held, *others) if (uid := each.meta.uid) in self._read}
        return [each for each in others if each.meta.namespace == held.meta.namespace]

    def _of(self, held: Cached) -> Sequence[Claim]:
        meta = held.meta
        before = self._read.get(meta.uid)
        if before is None or before[0] != meta.generation:
            before = self._read[meta.uid] = meta.generation, self._claims(held.decode().get("spec") or {})
        return before[1]

    def _maker(self, meta: Meta) -> Maker:
        return self._world.plans.maker(self._kind, meta)

    def _beside(self, one: Cached, other: Cached) -> bool:
        """Whether one plan holds both: two accounts of one schema while a password is replaced."""
        makers = self._maker(one.meta), self._maker(other.meta)
        return makers[0].known and makers[0] == makers[1] and makers[0].request is not None

    def _before(self, other: Cached, held: Cached) -> bool:
        # Of what is not known yet, others may be as old as they say, and this one is not.
        return self._age(other.meta, believed=not self._maker(held.meta).request) < self._age(held.meta, believed=False)

    def _age(self, meta: Meta, *, believed: bool) -> tuple[str, str]:
        """Less for what is older. What an owner makes is as old as that: an account that takes the place of another one
        goes on with its schema.
        """
        oldest, seen, kind, current = meta.creation_timestamp, set[Request](), self._kind, meta
        while True:
            request, known = self._world.plans.maker(kind, current)
            owner = self._world.held(request) if request else None
            if request is None or owner is None or request in seen or not (known or believed):
                return oldest, meta.name
            seen.add(request)
            kind, current = self._world.resource(request.kind), owner.meta
            oldest = min(oldest, current.creation_timestamp)
