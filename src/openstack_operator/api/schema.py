"""From models to CustomResourceDefinitions: structural schemas with CEL, defaults and printer columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from .defaults import default_text, with_default
from .dialects import in_dialect, with_default_objects
from .model import HANDED_ON, IS_NOW, KEY_TEXTS, NODE_MARKS, Model, rule
from .resource import AGE_COLUMN, READY_COLUMNS, Column, Resource
from .templates import abridged, has_templates, mapped, unmarked

Schema = dict[str, Any]

_DROPPED = frozenset({"$defs", "title", "const", "discriminator"})

_NAME: Schema = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 63}},
}
_NAME_RULE = rule(
    "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "metadata.name becomes part of DNS names; use lower case letters, digits and dashes, a letter first",
)

_IN_FULL = (
    "Each service has the fields of its own kind, here with the first sentence of each description: `kubectl explain "
    "osnova.spec`, and so on, prints the whole descriptions."
)

CONDITION: Schema = {
    "type": "object",
    "required": ["type", "status", "lastTransitionTime", "reason", "message"],
    "properties": {
        "type": {"type": "string", "maxLength": 316, "description": "Type of the condition."},
        "status": {
            "type": "string",
            "enum": ["True", "False", "Unknown"],
            "description": "Status of the condition.",
        },
        "reason": {"type": "string", "maxLength": 1024, "description": "Reason of the status, in one word."},
        "message": {"type": "string", "maxLength": 32768, "description": "Reason of the status, in full."},
        "lastTransitionTime": {
            "type": "string",
            "format": "date-time",
            "description": "Time of the last change of the status.",
        },
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "minimum": 0,
            "description": "Generation of the spec that the condition describes.",
        },
    },
}

MEMBER: Schema = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "maxLength": 253, "description": "Name of the member's pod."},
        "role": {"type": "string", "maxLength": 63, "description": "Role of the member, such as primary or leader."},
        "state": {"type": "string", "maxLength": 63, "description": "State of the member, in one word."},
        "message": {"type": "string", "maxLength": 1024, "description": "Current action or wait, and its reason."},
    },
}

_RELEASE: Schema = {
    "type": "string",
    "maxLength": 63,
    "description": "OpenStack release that runs; during an upgrade the previous one.",
}

_SCALE: Schema = {
    "replicas": {
        "type": "integer",
        "format": "int32",
        "description": "Number of existing pods, as their workload reports it.",
    },
    "selector": {
        "type": "string",
        "maxLength": 1024,
        "description": "Label selector of these pods.",
    },
}

_SCALE_PATHS = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}

STATUS: Schema = {
    "type": "object",
    "description": "Observed state of the resource.",
    "properties": {
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "description": "Generation of the spec that the conditions describe.",
        },
        "operatorVersion": {
            "type": "string",
            "maxLength": 63,
            "description": "Version of the operator that wrote this status.",
        },
        "phase": {"type": "string", "maxLength": 63, "description": "Phase of a rollout of several resources."},
        "endpoint": {"type": "string", "maxLength": 1024, "description": "Address that clients call."},
        "published": {
            "type": "object",
            "description": "Contract that other resources read: addresses and names, never secrets.",
            "maxProperties": 256,
            "additionalProperties": {"type": "string", "maxLength": 65536},
        },
        "members": {
            "type": "array",
            "maxItems": 64,
            "description": "Members of a cluster, if the operator observes each.",
            "items": MEMBER,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "conditions": {
            "type": "array",
            "maxItems": 1024,
            "description": "Conditions of the resource, with their reasons.",
            "items": CONDITION,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    },
}


def structural(model: type[Model], *, as_c5c3: bool = False) -> Schema:
    """Return the OpenAPI schema of a model as a CRD needs it: no $ref, no null, no titles, defaults spelled out. A
    field has one type there: an image is either text or an object, depending on the kind. Models read both.
    """
    schema = _marked(model, as_c5c3=as_c5c3)
    return unmarked(schema, {HANDED_ON})


def _marked(model: type[Model], *, as_c5c3: bool) -> Schema:
    """Return the schema with the marks of templates."""
    return _handed_on(unmarked(flat_schema(model, as_c5c3=as_c5c3), NODE_MARKS))


def flat_schema(model: type[Model], *, as_c5c3: bool = False) -> Schema:
    """Return the schema without $ref, with all marks and all defaults."""
    whole = model_schema(model, as_c5c3=as_c5c3)
    flat = cast("Schema", _flatten(whole, whole.get("$defs", {})))
    return with_default_objects(flat) if as_c5c3 else flat


def model_schema(model: type[Model], *, as_c5c3: bool = False) -> Schema:
    """Return the JSON schema of a model with its $defs, for kinds of openstack.k8s.io or of c5c3's groups."""
    return cast("Schema", in_dialect(_json_schema(model), as_c5c3=as_c5c3))


@cache
def _json_schema(model: type[Model]) -> Schema:
    """Return pydantic's schema, cached since it takes the longest; callers must not change it."""
    return model.model_json_schema(by_alias=True)


def _flatten(node: Any, defs: Schema) -> Any:
    if isinstance(node, list):
        return [_flatten(item, defs) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("Schema", node)
    if "$ref" in schema:
        target = defs[schema["$ref"].rpartition("/")[2]]
        schema = {**target, **{k: v for k, v in schema.items() if k != "$ref"}}
    if schema.get("x-kubernetes-int-or-string"):
        schema = {k: v for k, v in schema.items() if k != "type" and k not in _DROPPED}
        return {**schema, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    if "anyOf" in schema:
        return _flatten(_without_null(schema), defs)
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        schema = {k: v for k, v in schema.items() if k != "additionalProperties"}
    flat = {name: _keyword(name, value, defs) for name, value in schema.items() if name not in _DROPPED}
    # Keys limited to a choice become the properties themselves: structural schemas know no propertyNames.
    texts: Mapping[str, str] = flat.pop(KEY_TEXTS, {})
    if names := flat.pop("propertyNames", None):
        value = flat.pop("additionalProperties")
        flat["properties"] = {name: value | {"description": texts[name]} for name in names["enum"]}
    return flat


def _handed_on(schema: Schema) -> Schema:
    """Return the schema with templates that have no defaults."""
    return _undefaulted(schema) if schema.get(HANDED_ON) else mapped(schema, _handed_on)


def _undefaulted(schema: Schema) -> Schema:
    """Return the schema without defaults at any depth; the descriptions state them instead."""
    bare = {name: value for name, value in schema.items() if name != "default"}
    if text := with_default(schema.get("description", ""), default_text(schema)):
        bare["description"] = text
    return mapped(bare, _undefaulted)


def _unruled(properties: Schema) -> Schema:
    """Return the fields without rules at any depth."""
    fields: Schema = {}
    for name, schema in properties.items():
        if schema.get("description", "").startswith(IS_NOW):
            # Without its rule it would be taken for a field; so it is an unknown one.
            continue
        bare = {key: value for key, value in schema.items() if key != "x-kubernetes-validations"}
        for inner in ("items", "additionalProperties"):
            if isinstance(bare.get(inner), dict):
                bare |= _unruled({inner: bare[inner]})
        if "properties" in bare:
            bare["properties"] = _unruled(bare["properties"])
        fields[name] = bare
    return fields


def _keyword(name: str, value: Any, defs: Schema) -> Any:
    if name == "properties":
        return {field: _flatten(schema, defs) for field, schema in value.items()}
    if name == "default":
        return _defaults(value)
    if name == "additionalProperties" and isinstance(value, bool):
        return value
    if name == "description":
        return " ".join(str(value).split())
    if name == HANDED_ON or name in NODE_MARKS:
        return value
    return _flatten(value, defs)


def _without_null(schema: Schema) -> Schema:
    """Return a schema without null: `X | None` becomes an optional X, and a null default no default. Raises ValueError
    for other unions, which are not structural.
    """
    options = [option for option in schema["anyOf"] if option.get("type") != "null"]
    if len(options) != 1:
        raise ValueError(f"a union of {len(options)} types has no structural schema: {schema}")
    rest = {k: v for k, v in schema.items() if k != "anyOf" and (k, v) != ("default", None)}
    return {**options[0], **rest}


def _defaults(value: Any) -> Any:
    """Return a default without unset fields, which object defaults spell out as null: a structural schema refuses
    these.
    """
    if isinstance(value, dict):
        fields = cast("Schema", value)
        return {name: _defaults(entry) for name, entry in fields.items() if entry is not None}
    if isinstance(value, list):
        return [_defaults(entry) for entry in cast("list[Any]", value)]
    return value


def crd(resource: Resource[Model]) -> Schema:
    """Return the CustomResourceDefinition of a resource, a new object with each call."""
    return json.loads(_crd(resource))


@cache
def _crd(resource: Resource[Model]) -> str:
    """Return the definition as JSON. Making one takes twenty times as long as reading it, and tests read each many
    times.
    """
    return json.dumps(_definition(resource))


def _definition(resource: Resource[Model]) -> Schema:
    spec = _marked(resource.spec, as_c5c3=resource.as_c5c3)
    if resource.checked_below:
        spec = {**spec, "properties": _unruled(spec["properties"])}
    about = _about(resource, spec)
    spec = abridged(spec)
    spec["default"] = spec.get("default", {})
    if spec.get("required"):
        del spec["default"]
    protected = resource.group.endswith(".k8s.io")
    root: Schema = {
        "type": "object",
        "description": spec.pop("description", ""),
        "required": ["spec"] if spec.get("required") else None,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"} if resource.of_node else _NAME,
            "spec": {**spec, "description": about},
            "status": _status(resource),
        },
        "x-kubernetes-validations": [*([] if resource.of_node else [_NAME_RULE]), *resource.rules] or None,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": resource.crd_name,
            "annotations": {
                # Kubernetes protects groups that end in k8s.io; this says that the API claims no approval.
                "api-approved.kubernetes.io": "unapproved, a community API of openstack-operator"
            },
        }
        if protected
        else {"name": resource.crd_name},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": list(resource.unique_names),
                "categories": ["openstack"],
            },
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}} | ({"scale": _SCALE_PATHS} if resource.scale else {}),
                    "additionalPrinterColumns": [
                        _column(column) for column in (*READY_COLUMNS, *resource.columns, AGE_COLUMN)
                    ],
                    "schema": {"openAPIV3Schema": {k: v for k, v in root.items() if v is not None}},
                }
            ],
        },
    }


def _about(resource: Resource[Model], spec: Schema) -> str:
    """Return the description of a kind's spec."""
    notes = (resource.spec.on_change, _IN_FULL if has_templates(spec) else "")
    return " ".join([f"Desired state of this {resource.kind}.", *filter(None, notes)])


def _status(resource: Resource[Model]) -> Schema:
    """Return the schema of the status: the fields of every kind, and those of this kind alone."""
    details: Schema = structural(resource.status, as_c5c3=resource.as_c5c3)["properties"] if resource.status else {}
    release = {"release": _RELEASE} if resource.has_release else {}
    scale = _SCALE if resource.scale else {}
    return {**STATUS, "properties": {**STATUS["properties"], **release, **scale, **details}}


def _column(column: Column) -> Schema:
    return {"name": column.name, "type": column.type, "jsonPath": column.path} | (
        {"priority": column.priority} if column.priority else {}
    )
