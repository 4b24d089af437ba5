"""One manifest as the API server would take it: who it is, and everything that is wrong with it."""

from __future__ import annotations

import base64
import binascii
import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from pydantic import ValidationError

from ...api import Resource
from ...plan import Object
from .documents import type_name
from .schema import Problem, RuleCheck, Schema, validate, well_formed, with_defaults
from .stored_schemas import read_schema

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")
_METADATA = (
    {"name", "generateName", "namespace", "labels", "annotations", "finalizers", "ownerReferences", "managedFields"}
    | {"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "selfLink"}
    | {"deletionGracePeriodSeconds"}
)
_GENERATED = "xxxxx"
"""Stands for what the API server puts behind a generateName."""


@dataclass(frozen=True)
class Checked:
    """A manifest and what would be refused of it."""

    problems: tuple[Problem, ...]
    resource: Resource[Any] | None = None
    """Kind of ours; None for any other, of which little is checked."""
    stored: Object | None = None
    """The object as the API server would store it, without what its model refuses, too; None where nothing of it can be
    planned."""
    left_out: tuple[str, ...] = ()
    """Paths of what it is without."""


class Checker:
    """Knows the kinds of ours by apiVersion and kind."""

    def __init__(self, resources: Iterable[Resource[Any]], rules: RuleCheck | None = None) -> None:
        """Without `rules` those of CEL are not asked."""
        self._resources = {(each.api_version, each.kind): each for each in resources}
        self._rules = rules
        self._schemas: dict[str, Schema] = {}

    def check(self, manifest: Mapping[str, Any]) -> Checked:
        """Return everything wrong with an object of any kind."""
        problems = [
            Problem(field, "Required value" if manifest.get(field) is None else f"must be text, not {type_name(value)}")
            for field in ("apiVersion", "kind")
            if not isinstance(value := manifest.get(field), str)
        ]
        problems += metadata_problems(manifest.get("metadata"))
        if problems:
            return Checked(tuple(problems))
        named_manifest = _with_name(manifest)
        api_version, kind = named_manifest["apiVersion"], named_manifest["kind"]
        if resource := self._resources.get((api_version, kind)):
            schema = self.schema(resource)
            stored = with_defaults(schema, named_manifest)
            problems = validate(schema, stored, self._rules)
            if not problems or _is_readable(resource, stored):
                return Checked(tuple(problems), resource, stored)
            rest, left_out = well_formed(schema, stored) or (None, ())
            readable = rest is not None and _is_readable(resource, rest)
            return Checked(tuple(problems), resource, rest if readable else None, left_out)
        if api_version.rpartition("/")[0] in self._groups:
            return Checked((self._stranger(api_version, kind),))
        if (api_version, kind) != ("v1", "Secret"):
            return Checked((), None, named_manifest)
        problems = _secret(named_manifest)
        return Checked(tuple(problems), None, None if problems else {**named_manifest, **_contents(named_manifest)})

    def schema(self, resource: Resource[Any]) -> Schema:
        """Return the schema of its CRD."""
        if resource.crd_name not in self._schemas:
            self._schemas[resource.crd_name] = read_schema(resource)
        return self._schemas[resource.crd_name]

    @cached_property
    def _groups(self) -> frozenset[str]:
        return frozenset(each.group for each in self._resources.values())

    def _stranger(self, api_version: str, kind: str) -> Problem:
        versions = {version for version, name in self._resources if name == kind}
        if versions:
            return Problem("apiVersion", f"{kind} is not of {api_version}; write {' or '.join(sorted(versions))}")
        kinds = [name for version, name in self._resources if version == api_version] or [
            name for _, name in self._resources
        ]
        close = difflib.get_close_matches(kind, kinds, n=3)
        choice = f"did you mean {' or '.join(close)}?" if close else f"choose from {', '.join(dict.fromkeys(kinds))}"
        return Problem("kind", f"there is no kind {kind} in {api_version}; {choice}")


def _is_readable(resource: Resource[Any], stored: Object) -> bool:
    """Return True if the operator can plan it despite problems, so that refusals of its plan are reported at once."""
    try:
        resource.spec.from_spec(stored.get("spec") or {})
    except ValidationError:
        return False
    return _NAME.match(stored["metadata"]["name"]) is not None


def metadata_problems(metadata: Any) -> list[Problem]:
    """Return what the API server would refuse of the metadata of an object."""
    if not isinstance(metadata, dict):
        missing = metadata is None
        return [Problem("metadata", "Required value: set metadata.name" if missing else "must be an object")]
    entries = cast("dict[str, Any]", metadata)
    problems = [Problem(f"metadata.{name}", "unknown field; remove it") for name in entries if name not in _METADATA]
    texts = {name: value for name in ("name", "generateName", "namespace") if (value := entries.get(name)) is not None}
    problems += [
        Problem(f"metadata.{name}", f"must be text, not {type_name(value)}; put it into quotes")
        for name, value in texts.items()
        if not isinstance(value, str)
    ]
    if not problems and not (texts.get("name") or texts.get("generateName")):
        problems.append(Problem("metadata.name", "Required value: name or generateName is required"))
    elif not problems and (name := texts.get("name")) and not (_NAME.match(name) and len(name) <= 253):
        problems.append(Problem("metadata.name", "use lower case letters, digits, dashes and dots"))
    if isinstance(namespace := texts.get("namespace"), str) and namespace and not _NAMESPACE.match(namespace):
        problems.append(Problem("metadata.namespace", "use lower case letters, digits and dashes, 63 at most"))
    for field in ("labels", "annotations"):
        problems += _texts(entries.get(field), f"metadata.{field}")
    return problems


def _texts(value: Any, path: str) -> list[Problem]:
    """Return the entries of a map from text to text that are not text."""
    if value is None:
        return []
    if not isinstance(value, dict):
        return [Problem(path, f"must be a map, not {type_name(value)}")]
    return [
        Problem(f"{path}.{name}", f"must be text, not {type_name(entry)}; put it into quotes")
        for name, entry in cast("dict[str, Any]", value).items()
        if entry is not None and not isinstance(entry, str)
    ]


def _with_name(manifest: Mapping[str, Any]) -> Object:
    metadata: dict[str, Any] = manifest["metadata"]
    name = metadata.get("name") or f"{metadata['generateName']}{_GENERATED}"
    return {**manifest, "metadata": {**{k: v for k, v in metadata.items() if v is not None}, "name": name}}


def _secret(manifest: Mapping[str, Any]) -> list[Problem]:
    """Return the keys of a Secret that the API server could not read; never their content."""
    data, texts = manifest.get("data"), manifest.get("stringData")
    problems = [*_texts(data, "data"), *_texts(texts, "stringData")]
    entries = cast("dict[Any, Any]", data) if isinstance(data, dict) else {}
    return problems + [
        Problem(f"data.{name}", "is not base64; write plain text under stringData")
        for name, text in entries.items()
        if isinstance(text, str) and not _is_base64(text)
    ]


def _contents(manifest: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return `data` and `stringData` of a Secret, without keys that are null."""
    parts = {name: manifest.get(name) or {} for name in ("data", "stringData")}
    return {name: {key: text for key, text in part.items() if text is not None} for name, part in parts.items()}


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(re.sub(r"[\r\n]", "", text), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
