"""Fields whose description is missing or faulty, counted by kind: `python -m tools.checks.descriptions`."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from openstack_operator.api import crd, split_default
from openstack_operator.api.templates import sentences
from openstack_operator.registry import RESOURCES

Schema = Mapping[str, Any]

MISSING, ONLY_DEFAULT, DOUBLED, TRUNCATED = "missing", "only a default", "doubled", "truncated"
FAULTS = (MISSING, ONLY_DEFAULT, DOUBLED, TRUNCATED)
_CODE = re.compile("`[^`]*`")
_OPEN_END = re.compile(r"(\b(e\.g|i\.e|and|or|a|an|the)|[,;:(])\.$")
"""End of a text that goes on elsewhere."""


def fields(schema: Schema, path: str = "spec") -> Iterator[tuple[str, Schema]]:
    """Yield every field at any depth, with its path; `[]` stands for each entry of a list or a map."""
    for name, field in schema.get("properties", {}).items():
        yield f"{path}.{name}", field
        yield from fields(field, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield from fields(schema[inner], f"{path}[]")


def fault(text: str) -> str:
    """Return what is wrong with the description of a field; empty if nothing is."""
    words, default = split_default(text)
    if not words:
        return ONLY_DEFAULT if default else MISSING
    parts = [*sentences(words)]
    if len({part.lower() for part in parts}) < len(parts) or "Default: " in default:
        return DOUBLED
    plain = _CODE.sub("code", words)
    is_open = "`" in plain or any(plain.count(first) != plain.count(last) for first, last in ("()", "[]", "{}"))
    return TRUNCATED if is_open or not plain.endswith(".") or _OPEN_END.search(plain) else ""


def faults(schema: Schema, path: str = "spec") -> Iterator[tuple[str, str]]:
    """Yield the path of each field with a fault, and the fault."""
    for field_path, field in fields(schema, path):
        if problem := fault(field.get("description", "")):
            yield field_path, problem


def definitions() -> Iterator[tuple[str, Schema]]:
    """Yield the name and the fields (`spec`, `status`) of each definition."""
    for resource in RESOURCES:
        root = crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        yield resource.crd_name, {part: root["properties"][part] for part in ("spec", "status")}


def main() -> int:
    """Print the fields of each kind and their faults, and return 1 if there is one."""
    total: Counter[str] = Counter()
    for name, parts in definitions():
        counts = Counter(problem for part, schema in parts.items() for _, problem in faults(schema, part))
        counts["fields"] = sum(len([*fields(schema)]) for schema in parts.values())
        total += counts
        print(f"{name}: {_line(counts)}")
    print(f"all kinds: {_line(total)}")
    return 1 if total.total() > total["fields"] else 0


def _line(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[name]} {name}" for name in ("fields", *FAULTS))


if __name__ == "__main__":
    sys.exit(main())
