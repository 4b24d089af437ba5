"""The resources of a namespace and what each of them needs, by their specs and their owners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from ...api import dependencies, references
from ...plan import Object
from ..kind_index import BY_TYPE, SMALL
from .selection import PLANES
from .state import subject


@dataclass(frozen=True)
class Relations:
    """Resources by `Kind/name`, with those that each one refers to."""

    resources: Mapping[str, Object]
    needs: Mapping[str, Sequence[str]]
    owners: Mapping[str, str]
    """The resource that made each one."""


def relations(resources: Sequence[Object], *, small: bool = False) -> Relations:
    """Return what the resources need of each other; schemas, users and other small resources only with `small`."""
    chosen = [each for each in resources if small or (each["apiVersion"], each["kind"]) not in SMALL]
    by_name = {subject(each): each for each in chosen}
    by_uid = {each["metadata"].get("uid", ""): name for name, each in by_name.items()}
    needs = {name: [need for need in _needs(each, by_name) if need != name] for name, each in by_name.items()}
    owners = {
        name: by_uid[owner["uid"]]
        for name, each in by_name.items()
        for owner in each["metadata"].get("ownerReferences") or ()
        if owner.get("controller") and owner["uid"] in by_uid
    }
    return Relations(by_name, needs, owners)


def _needs(live: Object, by_name: Mapping[str, Object]) -> Iterator[str]:
    """Yield the existing resources that a spec names; none of a spec that this version cannot read."""
    resource = BY_TYPE[live["apiVersion"], live["kind"]]
    try:
        spec = resource.load_spec().from_spec(live.get("spec") or {})
    except ValidationError:
        return
    roles = {
        (BY_TYPE[each["apiVersion"], each["kind"]].role, each["metadata"]["name"]): name
        for name, each in by_name.items()
    }
    targets = [(ref.kind, ref.name) for _, ref in references(spec) if ref.namespace_in("") == ""]
    targets += [(dependency.kind, dependency.name) for _, dependency in dependencies(spec)]
    yield from dict.fromkeys(roles[target] for target in targets if target in roles)


def is_plane(live: Object) -> bool:
    """Return True for the resource of a whole cloud."""
    return live["kind"] in PLANES
