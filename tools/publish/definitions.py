"""Definitions of a version in a short form, and what a later one may refuse or drop of objects that it stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from openstack_operator.plan import Object

Schema = Mapping[str, Any]
_TEXTS = ("description", "title", "example", "externalDocs")
_UPPER, _LOWER = (
    ("maximum", "maxLength", "maxItems", "maxProperties"),
    ("minimum", "minLength", "minItems", "minProperties"),
)
_EXACT = ("pattern", "format", "multipleOf", "x-kubernetes-list-type", "x-kubernetes-list-map-keys")


class Definitions(NamedTuple):
    """The schemas of all kinds. Each schema names those inside it by digest, so one that many share stands once."""

    kinds: Mapping[str, str]
    """Digest of the schema by `novas.openstack.k8s.io/v1alpha1`."""
    schemas: Mapping[str, Schema]

    @classmethod
    def of(cls, definitions: Iterable[Object]) -> Definitions:
        """Return the short form of CustomResourceDefinitions: the fields that users write, without descriptions."""
        schemas: dict[str, Schema] = {}
        kinds: dict[str, str] = {}
        for definition in definitions:
            for version in definition["spec"]["versions"]:
                if version["served"]:
                    name = f"{definition['metadata']['name']}/{version['name']}"
                    whole = version["schema"]["openAPIV3Schema"]
                    kinds[name] = _add(whole["properties"].get("spec", {}), schemas)
        return cls(kinds, schemas)

    def write(self) -> str:
        """Return JSON with a line for each schema."""
        return json.dumps({"kinds": self.kinds, "schemas": dict(sorted(self.schemas.items()))}, indent=0) + "\n"

    @classmethod
    def read(cls, text: str) -> Definitions:
        """Return what `write` wrote."""
        return cls(**json.loads(text))


def _add(schema: Schema, schemas: dict[str, Schema]) -> str:
    short: dict[str, Any] = {}
    for name, value in schema.items():
        if name == "properties":
            short[name] = {field: _add(inner, schemas) for field, inner in value.items()}
        elif name in ("items", "additionalProperties") and isinstance(value, Mapping):
            short[name] = _add(cast("Schema", value), schemas)
        elif name == "x-kubernetes-validations":
            short[name] = [rule["rule"] for rule in value]
        elif name not in _TEXTS:
            short[name] = value
    digest = hashlib.sha256(json.dumps(short, sort_keys=True).encode()).hexdigest()[:10]
    schemas[digest] = short
    return digest


def narrowed(old: Definitions, new: Definitions) -> dict[str, str]:
    """Return what may refuse or drop a field of an object that the old definitions accepted, by
    `novas.openstack.k8s.io/v1alpha1 spec.api.replicas`.
    """
    differences: dict[str, str] = {}
    comparison = _Comparison(old, new)
    for name, digest in old.kinds.items():
        if name not in new.kinds:
            differences[name] = "is not served any more"
            continue
        for path, texts in comparison.changes(digest, new.kinds[name]).items():
            differences[f"{name} spec{path}"] = "; ".join(texts)
    return differences


class _Comparison:
    """Compares each pair of schemas once: many fields share them."""

    def __init__(self, old: Definitions, new: Definitions) -> None:
        self._old, self._new = old.schemas, new.schemas
        self._pairs: dict[tuple[str, str], dict[str, list[str]]] = {}

    def changes(self, old: str, new: str) -> dict[str, list[str]]:
        """Return the changes by path within the schema; a path begins with a dot or a bracket."""
        if old == new:
            return {}
        if (old, new) not in self._pairs:
            self._pairs[old, new] = self._compared(self._old[old], self._new[new])
        return self._pairs[old, new]

    def _compared(self, old: Schema, new: Schema) -> dict[str, list[str]]:
        differences: dict[str, list[str]] = {}
        if bounds := list(_narrowed_bounds(old, new)):
            differences[""] = bounds
        fields: Mapping[str, str] = new.get("properties", {})
        rest = _rest(new)
        for name, digest in old.get("properties", {}).items():
            inner = fields.get(name) or (rest if isinstance(rest, str) else None)
            if inner is None and not rest:
                differences[f".{name}"] = ["is gone: the API server drops it with the next write"]
            elif inner is not None:
                differences |= {f".{name}{path}": texts for path, texts in self.changes(digest, inner).items()}
        for name in sorted({*new.get("required", ())} - {*old.get("required", ())}):
            if "default" not in self._new[fields[name]]:
                differences.setdefault(f".{name}", []).append("is required now")
        for keyword, step in (("items", "[]"), ("additionalProperties", ".*")):
            old_inner, new_inner = old.get(keyword), new.get(keyword)
            if isinstance(old_inner, str) and isinstance(new_inner, str):
                differences |= {f"{step}{path}": texts for path, texts in self.changes(old_inner, new_inner).items()}
        if _rest(old) and not _rest(new):
            differences.setdefault(".*", []).append("other fields are dropped now")
        return differences


def _rest(schema: Schema) -> str | bool:
    """Return the digest of the schema of unnamed fields; True if there is none and they are kept."""
    return schema.get("additionalProperties") or bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def _narrowed_bounds(old: Schema, new: Schema) -> Iterator[str]:
    """Yield how the bounds of a value itself became narrower."""
    if new.get("x-kubernetes-int-or-string") and old.get("type") in ("integer", "string"):
        pass
    elif _type(old) != _type(new) and _type(new) != "any":
        yield f"takes {_type(new)}, and took {_type(old)}"
    if old.get("nullable") and not new.get("nullable"):
        yield "takes no null now"
    if (choices := new.get("enum")) and (
        lost_choices := [each for each in old.get("enum", ["other values"]) if each not in choices]
    ):
        yield f"takes no {', '.join(map(str, lost_choices))} now"
    for name in _UPPER:
        if name in new and new[name] < old.get(name, float("inf")):
            yield f"has {name} {new[name]}, and had {old.get(name, 'none')}"
    for name in _LOWER:
        if name in new and new[name] > old.get(name, float("-inf")):
            yield f"has {name} {new[name]}, and had {old.get(name, 'none')}"
    for name in _EXACT:
        if name in new and new[name] != old.get(name):
            yield f"has {name} {new[name]}, and had {old.get(name, 'none')}"
    for rule in new.get("x-kubernetes-validations", ()):
        if rule not in old.get("x-kubernetes-validations", ()):
            yield f"has a new rule: {rule}"


def _type(schema: Schema) -> str:
    return "integer or string" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "any")
