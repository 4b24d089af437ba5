"""Fields of an object that no plan sets and that another program or user wrote, read off `managedFields`."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from ..plan import Object
from .objects import MANAGED_BY

KEEP_FIELDS = "openstack.k8s.io/keep-fields"
"""Annotation of an object: paths of fields, separated by commas, which a user may set there by hand."""
FOREIGN_FIELDS = "ForeignFields"
"""Condition of a resource in whose objects others set fields by hand."""
ALLOWED = "Allowed"
"""Its reason if an annotation lets all of them stay."""
_OWN_MANAGERS = (MANAGED_BY, "python-httpx")
"""Beginnings of the names by which the operator writes; the second is that of some writes of earlier versions."""
_RESTARTS = ("spec", "template", "metadata", "annotations")
"""The place at which `kubectl rollout restart` notes its time."""

Fields = Mapping[str, Any]


class ForeignField(NamedTuple):
    """A field that a user or another program set."""

    path: str
    """As users write it: `spec.api.replicas`."""
    pointer: str
    """For a JSON patch: `/spec/api/replicas`."""
    manager: str


def is_foreign(manager: str, subresource: str = "") -> bool:
    """Return True if an entry of managedFields is of neither the operator nor a controller, and not of a subresource:
    `kubectl scale` and an autoscaler may set the number of pods.
    """
    return not subresource and not manager.startswith((*_OWN_MANAGERS, "kube-"))


def foreign_fields(live: Object) -> list[ForeignField]:
    """Return the topmost fields of the spec that others own alone."""
    entries: list[Object] = live["metadata"].get("managedFields") or []
    own_specs = [_spec(entry) for entry in entries if not is_foreign(entry.get("manager", ""))]
    fields: dict[str, ForeignField] = {}
    for entry in entries:
        manager, spec = entry.get("manager", ""), _spec(entry)
        # Only who created a workload sets its selector, and with it all that Kubernetes fills in, as a restored backup.
        if not is_foreign(manager, subresource=entry.get("subresource", "")) or (
            "template" in (live.get("spec") or {}) and "f:selector" in spec
        ):
            continue
        for keys in _alone(spec, own_specs):
            if foreign := _field(live, ("spec", *keys), manager):
                fields.setdefault(foreign.path, foreign)
    return list(fields.values())


def may_stay(live: Mapping[str, Any], field: ForeignField) -> bool:
    """Return True if an annotation of the object lets a field stay."""
    paths = ((live["metadata"].get("annotations") or {}).get(KEEP_FIELDS) or "").split(",")
    allowed = [path.strip() for path in paths if path.strip()]
    return any(field.path == each or field.path.startswith((f"{each}.", f"{each}[")) for each in allowed)


def without_fields(live: Object, pointers: Iterable[str]) -> Object:
    """Return an object without the fields at these places of a JSON patch, one removed after the other."""
    changed = copy.deepcopy(live)
    for pointer in pointers:
        *parents, last = [step.replace("~1", "/").replace("~0", "~") for step in pointer.strip("/").split("/")]
        node: Any = changed
        for step in parents:
            node = node[int(step)] if isinstance(node, list) else node[step]
        del node[int(last) if isinstance(node, list) else last]
    return changed


def _spec(entry: Object) -> Fields:
    return cast("Fields", (entry.get("fieldsV1") or {}).get("f:spec") or {})


def _alone(fields: Fields, own_specs: Sequence[Fields]) -> Iterator[tuple[str, ...]]:
    """Yield the topmost keys of fields that none of our own entries has."""
    for key, below in fields.items():
        if key == ".":
            continue
        ours = [each[key] for each in own_specs if key in each]
        if not ours:
            yield (key,)
        else:
            yield from ((key, *rest) for rest in _alone(below, ours))


def _field(live: Object, keys: Iterable[str], manager: str) -> ForeignField | None:
    """Return the field at these keys of fieldsV1; None for one that is gone, or that has no name, as a member of a set
    of values.
    """
    value: Any = live
    names, path, pointer = list[str](), "", ""
    for key in keys:
        if key.startswith("k:"):
            identity = json.loads(key.removeprefix("k:"))
            matches = [index for index, item in enumerate(value or ()) if identity.items() <= item.items()]
            if not matches:
                return None
            step: Any = matches[0]
            path += f"[{'/'.join(map(str, identity.values()))}]"
        elif key.startswith("v:"):
            return None
        else:
            step = key.removeprefix("f:")
            path += f".{step}" if path else step
        if not isinstance(value, (dict, list)) or (isinstance(value, dict) and step not in value):
            return None
        value = cast("Any", value)[step]
        names.append(str(step))
        pointer += "/" + str(step).replace("~", "~0").replace("/", "~1")
    return None if tuple(names[:4]) == _RESTARTS else ForeignField(path, pointer, manager)
