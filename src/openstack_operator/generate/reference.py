"""The field reference: one page a kind, a table a model, from the docstrings of the models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from ..admission.policy_names import RUN_ON_NODES
from ..api import IS_NOW, ON_NODES, Model, Resource, Template, crd, gives_orders, is_obeyed, model_schema

Schema = dict[str, Any]

_VERB = f" Needs [the verb `{RUN_ON_NODES}`](../explanation/security.md#who-becomes-root-on-nodes)."
_INNER = ("items", "additionalProperties")
_NAMES = ", namespaced; `kubectl get` knows it as "


def is_field_reference(page: str) -> bool:
    """Return whether a page is that of a kind."""
    return _NAMES in page


def reference(resource: Resource[Any], firsts: Mapping[type[Model], Resource[Any]]) -> str:
    """Return the page of a kind. `firsts` has, for each model, the kind whose page describes its fields: two groups may
    serve it.
    """
    whole = model_schema(resource.spec, as_c5c3=resource.as_c5c3)
    if is_obeyed(resource):
        whole = _with_orders(whole)
    defs: Schema = whole.get("$defs", {})
    names = ", ".join(f"`{name}`" for name in (resource.crd_name, *resource.unique_names))
    lines = [
        f"# {resource.kind}",
        "",
        _line(whole.get("description", "")),
        "",
        f"`apiVersion: {resource.api_version}`{_NAMES}{names}.",
        "",
        "## spec",
        "",
    ]
    if (base_kind := firsts[resource.spec]) is not resource:
        return "\n".join(
            [*lines, *_differing(resource, base_kind), *_status(resource), *_further_rules(resource, base_kind), ""]
        )
    lines += _table(whole)
    templates = _templates(resource.spec)
    for name, schema in sorted(_sections(resource.spec, whole, defs).items()):
        lines += ["", f"## {name}", "", _line(schema.get("description", "")), ""]
        lines += _handed_on(schema, firsts[templates[name]]) if name in templates else _table(schema)
    return "\n".join([*lines, *_status(resource), *_all_rules(resource), ""])


def _with_orders(whole: Schema) -> Schema:
    """Return the schema of a kind that nodes obey, with a mark at each field that says which server gives orders."""
    defs: Schema = whole.get("$defs", {})
    parents: dict[str, set[str]] = {}
    for schema in (whole, *defs.values()):
        for name, field in schema.get("properties", {}).items():
            for ref in _refs({name: field}):
                parents.setdefault(ref, set()).add(name)

    def marked(schema: Schema, above: Iterable[str]) -> Schema:
        fields: Schema = schema.get("properties", {})
        return {
            **schema,
            "properties": {
                name: {**field, ON_NODES: "field"}
                if any(gives_orders((parent, name), field) for parent in above)
                else field
                for name, field in fields.items()
            },
        }

    return {
        **marked(whole, [""]),
        "$defs": {name: marked(schema, sorted(parents.get(name, ()))) for name, schema in defs.items()},
    }


def _differing(resource: Resource[Any], base_kind: Resource[Any]) -> list[str]:
    """Return a table of the fields that the spec of a kind of another group names differently from the first one."""
    where = f"The fields are those of [{base_kind.handle}]({base_kind.kind.lower()}.md)"
    fields, base_fields = (dict(_fields({"spec": _properties(each)["spec"]})) for each in (resource, base_kind))
    # A part of a field is listed only where that field has parts in both: an image has none in one of them.
    whole = {path.rpartition(".")[0] for path in base_fields}
    new = [path for path in fields if path not in base_fields and path.rpartition(".")[0] in whole]
    rows = [f"| `{path}` | {_type(fields[path])} | {_line(fields[path].get('description', ''))} |" for path in new]
    head = ["| field | type | |", "| --- | --- | --- |"]
    images = "; an image is an object with `repository`, `tag` and `digest`"
    return [f"{where}{images}, and these are called otherwise:", "", *head, *rows] if rows else [f"{where}{images}."]


def _fields(properties: Schema, path: str = "") -> Iterable[tuple[str, Schema]]:
    """Yield every field at any depth, by its path."""
    for name, field in properties.items():
        if not field.get("description", "").startswith(IS_NOW):
            yield f"{path}{name}", field
            inner = next((field[each] for each in _INNER if isinstance(field.get(each), dict)), field)
            yield from _fields(inner.get("properties", {}), f"{path}{name}.")


def _properties(resource: Resource[Any]) -> Schema:
    """Return spec and status as the definition has them."""
    schema = crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return {part: schema[part] for part in ("spec", "status")}


def _status(resource: Resource[Any]) -> list[str]:
    """Return the section about the status of a kind."""
    rows = [
        f"| `{path}` | {_type(field)} | {_line(field.get('description', ''))} |"
        for path, field in _status_fields(_properties(resource)["status"])
    ]
    return ["", "## status", "", "| field | type | |", "| --- | --- | --- |", *rows]


def _all_rules(resource: Resource[Any]) -> list[str]:
    """Return the section about the rules that the API server checks, if there are any."""
    return _rule_section("What the API server refuses, besides wrong types and choices:", _rules_of(resource))


def _further_rules(resource: Resource[Any], base_kind: Resource[Any]) -> list[str]:
    """Return the section about rules that the first kind of that name does not have."""
    base_rules = _rules_of(base_kind)
    further = [rule for rule in _rules_of(resource) if rule not in base_rules]
    return _rule_section("What the API server refuses besides:", further)


def _rule_section(intro: str, rules: list[str]) -> list[str]:
    return ["", "## Rules", "", intro, "", *rules] if rules else []


def _status_fields(schema: Schema, path: str = "") -> Iterable[tuple[str, Schema]]:
    """Yield every field of a status at any depth, by its path; `[]` stands for each entry of a list or a map."""
    for name, field in schema.get("properties", {}).items():
        yield f"{path}{name}", field
        inner = next((field[each] for each in _INNER if isinstance(field.get(each), dict)), None)
        yield from _status_fields(inner or field, f"{path}{name}{'[]' if inner else ''}.")


def _rules_of(resource: Resource[Any]) -> list[str]:
    """Return the rules about a whole resource, and about each field of its spec, as lines."""
    schema = crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    # Besides its spec, a rule about a whole resource sees the metadata alone.
    whole = (f"- `metadata`: {_line(rule['message'])}" for rule in schema.get("x-kubernetes-validations", ()))
    return list(dict.fromkeys([*whole, *_rules(schema["properties"]["spec"], "spec")]))


def _rules(schema: Schema, path: str) -> Iterable[str]:
    """Yield each rule under a field as a line: where it is, and its message."""
    for rule in schema.get("x-kubernetes-validations", ()):
        yield f"- `{path}{rule.get('fieldPath', '')}`: {_line(rule['message'])}"
    for name, field in schema.get("properties", {}).items():
        if not field.get("description", "").startswith(IS_NOW):
            yield from _rules(field, f"{path}.{name}")
    for inner in _INNER:
        if isinstance(schema.get(inner), dict):
            yield from _rules(schema[inner], f"{path}[]")


def contents(pages: Mapping[str, Resource[Any]]) -> str:
    """Return the page that lists all kinds, by the names of their pages."""
    rows = [f"| [{resource.handle}]({name}) | {_line(_sentence(resource))} |" for name, resource in pages.items()]
    head = ["# Field reference", "", "Every kind of the API, from the docstrings of its model.", ""]
    return "\n".join([*head, "| kind | what it is |", "| --- | --- |", *rows, ""])


def _sentence(resource: Resource[Any]) -> str:
    return str(model_schema(resource.spec).get("description", ""))


def _templates(spec: type[Model]) -> dict[str, type[Model]]:
    """Return the templates in a spec with the spec each becomes, for those that are specs of another kind."""
    specs_by_template: dict[str, type[Model]] = {}
    for info in spec.model_fields.values():
        model = info.annotation
        if isinstance(model, type) and issubclass(model, Model) and not issubclass(model, Template):
            specs_by_template |= _templates(model)
        elif isinstance(model, type) and issubclass(model, Template):
            specs = [base for base in model.__mro__ if issubclass(base, Model) and base.__name__.endswith("Spec")]
            if specs:
                specs_by_template[model.__name__] = specs[0]
    return specs_by_template


def _sections(spec: type[Model], whole: Schema, defs: Schema) -> Schema:
    """Return the models that get a section: all but those that only templates of other kinds lead to."""
    templates = _templates(spec)
    models: Schema = {}
    waiting = list(_refs(whole.get("properties", {})))
    while waiting:
        name = waiting.pop()
        if name not in models:
            models[name] = defs[name]
            if name not in templates:
                waiting += _refs(defs[name].get("properties", {}))
    return models


def _refs(node: Any) -> Iterable[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "$ref":
                yield str(value).rpartition("/")[2]
            else:
                yield from _refs(value)
    elif isinstance(node, list):
        for value in node:
            yield from _refs(value)


def _handed_on(schema: Schema, kind: Resource[Any]) -> list[str]:
    """Return the section of a template: `enabled`, the fields that the kind's page does not have, and a link to that
    page.
    """
    linked_names = model_schema(kind.spec)["properties"].keys() - {"enabled"}
    extra_fields = {
        "properties": {name: field for name, field in schema["properties"].items() if name not in linked_names}
    }
    where = f"Every field of [{kind.kind}]({kind.kind.lower()}.md); what is unset there takes its default."
    return [where, "", *_table(extra_fields)]


def _table(schema: Schema) -> list[str]:
    required = set(schema.get("required", ()))
    rows = [
        f"| `{name}` | {_type(field)} | {'required' if name in required else _default(field)} "
        f"| {_line(field.get('description', ''))}{_VERB if ON_NODES in field else ''} |"
        for name, field in schema.get("properties", {}).items()
        if not field.get("description", "").startswith(IS_NOW)
    ]
    if not rows:
        return ["It has no fields."]
    return ["| field | type | default | |", "| --- | --- | --- | --- |", *rows]


def _type(field: Schema) -> str:  # noqa: PLR0911  (a table of cases)
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if options := [option for option in field.get("anyOf", ()) if option.get("type") != "null"]:
        return _type(options[0])
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if values := field.get("enum") or ([field["const"]] if "const" in field else []):
        return ", ".join(f"`{value}`" for value in values)
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    if isinstance(field.get("additionalProperties"), dict):
        return f"map of {_type(field['additionalProperties'])}"
    return str(field.get("type", "any"))


def _default(field: Schema) -> str:
    value = field.get("default")
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, dict):
        return _shortened({name: entry for name, entry in value.items() if entry not in (None, [], {})})
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def _shortened(value: Schema) -> str:
    """Return a small object on one line; a large one is described in its own section."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000).strip()
    return f"`{text}`" if value and len(text) <= 60 else ""


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
