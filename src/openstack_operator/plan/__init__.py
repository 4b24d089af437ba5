"""The language of plans: what services return, and how the engine carries it out. Knows no Kubernetes client."""

from __future__ import annotations

from .allowed import ALLOWED_RESOURCES, ANY_NAME, AllowedUser, allowed_elsewhere, allows, with_entry
from .carry_out import Apply, Judge, Verdicts, carry_out, condition_type, conditions
from .claim import Claim, Claims
from .context import PLACEHOLDER, Context, InstalledKinds, Listens, Node, Referent, secret_data
from .copies import HIGHLY_AVAILABLE, SINGLE_COPY, single_copy_verdict
from .errors import Drifted, Incomplete, MissingReference, NotBuilt, SpecError, Transient
from .ignored import FIELDS_IGNORED, SHARED_FIELDS, IgnoredFields, ignored_verdict, shared_fields, unused
from .image_profile import IMAGE_PROFILE
from .kind import Kind
from .names import NAME_LIMIT, STATEFUL_SET_LIMIT, digest, fitting, keyed_digest
from .permissions import NO_PERMISSIONS, Permissions, is_own_service, whom_to_ask, wrong_entry
from .release import Component, Release, parse
from .service import (
    C5C3,
    Actuator,
    CloudMember,
    MemberReports,
    Observation,
    Planner,
    Reader,
    Releases,
    SecretReaders,
    Service,
    StartTLS,
    TrustInUse,
    Writer,
)
from .steps import WORKLOADS, Group, Key, Object, Outcome, Plan, Step, key
from .verdict import READY, RECOVERY, Predecessor, State, Verdict, failed, progressing, recovering, waiting, worst

__all__ = [
    "ALLOWED_RESOURCES",
    "ANY_NAME",
    "C5C3",
    "FIELDS_IGNORED",
    "HIGHLY_AVAILABLE",
    "IMAGE_PROFILE",
    "NAME_LIMIT",
    "NO_PERMISSIONS",
    "PLACEHOLDER",
    "READY",
    "RECOVERY",
    "SHARED_FIELDS",
    "SINGLE_COPY",
    "STATEFUL_SET_LIMIT",
    "WORKLOADS",
    "Actuator",
    "AllowedUser",
    "Apply",
    "Claim",
    "Claims",
    "CloudMember",
    "Component",
    "Context",
    "Drifted",
    "Group",
    "IgnoredFields",
    "Incomplete",
    "InstalledKinds",
    "Judge",
    "Key",
    "Kind",
    "Listens",
    "MemberReports",
    "MissingReference",
    "Node",
    "NotBuilt",
    "Object",
    "Observation",
    "Outcome",
    "Permissions",
    "Plan",
    "Planner",
    "Predecessor",
    "Reader",
    "Referent",
    "Release",
    "Releases",
    "SecretReaders",
    "Service",
    "SpecError",
    "StartTLS",
    "State",
    "Step",
    "Transient",
    "TrustInUse",
    "Verdict",
    "Verdicts",
    "Writer",
    "allowed_elsewhere",
    "allows",
    "carry_out",
    "condition_type",
    "conditions",
    "digest",
    "failed",
    "fitting",
    "ignored_verdict",
    "is_own_service",
    "key",
    "keyed_digest",
    "parse",
    "progressing",
    "recovering",
    "secret_data",
    "shared_fields",
    "single_copy_verdict",
    "unused",
    "waiting",
    "whom_to_ask",
    "with_entry",
    "worst",
    "wrong_entry",
]
