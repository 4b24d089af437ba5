"""Policies for fields that decide what runs on nodes as root: a ValidatingAdmissionPolicy for each kind with such
fields."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..api import EACH, FOLDER, NodeField, Resource, node_fields
from ..kube import Object
from ..registry import RESOURCES
from .names import NODE_AGENTS, OPERATOR, RUN_ON_NODES

_API = "admissionregistration.k8s.io/v1"
_IS_ALLOWED = (
    "authorizer.group(request.resource.group).resource(request.resource.resource)"
    f".namespace(request.namespace).check('{RUN_ON_NODES}').allowed()"
)
_NEW, _OLD = "variables.new", "variables.old"


def node_policies() -> list[Object]:
    """The policies and their bindings, which hold in every namespace."""
    # Some kinds of c5c3's groups have the same fields as ours of the same name; they share a policy.
    policies: dict[str, tuple[list[Object], list[Resource[Any]]]] = {}
    for resource in RESOURCES:
        if rules := [_rule(field) for field in node_fields(resource)]:
            name = f"{OPERATOR}-{resource.plural}"
            if name in policies and policies[name][0] != rules:
                name = f"{name}.{resource.group}"
            policies.setdefault(name, (rules, []))[1].append(resource)
    return [
        obj for name, (rules, kinds) in policies.items() for obj in (_policy(name, rules, kinds), _policy_binding(name))
    ]


def _policy(name: str, rules: Sequence[Object], kinds: Sequence[Resource[Any]]) -> Object:
    return {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [kind.group],
                        "apiVersions": [kind.version],
                        "resources": [kind.plural],
                        "operations": ["CREATE", "UPDATE"],
                    }
                    for kind in kinds
                ]
            },
            # A user with the verb, such as the operator, has to meet no other rule.
            "matchConditions": [{"name": f"may-not-{RUN_ON_NODES}", "expression": f"!{_IS_ALLOWED}"}],
            "variables": [
                {"name": "new", "expression": "object.?spec.orValue(dyn({}))"},
                {
                    "name": "old",
                    "expression": "oldObject == null ? dyn({}) : dyn(oldObject).?spec.orValue(dyn({}))",
                },
            ],
            "validations": list(rules),
        },
    }


def _policy_binding(name: str) -> Object:
    return {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }


def _rule(field: NodeField) -> Object:
    """Refuse a field that is neither unchanged nor what the operator chooses by itself."""
    alternative = f", choose a folder below {FOLDER}" if field.is_folder else ""
    return {
        "expression": _is_free(field, field.path, _NEW, _OLD),
        "message": f"{field} decides what runs on nodes as root, which needs the verb {RUN_ON_NODES} "
        f"(ClusterRole {NODE_AGENTS}); remove it{alternative}, or ask an administrator of the Kubernetes cluster",
        "reason": "Forbidden",
    }


def _is_free(field: NodeField, path: Sequence[str], new: str, old: str) -> str:
    if EACH not in path:
        value = f"{new}.{_optional(path)}"
        choices = [f"!{value}.hasValue()", f"{value} == {old}.{_optional(path)}", *_by_itself(field, value)]
        return " || ".join(choices)
    at = path.index(EACH)
    entries, below = _optional(path[:at]), _optional(path[at + 1 :])
    value = f"each.{below}"
    same = f"{old}.{entries}.orValue([]).exists(before, before.name == each.name && before.{below} == {value})"
    choices = [f"!{value}.hasValue()", same, *_by_itself(field, value)]
    return f"{new}.{entries}.orValue([]).all(each, {' || '.join(choices)})"


def _by_itself(field: NodeField, value: str) -> list[str]:
    """Return expressions for values that every user may choose."""
    expressions = [] if field.default is None else [f"{value}.value() == {json.dumps(field.default)}"]
    if field.is_folder:
        expressions.append(f"{value}.value().startsWith('{FOLDER}') && !{value}.value().contains('..')")
    return expressions


def _optional(path: Sequence[str]) -> str:
    return ".".join(f"?{name}" for name in path)
