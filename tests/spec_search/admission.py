"""What the API server refuses: schemas, rules, and rules about changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, cast

from openstack_operator.cli.offline.rules import FUNCTIONS, OLD
from openstack_operator.cli.offline.schema import validate
from tests.toggling import RULES

Schema = Mapping[str, Any]


def refusal(schema: Schema, old: Any, new: Any) -> str:
    """Return what the API server says against another spec; empty for a valid one."""
    problems = [f"spec.{path}: {text}" for path, text in validate(schema, new, RULES)]
    return "; ".join(problems or transition_problems(schema, old, new, "spec"))


def transition_problems(schema: Schema, old: Any, new: Any, path: str) -> Iterator[str]:
    """Yield the rules about changes that do not hold, for values that stay in their places."""
    for rule in schema.get("x-kubernetes-validations") or ():
        if OLD.search(rule["rule"]) and not _rules()(rule["rule"], new, old):
            yield f"{path}{rule.get('fieldPath', '')}: {rule.get('message', rule['rule'])}"
    if isinstance(old, dict) and isinstance(new, dict):
        before, after = cast("dict[str, Any]", old), cast("dict[str, Any]", new)
        properties: Mapping[str, Schema] = schema.get("properties") or {}
        rest = schema.get("additionalProperties")
        for name in before.keys() & after.keys():
            inner = properties.get(name) or (cast("Schema", rest) if isinstance(rest, Mapping) else None)
            if inner is not None:
                yield from transition_problems(inner, before[name], after[name], f"{path}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and schema.get("x-kubernetes-list-type") == "map":
        keys = schema["x-kubernetes-list-map-keys"]
        by_key = {tuple(entry.get(key) for key in keys): entry for entry in cast("list[Any]", old)}
        for index, entry in enumerate(cast("list[Any]", new)):
            match = by_key.get(tuple(entry.get(key) for key in keys))
            if match is not None:
                yield from transition_problems(schema["items"], match, entry, f"{path}[{index}]")


@cache
def _rules() -> Callable[[str, Any, Any], bool]:
    cel = cast("Any", import_module("cel"))
    compiled = cache(cel.compile)

    def holds(rule: str, new: Any, old: Any) -> bool:
        context = cel.Context({}, dict(FUNCTIONS))
        context.add_variable("self", new)
        context.add_variable("oldSelf", old)
        return compiled(rule).execute(context) is True

    return holds
