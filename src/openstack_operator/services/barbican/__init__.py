"""OpenStack Barbican: secrets, keys and certificates of users and of other services."""

from __future__ import annotations

from ...plan import CloudTemplate, Listens, SecretReaders, Service
from .model import BARBICAN
from .service import needs_pods, plan

SERVICE = Service(
    resource=BARBICAN,
    plan=plan,
    observes=SecretReaders(needs_pods),
    listens=Listens(ports={"api": [9311]}),
    template=CloudTemplate(
        field="barbican",
        phase="OptionalServices",
        description="Secrets, keys and certificates of users and of other services.",
        programs={"barbican-api": "image", "barbican-worker": "image"},
    ),
)
