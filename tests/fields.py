"""Fields that need a proof: all of the kinds that c5c3 alone has, and of the others those its manifests have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import yaml

from openstack_operator.api import Model, Resource, Template, crd
from openstack_operator.registry import RESOURCES
from openstack_operator.services.cloud_services import CLOUD_SERVICES, template_of

ROOT = Path(__file__).parent.parent
PAGE = Path("docs/api/c5c3.md")
_LISTED: Mapping[str, Sequence[str]] = yaml.load(
    (Path(__file__).parent / "fields.yaml").read_text("utf-8"), yaml.CSafeLoader
)
_BY_KIND = {each.kind: each for each in RESOURCES if each.group.endswith("c5c3.io")}
_BY_KIND["OpenStackControlPlane"] = next(each for each in RESOURCES if each.kind == "OpenStackControlPlane")
KINDS: Mapping[str, Resource[Any]] = {kind: _BY_KIND[kind] for kind in _LISTED}
"""Kinds of the page by their names, which are unique in c5c3's groups; and the cloud of openstack.k8s.io."""
OFF_BY_DEFAULT = {
    template_of(each).field: each.resource.kind for each in CLOUD_SERVICES if template_of(each).description
}
"""Kinds of the services that a cloud runs only if it enables them, and that c5c3's manifests do not name, by the fields
of their templates."""
_SHARED = {"Keystone", "Glance", "Placement", "Neutron", "Nova", "Cinder"}
CLOUDS = {"OpenStackControlPlane", "ControlPlane"}
_CONDITIONS = (ROOT / "docs" / "reference" / "conditions.md").read_text(encoding="utf-8")

_HEAD = """\
# Fields of c5c3's manifests, and the tests that prove them

Made by `make generate` from the markers of the tests. Each test changes the field and looks at what comes of it: in
the objects that are rendered, in the plan, or on a real API server. What does nothing, or is not supported, is
called so, and its test is that a condition, an error or the field's own description says so. `.*` is everything else of
a template: the resource that it makes has it unchanged, and tests prove it there. What the fields mean stands in
the [reference](../reference/README.md)."""

HANDED_ON = ".*"
"""After the path of a template: all it has besides stands in the resource made of it."""


class Proof(NamedTuple):
    """A test, and what it says of a field."""

    kind: str
    path: str
    says: str
    """Empty where the field does what it says; else what is said of it: `not supported`, `does nothing`."""
    module: str
    test: str


def wanted(kind: str) -> list[str]:
    """Paths of a kind's fields that need a proof, as its definition has them."""
    resource, listed = KINDS[kind], _LISTED[kind]
    if kind in _SHARED:
        return list(listed)
    own = list(own_fields(resource)) if kind in CLOUDS else list(leaves(_properties(resource)["spec"], "spec"))
    status = [
        f"status.{name}" for name in (resource.status.model_json_schema()["properties"] if resource.status else ())
    ]
    known = [path for path in leaves(_properties(resource)["status"], "status") if path.startswith(tuple(status))]
    return list(dict.fromkeys([*own, *(path for path in listed if path.startswith("spec.")), *listed, *known]))


def exists(kind: str, path: str) -> bool:
    """Whether the definition of a kind has this field, or the page of conditions this condition."""
    if found := re.fullmatch(r"status\.conditions\[(\w+)\]", path):
        return found[1] == "Ready" or f"| `{found[1]}` |" in _section(KINDS[kind])
    properties = _properties(KINDS[kind])
    return path.removesuffix(HANDED_ON) in {*nodes(properties["spec"], "spec"), *nodes(properties["status"], "status")}


def leaves(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Paths of all fields that have no fields of their own; `[]` stands for each entry of a list."""
    inner = list(_inner(schema, path))
    for name, each in inner:
        yield from leaves(each, name)
    if not inner:
        yield path


def nodes(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Paths of all fields."""
    yield path
    for name, each in _inner(schema, path):
        yield from nodes(each, name)


def written(obj: Mapping[str, Any]) -> Iterator[str]:
    """Paths of the fields a manifest of one of these kinds has."""
    properties = _properties(KINDS[obj["kind"]])
    for part in ("spec", "status"):
        yield from dict.fromkeys(_written(obj.get(part, {}), properties[part], part))


def page(proofs: Iterable[Proof]) -> str:
    """The table of fields and their proofs."""
    found = list(proofs)
    lines = [_HEAD]
    for kind, resource in KINDS.items():
        lines += ["", f"## {kind}", "", f"`{resource.api_version}`", "", "| field | proof |", "| --- | --- |"]
        others = sorted(proof.path for proof in found if proof.kind == kind)
        for path in dict.fromkeys([*wanted(kind), *others]):
            tests = [proof for proof in found if (proof.kind, proof.path) == (kind, path)]
            lines.append(f"| `{path}` | {_told(tests)} |")
    return "\n".join([*lines, ""])


def _told(tests: Sequence[Proof]) -> str:
    texts = [
        f"{f'**{each.says}**: ' if each.says else ''}[{each.test}](../../{each.module})"
        for each in sorted(tests, key=lambda each: (each.says != "", each.module, each.test))
    ]
    return ", ".join(dict.fromkeys(texts)) or "none"


@cache
def _properties(resource: Resource[Any]) -> Any:
    return crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]


def _inner(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Fields of an object, and of the entries of a list of objects; a list of anything else is one field."""
    if schema.get("type") == "array":
        yield f"{path}[]", schema.get("items", {})
    for name, each in schema.get("properties", {}).items():
        yield f"{path}.{name}", each


def _written(node: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    if path == "status.conditions":
        yield from (f"{path}[{each['type']}]" for each in node)
    elif schema.get("type") == "array" and isinstance(node, list):
        for each in cast("list[Any]", node):
            yield from _written(each, schema["items"], f"{path}[]")
    elif schema.get("properties") and isinstance(node, Mapping):
        for name, each in cast("Mapping[str, Any]", node).items():
            # What the definition does not have is named as it is written: it has no proof.
            yield from _written(each, schema["properties"].get(name, {}), f"{path}.{name}")
    else:
        yield path


def own_fields(resource: Resource[Any]) -> Iterator[str]:
    """Fields of a cloud that are its own: of a template those its kind does not have, and one line for all others."""
    templates = dict(_templates(resource.spec, "spec"))
    for path in leaves(_properties(resource)["spec"], "spec"):
        if not path.startswith(tuple(f"{each}." for each in templates)):
            yield path
    for path, model in templates.items():
        theirs = {name for base in model.__mro__ if not issubclass(base, Template) for name in _fields(base)}
        yield from (f"{path}.{info.alias or name}" for name, info in _fields(model).items() if name not in theirs)
        yield f"{path}{HANDED_ON}"


def _templates(model: type[Model], path: str) -> Iterator[tuple[str, type[Template]]]:
    for name, info in model.model_fields.items():
        field, kinds = f"{path}.{info.alias or name}", (info.annotation, *getattr(info.annotation, "__args__", ()))
        for inner in [each for each in kinds if isinstance(each, type) and issubclass(each, Model)]:
            yield from [(field, inner)] if issubclass(inner, Template) else _templates(inner, field)


def _fields(model: type[Any]) -> Mapping[str, Any]:
    return getattr(model, "model_fields", {})


def _section(resource: Resource[Any]) -> str:
    """What the page of conditions has on a kind."""
    found = re.search(rf"^### {resource.role}$(.*?)^##", _CONDITIONS, re.MULTILINE | re.DOTALL)
    return (found[1] if found else "") + "".join(
        re.findall(rf"^### {resource.kind}$(.*?)^##", _CONDITIONS, re.M | re.S)
    )


def description(kind: str, path: str) -> str:
    """What the definition says of a field, and of what it is a field of."""
    schema: Any = _properties(KINDS[kind])
    found: list[str] = []
    for part in re.findall(r"[^.\[\]]+|\[\]", path):
        schema = schema["items"] if part == "[]" else schema.get("properties", schema)[part]
        found.append(schema.get("description", ""))
    return " ".join(found)
