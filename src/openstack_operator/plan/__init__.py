"""The language of plans: what services return, and how the engine carries it out. Knows no Kubernetes client."""

from __future__ import annotations

from .carry_out import Apply, Judge, Verdicts, carry_out, condition_type, conditions
from .claim import Claim, Claims
from .context import DRAWN, Context, InstalledKinds, Node, Referent
from .errors import Drifted, Incomplete, MissingReference, NotBuilt, SpecError, Transient
from .names import NAME_LIMIT, digest, fitting, keyed_digest
from .permissions import NO_PERMISSIONS, Permissions, is_own_service, whom_to_ask, wrong_entry
from .release import Component, Release, parse
from .steps import Group, Key, Object, Outcome, Plan, Step, key
from .verdict import READY, RECOVERY, State, Verdict, failed, progressing, recovering, waiting, worst

__all__ = [
    "DRAWN",
    "NAME_LIMIT",
    "NO_PERMISSIONS",
    "READY",
    "RECOVERY",
    "Apply",
    "Claim",
    "Claims",
    "Component",
    "Context",
    "Drifted",
    "Group",
    "Incomplete",
    "InstalledKinds",
    "Judge",
    "Key",
    "MissingReference",
    "Node",
    "NotBuilt",
    "Object",
    "Outcome",
    "Permissions",
    "Plan",
    "Referent",
    "Release",
    "SpecError",
    "State",
    "Step",
    "Transient",
    "Verdict",
    "Verdicts",
    "carry_out",
    "condition_type",
    "conditions",
    "digest",
    "failed",
    "fitting",
    "is_own_service",
    "key",
    "keyed_digest",
    "parse",
    "progressing",
    "recovering",
    "waiting",
    "whom_to_ask",
    "worst",
    "wrong_entry",
]
