"""Server-side apply, and who manages which field, in the measure that the operator relies on them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

Fields = dict[str, Any]
"""Fields as `fieldsV1` has them; an empty one is a leaf."""
Managers = dict[tuple[str, str, str], Fields]
"""Fields by manager, operation and subresource."""

_KEYS = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "ports": ("name",),
    "conditions": ("type",),
    "ownerReferences": ("uid",),
    "members": ("name",),
}
"""Lists of objects that are found by a key; all others but the set of finalizers are replaced as a whole."""
_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")


def copied(value: Any) -> Any:
    """Return a copy of what JSON can have."""
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [copied(inner) for inner in cast("list[Any]", value)]
    return value


def fields_of(value: Any, name: str = "") -> Fields:
    """Return the fields that a value has."""
    if isinstance(value, dict):
        return {f"f:{key}": fields_of(inner, key) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        items = cast("list[Any]", value)
        if name == "finalizers":
            return {f"v:{json.dumps(item)}": {} for item in items}
        if name in _KEYS and all(isinstance(item, dict) for item in items):
            return {_key(name, item): {".": {}, **fields_of(item)} for item in items}
    return {}


def _key(name: str, item: Mapping[str, Any]) -> str:
    return "k:" + json.dumps({key: item.get(key, "") for key in _KEYS[name]}, separators=(",", ":"))


def managed_part(obj: Mapping[str, Any], parts: Iterable[str]) -> dict[str, Any]:
    """Return the parts of an object that somebody manages."""
    meta = {key: value for key, value in obj["metadata"].items() if key not in _IDENTITY}
    rest = {key: obj[key] for key in parts if key in obj}
    return {"metadata": meta, **rest} if meta and "status" not in parts else rest


def managed_whole(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return all of an object that somebody manages."""
    meta = {key: value for key, value in obj["metadata"].items() if key not in _IDENTITY}
    return {"metadata": meta, **{key: obj[key] for key in obj if key not in ("apiVersion", "kind", "metadata")}}


def merged(live: Any, applied: Any, name: str = "") -> Any:
    """Return the live value with what is applied."""
    if isinstance(live, dict) and isinstance(applied, dict):
        result = dict(cast("dict[str, Any]", live))
        for key, value in cast("dict[str, Any]", applied).items():
            result[key] = merged(result.get(key), value, key)
        return result
    if isinstance(live, list) and isinstance(applied, list):
        live_items, items = cast("list[Any]", live), cast("list[Any]", applied)
        if name == "finalizers":
            return [*live_items, *(item for item in items if item not in live_items)]
        if name in _KEYS:
            by_key = {_key(name, item): item for item in live_items}
            for item in items:
                key = _key(name, item)
                by_key[key] = merged(by_key.get(key), item)
            return list(by_key.values())
    return copied(applied)


def apply_fields(
    live: dict[str, Any], applied: dict[str, Any], managers: Managers, manager: tuple[str, str, str], *, force: bool
) -> tuple[dict[str, Any], Managers, list[str]]:
    """Return the object as it is after an apply, its managers then, and the managers that it is in conflict with."""
    fields = fields_of(applied)
    result = merged(live, applied)
    others = {key: value for key, value in managers.items() if key != manager}
    changed = _changed(live, result)
    conflicts = [key[0] for key, value in others.items() if _overlaps(value, changed)]
    if conflicts and not force:
        return live, managers, conflicts
    before = managers.get(manager, {})
    for path in _leaves(before):
        if not _has(fields, path) and not any(_has(value, path) for value in others.values()):
            _remove(result, path)
    after = {key: _without(value, changed) for key, value in others.items()}
    after = {key: value for key, value in after.items() if value}
    return result, {**after, manager: fields}, []


def update_fields(
    live: dict[str, Any], new: dict[str, Any], managers: Managers, manager: tuple[str, str, str]
) -> Managers:
    """Return the managers after an object was replaced by another version of itself."""
    changed = _changed(live, new)
    if not changed:
        return managers
    present = fields_of(new)
    after = {
        key: _within(_without(value, changed) if key != manager else value, present) for key, value in managers.items()
    }
    own = _union(after.get(manager, {}), _within(changed, present))
    after = {key: value for key, value in after.items() if value}
    return {**after, manager: own} if own else after


def _changed(old: Any, new: Any, name: str = "") -> Fields:
    """Return the fields that differ; of lists with keys, by entry."""
    if isinstance(old, dict) and isinstance(new, dict):
        before, after = cast("dict[str, Any]", old), cast("dict[str, Any]", new)
        result: Fields = {}
        for key in {**before, **after}:
            if before.get(key) != after.get(key):
                inner = before.get(key), after.get(key)
                result[f"f:{key}"] = (
                    _changed(*inner, key)
                    if key in before and key in after
                    else fields_of(after.get(key, before.get(key)), key)
                )
        return result
    if isinstance(old, list) and isinstance(new, list) and name in _KEYS:
        before = {_key(name, item): item for item in cast("list[Any]", old)}
        after = {_key(name, item): item for item in cast("list[Any]", new)}
        return {
            key: _changed(before[key], after[key])
            if key in before and key in after
            else fields_of(after.get(key, before.get(key)))
            for key in {**before, **after}
            if before.get(key) != after.get(key)
        }
    if isinstance(old, list) and isinstance(new, list) and name == "finalizers":
        both = cast("list[Any]", old), cast("list[Any]", new)
        return {f"v:{json.dumps(item)}": {} for side in both for item in side if (item in both[0]) != (item in both[1])}
    return {}


def _overlaps(fields: Fields, changed: Fields) -> bool:
    return any(
        key in fields and (not below or not fields[key] or _overlaps(fields[key], below))
        for key, below in changed.items()
    )


def _without(fields: Fields, changed: Fields) -> Fields:
    """Return the fields that did not change."""
    result: Fields = {}
    for key, below in fields.items():
        if key not in changed:
            result[key] = below
        elif below and changed[key] and (rest := _without(below, changed[key])):
            result[key] = rest
    return result


def _within(fields: Fields, present: Fields) -> Fields:
    """Return the fields that exist."""
    result: Fields = {}
    for key, below in fields.items():
        if key in present:
            rest = _within(below, present[key])
            if rest or not below:
                result[key] = rest
        elif key == ".":
            result[key] = {}
    return result


def _union(one: Fields, other: Fields) -> Fields:
    result = dict(one)
    for key, below in other.items():
        result[key] = _union(result[key], below) if key in result else below
    return result


def _leaves(fields: Fields, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, below in fields.items():
        if key == ".":
            yield path
        elif below:
            yield from _leaves(below, (*path, key))
        else:
            yield (*path, key)


def _has(fields: Fields, path: tuple[str, ...]) -> bool:
    node = fields
    for key in path:
        if key not in node:
            return False
        node = node[key]
    return True


def _remove(value: Any, path: tuple[str, ...]) -> None:
    """Remove what is at a path, and what is empty then."""
    node: Any = value
    parents: list[tuple[Any, Any]] = []
    for key in path:
        if key.startswith("f:"):
            step: Any = key[2:]
            if not isinstance(node, dict) or step not in node:
                return
        elif key.startswith("k:"):
            identity = json.loads(key[2:]).items()
            items = cast("list[Any]", node if isinstance(node, list) else [])
            matches = [index for index, item in enumerate(items) if identity <= item.items()]
            if not matches:
                return
            step = matches[0]
        else:
            item = json.loads(key[2:])
            if not isinstance(node, list) or item not in node:
                return
            step = cast("list[Any]", node).index(item)
        parents.append((node, step))
        node = cast("Any", node)[step]
    parent, step = parents.pop()
    del parent[step]
    if not parent and parents and isinstance(parents[-1][0], dict) and parents[-1][1] not in ("spec", "metadata"):
        above, step = parents.pop()
        del above[step]


def merge_patch(live: Any, patch: Any) -> Any:
    """Return the result of a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return copied(patch)
    result = dict(cast("dict[str, Any]", live)) if isinstance(live, dict) else {}
    for key, value in cast("dict[str, Any]", patch).items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def json_patch(live: dict[str, Any], operations: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the result of a JSON patch (RFC 6902); None where a test in it fails, or its path is not there."""
    result = copied(live)
    for operation in operations:
        *parents, last = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
        node: Any = result
        try:
            for step in parents:
                node = node[int(step)] if isinstance(node, list) else node[step]
            place: Any = int(last) if isinstance(node, list) and last != "-" else last
            match operation["op"]:
                case "test":
                    if node[place] != operation["value"]:
                        return None
                case "remove":
                    del node[place]
                case _ if last == "-":
                    node.append(operation["value"])
                case _:
                    node[place] = operation["value"]
        except (KeyError, IndexError, TypeError):
            return None
    return result
