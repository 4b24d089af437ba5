"""Fields of a spec that its plan does not use, or that do not go together, each reported as one condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ..api import Model
from ..api import as_c5c3 as in_form_of_c5c3
from .context import Context
from .verdict import State, Verdict

FIELDS_IGNORED = "FieldsIgnored"
"""Condition of a resource that has such fields; True, and only there while it has some."""

FIELDS_INCONSISTENT = "FieldsInconsistent"
"""Condition of a resource with fields that do not go together; True, and only there while it has some."""

SHARED_FIELDS = "openstack.k8s.io/shared-fields"
"""Annotation of a resource made from a template: its fields that the owner decides elsewhere, `region` where it has the
same name in the owner's spec, `mechanism=spec.networkBackend` otherwise."""

IgnoredFields = dict[str, str]
"""Why a field has no effect, and what to do, by its path below `spec`; the path stands for all fields within."""


def unused(field: str, uses: Mapping[str, Sequence[str]], *chosen: str) -> IgnoredFields:
    """Return the fields that only other values of `field` use than those that are `chosen`; `uses` has the fields of
    each value.
    """
    values: dict[str, list[str]] = {}
    for value, fields in uses.items():
        for each in fields:
            values.setdefault(each, []).append(value)
    return {
        each: f"only {field} {' or '.join(users)} uses it; remove it, or set that"
        for each, users in values.items()
        if not set(users) & set(chosen)
    }


def ignored_fields(ctx: Context[Model], advice: IgnoredFields, *, as_c5c3: bool = False) -> IgnoredFields:
    """Return the advice on each of these fields that has another value than its default, by its path as the user writes
    it. Fields that the owner sets for all of its resources are left out: they mean something for others of them.
    """
    shared = shared_fields(ctx.annotations)
    values = ctx.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if as_c5c3:
        values = in_form_of_c5c3(ctx.spec, values)
    values = {name: value for name, value in values.items() if name not in shared}
    # A field may be within several paths; the first one explains it.
    explained = dict[str, str]()
    for path, text in advice.items():
        for field in _set_fields(values, path.split("."), "spec"):
            explained.setdefault(field, text)
    return explained


def fields_message(advice: IgnoredFields) -> str:
    """Return one message on fields, each text once with the fields that it is about."""
    fields_by_text: dict[str, list[str]] = {}
    for field, text in advice.items():
        fields_by_text.setdefault(text, []).append(field)
    return "; ".join(f"{', '.join(fields)}: {text}" for text, fields in fields_by_text.items())


def ignored_verdict(*messages: str) -> dict[str, Verdict]:
    """Return the condition with these messages; none without one."""
    text = "; ".join(message for message in messages if message)
    return {FIELDS_IGNORED: Verdict(State.READY, text, "NoEffect")} if text else {}


def inconsistent_verdict(*messages: str) -> dict[str, Verdict]:
    """Return the condition on fields that do not go together with these messages; none without one."""
    text = "; ".join(message for message in messages if message)
    return {FIELDS_INCONSISTENT: Verdict(State.READY, text, "Inconsistent")} if text else {}


def shared_fields(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a resource that its owner decides elsewhere, with the place there."""
    entries = [entry.partition("=") for entry in annotations.get(SHARED_FIELDS, "").split()]
    return {name: place or f"spec.{name}" for name, _, place in entries}


def _set_fields(value: Any, path: list[str], place: str) -> Iterator[str]:
    """Yield the paths of values at a path, in which `*` is each entry of a list or a map."""
    if isinstance(value, list) and (path or any(isinstance(entry, dict) for entry in cast("list[Any]", value))):
        for index, entry in enumerate(cast("list[Any]", value)):
            if path[:1] in ([], ["*"], [str(index)]):
                yield from _set_fields(entry, path[1:], f"{place}[{index}]")
    elif isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        for name in fields if path[:1] in ([], ["*"]) else {path[0]} & fields.keys():
            yield from _set_fields(fields[name], path[1:], f"{place}.{name}")
    elif not path:
        yield place
