"""Policies for accounts with the right to patch pods: they may change only some labels and annotations."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from ..kube import MANAGED_BY, WATCHED, Object
from ..runtime.apply import APPLIED
from ..services.mariadb.cluster import RECORD_DIGEST
from ..services.mariadb.roles import ROLE
from .names import NAMESPACE, OPERATOR

_API = "admissionregistration.k8s.io/v1"


def operator_pods(namespace: str = NAMESPACE) -> list[Object]:
    """The operator, whose account is in this namespace, marks the members of a cluster by what they do, so that a
    Service finds the primary.
    """
    members = {"app.kubernetes.io/managed-by": MANAGED_BY, WATCHED: "true"}
    return pod_policy(f"{OPERATOR}-pods", (namespace, OPERATOR), {ROLE}, {APPLIED, RECORD_DIGEST}, members)


def pod_policy(
    name: str,
    account: tuple[str, str],
    labels: Collection[str],
    annotations: Collection[str] = (),
    required: Mapping[str, str] | None = None,
) -> list[Object]:
    """The policy and its binding for a ServiceAccount, by namespace and name. It may change these labels and
    annotations of pods that bear all `required` labels, before and after.
    """
    namespace, user = account
    validations = [
        _rule(_is_same("spec"), "the spec of a pod"),
        *(_rule(_is_same(f"metadata.{field}"), f"{field} of a pod") for field in ("ownerReferences", "finalizers")),
        _rule(_changes_only("labels", labels), f"labels of a pod but {_listed(labels)}"),
        _rule(_changes_only("annotations", annotations), f"annotations of a pod{_but(annotations)}"),
    ]
    if required:
        label_checks = [
            f"variables.{side}.?labels[{json.dumps(key)}].orValue('') == {json.dumps(value)}"
            for side in ("new", "old")
            for key, value in required.items()
        ]
        validations.append(_rule(" && ".join(label_checks), f"pods without the labels {_listed(required)}"))
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                # Every subresource, too: a right that is added later must not bypass the policy.
                {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods", "pods/*"], "operations": ["UPDATE"]}
            ]
        },
        "matchConditions": [
            {
                "name": "is-this-account",
                "expression": f"request.userInfo.username == 'system:serviceaccount:{namespace}:{user}'",
            }
        ],
        "variables": [
            {"name": side, "expression": f"dyn({whole}.metadata)"}
            for side, whole in (("new", "object"), ("old", "oldObject"))
        ],
        "validations": [
            {**rule, "message": f"the account {user} may not change {rule['message']}"} for rule in validations
        ],
    }
    return [
        {"apiVersion": _API, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {
            "apiVersion": _API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


def _rule(expression: str, message: str) -> Object:
    return {"expression": expression, "message": message, "reason": "Forbidden"}


def _is_same(path: str) -> str:
    """Return an expression that is true if a field is unchanged, or unset before and after."""
    field = ".".join(f"?{part}" for part in path.split("."))
    return f"dyn(object).{field} == dyn(oldObject).{field}"


def _changes_only(field: str, names: Collection[str]) -> str:
    """Return an expression that is true if all entries of a map but these are unchanged."""
    free = json.dumps(sorted(names))
    sides = (("new", "old"), ("old", "new"))
    return " && ".join(
        f"variables.{side}.?{field}.orValue({{}}).all(key, "
        f"key in {free} || variables.{side}.{field}[key] == variables.{opposite}.?{field}[key].orValue(null))"
        for side, opposite in sides
    )


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names))


def _but(names: Collection[str]) -> str:
    return f" but {_listed(names)}" if names else ""
