"""The objects that resources name in their specs, and whom a change of one of them concerns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...api import Dependency
from .entries import Request

Target = tuple[str, str, str]
"""(role, namespace, name) of an object that a spec names."""


def condition_kind(dependency: Dependency) -> str:
    """Return the kind of a target that stands for one condition of a resource."""
    return f"{dependency.kind}.{dependency.condition}"


class References:
    """The objects that resources name in their specs."""

    def __init__(self) -> None:
        self._targets: dict[Request, frozenset[Target]] = {}
        self._users: dict[Target, set[Request]] = {}

    def users_of(self, target: Target) -> Sequence[Request]:
        """Return the resources whose specs name that object."""
        return tuple(self._users.get(target, ()))

    def set(self, request: Request, targets: Iterable[Target]) -> None:
        """Record that this resource uses exactly those objects from now on."""
        new, old = frozenset(targets), self._targets.get(request, frozenset())
        for target in old - new:
            users = self._users[target]
            users.discard(request)
            if not users:
                del self._users[target]
        for target in new - old:
            self._users.setdefault(target, set()).add(request)
        if new:
            self._targets[request] = new
        else:
            self._targets.pop(request, None)
