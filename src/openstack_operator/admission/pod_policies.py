"""Policies for accounts with rights over pods: they may change only some labels and annotations, and end only some."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from ..kube import COMPONENT, INSTANCE, KIND, MANAGED_BY, WATCHED, Object
from ..plan import NAME_LIMIT
from ..runtime.reconcile.apply import APPLIED
from ..services.mariadb.galera import POD_ANNOTATIONS
from ..services.mariadb.roles import ROLE
from .policy_names import NAMESPACE, OPERATOR

_API = "admissionregistration.k8s.io/v1"
_DIGEST = 9
"""Characters at the end of a shortened name."""


def operator_pods(namespace: str = NAMESPACE) -> list[Object]:
    """Return the policies for the operator's account in this namespace: it may label the members of a cluster by their
    role, so that a Service finds the primary, and delete pods of nova-compute.
    """
    members = {"app.kubernetes.io/managed-by": MANAGED_BY, WATCHED: "true"}
    account = namespace, OPERATOR
    return [*pod_policy(f"{OPERATOR}-pods", account, {ROLE}, {APPLIED, *POD_ANNOTATIONS}, members), *_endings(account)]


def pod_policy(
    name: str,
    account: tuple[str, str],
    labels: Collection[str],
    annotations: Collection[str] = (),
    required: Mapping[str, str] | None = None,
) -> list[Object]:
    """Return the policy and its binding for a ServiceAccount, by namespace and name. The account may change only these
    labels and annotations, and only of pods that have all `required` labels, before and after.
    """
    validations = [
        _rule(_is_same("spec"), "the spec of a pod"),
        *(_rule(_is_same(f"metadata.{field}"), f"{field} of a pod") for field in ("ownerReferences", "finalizers")),
        _rule(_changes_only("labels", labels), f"labels of a pod other than {_listed(labels)}"),
        _rule(_changes_only("annotations", annotations), f"annotations of a pod{_but(annotations)}"),
    ]
    if required:
        label_checks = [
            f"variables.{side}.?labels[{json.dumps(key)}].orValue('') == {json.dumps(value)}"
            for side in ("new", "old")
            for key, value in required.items()
        ]
        validations.append(_rule(" && ".join(label_checks), f"pods without the labels {_listed(required)}"))
    variables = [
        {"name": side, "expression": f"dyn({whole}.metadata)"}
        for side, whole in (("new", "object"), ("old", "oldObject"))
    ]
    # Every subresource, too: a right that is added later must not bypass the policy.
    rules = [{**rule, "message": f"change {rule['message']}"} for rule in validations]
    return _enforced(name, account, ["pods", "pods/*"], "UPDATE", rules, variables)


def _endings(account: tuple[str, str]) -> list[Object]:
    """Return the policy by which the operator may delete pods of nova-compute alone, so that Kubernetes makes them
    again from the newest template.
    """
    labels, owners = "dyn(oldObject.metadata).?labels", "dyn(oldObject.metadata).?ownerReferences.orValue([])"
    # The DaemonSet's controller sets the owner; the labels are those of the template, which the operator wrote.
    name = f"({labels}[{json.dumps(INSTANCE)}].orValue('') + '-' + {labels}[{json.dumps(COMPONENT)}].orValue(''))"
    # A name that is too long ends in a digest, which no expression knows.
    begins = f"{name}.startsWith(owner.name.substring(0, owner.name.size() - {_DIGEST}))"
    is_shortened = f"{name}.size() > {NAME_LIMIT} && owner.name.size() > {NAME_LIMIT // 2} && {begins}"
    owner_checks = (
        "owner.?controller.orValue(false)",
        "owner.apiVersion == 'apps/v1'",
        "owner.kind == 'DaemonSet'",
        f"(owner.name == {name} || {is_shortened})",
    )
    checks = (
        f"{labels}['app.kubernetes.io/managed-by'].orValue('') == {json.dumps(MANAGED_BY)}",
        f"{labels}[{json.dumps(KIND)}].orValue('') in ['nova', 'hypervisorcluster']",
        f"{labels}[{json.dumps(COMPONENT)}].orValue('').endsWith('-compute')",
        f"{owners}.exists(owner, {' && '.join(owner_checks)})",
    )
    rule = _rule(" && ".join(checks), "delete pods other than those of nova-compute")
    return _enforced(f"{OPERATOR}-pod-endings", account, ["pods"], "DELETE", [rule])


def _enforced(
    name: str,
    account: tuple[str, str],
    resources: Sequence[str],
    operation: str,
    validations: Sequence[Object],
    variables: Sequence[Object] = (),
) -> list[Object]:
    """Return the policy and its binding for one operation of that account."""
    namespace, user = account
    constraint = {"apiGroups": [""], "apiVersions": ["v1"], "resources": list(resources), "operations": [operation]}
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [constraint]},
        "matchConditions": [
            {
                "name": "is-this-account",
                "expression": f"request.userInfo.username == 'system:serviceaccount:{namespace}:{user}'",
            }
        ],
        **({"variables": list(variables)} if variables else {}),
        "validations": [{**rule, "message": f"the account {user} may not {rule['message']}"} for rule in validations],
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
