"""Policies for fields that decide what runs on nodes as root: a ValidatingAdmissionPolicy for each kind with such
fields.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..api import (
    EACH,
    FOLDER,
    NodeAgents,
    NodeField,
    NodeValues,
    Resource,
    Switch,
    node_agents,
    node_fields,
    node_values,
)
from ..kube import Object
from ..registry import RESOURCES
from .policy_names import NODE_AGENTS, OPERATOR, RUN_ON_NODES

_API = "admissionregistration.k8s.io/v1"
_IS_ALLOWED = (
    "authorizer.group(request.resource.group).resource(request.resource.resource)"
    f".namespace(request.namespace).check('{RUN_ON_NODES}').allowed()"
)
_NEW, _OLD = "variables.new", "variables.old"
_RUNS = "decides what runs on nodes as root"


def node_policies() -> list[Object]:
    """Return the policies and their bindings, which apply in every namespace."""
    # Some kinds of c5c3's groups have the same fields as ours of the same name; they share a policy.
    policies: dict[str, tuple[list[Object], list[Resource[Any]]]] = {}
    for resource in RESOURCES:
        if rules := node_rules(resource):
            name = f"{OPERATOR}-{resource.plural}"
            if name in policies and policies[name][0] != rules:
                name = f"{name}.{resource.group}"
            policies.setdefault(name, (rules, []))[1].append(resource)
    return [
        obj for name, (rules, kinds) in policies.items() for obj in (_policy(name, rules, kinds), _policy_binding(name))
    ]


def node_rules(resource: Resource[Any]) -> list[Object]:
    """Return what a user without the verb meets when that user writes a resource of this kind."""
    # The API server names the first one that refuses.
    return [
        *map(_rule, node_fields(resource)),
        *map(_agents_rule, node_agents(resource)),
        *map(_values_rule, node_values(resource)),
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
    effect = "names the server that controls root programs on nodes" if field.is_order else _RUNS
    return _refusal(_is_free(field, field.path, _NEW, _OLD), f"{field} {effect}", f"remove it{alternative}")


def _agents_rule(agents: NodeAgents) -> Object:
    """Refuse to start programs that are root on nodes; those of a cloud that exists go on."""
    switches = [switch for switch in agents.switches if EACH not in switch.path]
    new = " && ".join(_has(switch, _NEW, switch.path) for switch in switches)
    old = " && ".join(["oldObject != null", *(_has(switch, _OLD, switch.path) for switch in switches)])
    goes_on = old
    # Each entry of a list starts programs of its own.
    for switch in (each for each in agents.switches if each not in switches):
        at = switch.path.index(EACH)
        entries, below = _optional(switch.path[:at]), switch.path[at + 1 :]
        was = f"before.name == each.name && {_has(switch, 'before', below)}"
        before = f"{old} && {_OLD}.{entries}.orValue([]).exists(before, {was})"
        goes_on = f"{_NEW}.{entries}.orValue([]).all(each, !({_has(switch, 'each', below)}) || {before})"
    expression = f"!({new}) || {goes_on}" if new else goes_on
    return _refusal(expression, f"{agents} runs programs on nodes as root", _alternative(agents))


def _alternative(agents: NodeAgents) -> str:
    """Return how a user does without these programs; empty if they always run."""
    return " or ".join(f"set {switch} to {_other_value(switch)}" for switch in agents.switches)


def _other_value(switch: Switch) -> str:
    if switch.values == (True,):
        return "false"
    return f"another value than {' or '.join(json.dumps(value) for value in switch.values)}"


def _values_rule(values: NodeValues) -> Object:
    """Refuse a resource whose orders programs on nodes take."""
    value = f"{_NEW}.{_optional(values.path)}"
    names = ", ".join(values.values)
    return _refusal(
        f"!({value}.orValue('') in {json.dumps(values.values)}) || {_NEW} == {_OLD}",
        f"{values} lets this service control root programs on nodes ({names})",
        "choose another value",
    )


def _refusal(expression: str, reason: str, advice: str) -> Object:
    return {
        "expression": expression,
        "message": f"{reason}, which needs the verb {RUN_ON_NODES} (ClusterRole {NODE_AGENTS}); "
        f"{advice}{', or ' if advice else ''}ask an administrator of the Kubernetes cluster",
        "reason": "Forbidden",
    }


def _has(switch: Switch, base: str, path: Sequence[str]) -> str:
    """Return whether the field has one of the values, at this path below that value."""
    return f"{base}.{_optional(path)}.orValue({json.dumps(switch.unset)}) in {json.dumps(switch.values)}"


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
