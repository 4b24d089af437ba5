"""OpenStack Barbican: secrets, keys and certificates of users and of other services."""

from __future__ import annotations

from ...parts import moving
from ...plan import CloudMember, Listens, SecretReaders, Service
from .model import BARBICAN
from .service import plan

SERVICE = Service(
    resource=BARBICAN,
    plan=plan,
    observes=SecretReaders(moving),
    listens=Listens(ports={"api": [9311]}),
    member=CloudMember(
        field="barbican",
        phase="OptionalServices",
        description="Secrets, keys and certificates of users and of other services.",
    ),
)
