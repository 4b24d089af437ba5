"""Resources planned without a cluster, and listeners to what such a plan cannot be sure of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from .api import Ref
from .kube import Object
from .plan import Context, Plan, State, key_placeholder


class Id(NamedTuple):
    """A resource of ours."""

    kind: str
    """Handle of its kind."""
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True)
class Planned:
    """A resource with its plan. `plan` is None for the resource of an actuator, and for one that cannot be planned
    without a cluster: it waits for a certificate of cert-manager, for example.
    """

    id: Id
    plan: Plan | None
    context: Context[Any]

    @property
    def objects(self) -> list[Object]:
        """All objects made for it."""
        return list(self.plan.objects) if self.plan else []


class Reader(Protocol):
    """Listener to everything that an offline plan cannot be sure of."""

    def refused(self, id_: Id, problems: Sequence[tuple[str, str]]) -> None:
        """Hear that the operator or the API server would refuse a resource: (path, message) of each problem."""
        ...

    def broken(self, id_: Id, error: Exception) -> None:
        """Hear that a plan ended in an error of the operator itself."""
        ...

    def unplanned(self, id_: Id, refs: Sequence[tuple[str, Ref]]) -> None:
        """Hear that a resource waits for data that only a cluster has: (path, reference) of each."""
        ...

    def lacks_secret(self, id_: Id) -> None:
        """Hear that a resource cannot be planned without the content of a Secret that is in none of the manifests."""
        ...

    def authority(self, secret: str, key: str, now: datetime) -> str:
        """Return the text that stands for the authorities in a Secret that is in none of the manifests."""
        ...

    def forbidden(self, id_: Id, path: str, message: str) -> None:
        """Hear that a field needs a permission that may be missing; it is planned as if it were granted."""
        ...

    def missing_object(self, id_: Id, path: str, reference: str) -> None:
        """Hear that a field names an object (`Secret/name`) that is in none of the manifests."""
        ...

    def check(self, id_: Id, manifest: Object) -> Sequence[tuple[str, str]]:
        """Return (path, message) of each mistake for which the API server would refuse a resource that a plan makes."""
        ...

    def assume(self, id_: Id, context: Context[Any], plan: Plan) -> Mapping[tuple[str, str], Object]:
        """Return objects that other operators create once the plan's objects exist, and that let it create more."""
        ...


class NullReader:
    """A reader that ignores everything, and assumes nothing."""

    def refused(self, id_: Id, problems: Sequence[tuple[str, str]]) -> None: ...

    def broken(self, id_: Id, error: Exception) -> None: ...

    def unplanned(self, id_: Id, refs: Sequence[tuple[str, Ref]]) -> None: ...

    def lacks_secret(self, id_: Id) -> None: ...

    def authority(self, secret: str, key: str, now: datetime) -> str:
        """Return its name and key in angle brackets."""
        return key_placeholder(secret, key)

    def forbidden(self, id_: Id, path: str, message: str) -> None: ...

    def missing_object(self, id_: Id, path: str, reference: str) -> None: ...

    def check(self, id_: Id, manifest: Object) -> Sequence[tuple[str, str]]:
        return ()

    def assume(self, id_: Id, context: Context[Any], plan: Plan) -> Mapping[tuple[str, str], Object]:
        return {}


_FIELD = re.compile(r"(spec(?:\.[A-Za-z0-9_-]+|\[[0-9]+\])*): (.*)", re.DOTALL)


def failures(plan: Plan) -> list[tuple[str, str]]:
    """Return (path, message) of each step and condition of a plan that has failed before anything is applied."""
    verdicts = [*(step.verdict for step in plan if step.verdict), *plan.outcome.extra_conditions.values()]
    texts = dict.fromkeys(each.message for each in verdicts if each.state is State.FAILED)
    return [(match[1], match[2]) if (match := _FIELD.fullmatch(text)) else ("", text) for text in texts]
