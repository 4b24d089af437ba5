"""Policy for backups: only the operator says that a schedule made one, whose retention then counts it."""

from __future__ import annotations

import json

from ..kube import Object
from ..services.backup.model import BACKUP, OF_SCHEDULE, SCHEDULE
from .policy_names import OPERATOR

_API = "admissionregistration.k8s.io/v1"
_NAME = f"{OPERATOR}-backups"


def backup_policies() -> list[Object]:
    """Return the policy and its binding, which apply in every namespace. The operator is who may write the status of
    schedules: its account has another name in each installation.
    """
    may_write_status = (
        f"authorizer.group({json.dumps(SCHEDULE.group)}).resource({json.dumps(SCHEDULE.plural)}).subresource('status')"
        ".namespace(request.namespace).check('patch').allowed()"
    )
    before, after = (
        f"dyn({side}.metadata).?annotations[?{json.dumps(OF_SCHEDULE)}]" for side in ("oldObject", "object")
    )
    is_unchanged = f"{after} == (oldObject == null ? optional.none() : {before})"
    constraint = {
        "apiGroups": [BACKUP.group],
        "apiVersions": [BACKUP.version],
        "resources": [BACKUP.plural],
        "operations": ["CREATE", "UPDATE"],
    }
    rule = {
        "expression": is_unchanged,
        "message": f"only the operator writes the annotation {OF_SCHEDULE}; remove it",
        "reason": "Forbidden",
    }
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [constraint]},
        "matchConditions": [{"name": "may-not-write-the-status-of-schedules", "expression": f"!{may_write_status}"}],
        "validations": [rule],
    }
    binding = {"policyName": _NAME, "validationActions": ["Deny"]}
    return [
        {"apiVersion": _API, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": _NAME}, "spec": spec},
        {"apiVersion": _API, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": _NAME}, "spec": binding},
    ]
