"""OpenStack Designate: zones and records of DNS, and the servers that answer for them."""

from __future__ import annotations

from ...parts.connect.broker_move import needs_pods
from ...plan import CloudTemplate, Listens, SecretReaders, Service
from .config import API_PORT
from .ignored import ignored
from .model import DESIGNATE
from .programs import programs
from .service import plan

SERVICE = Service(
    resource=DESIGNATE,
    plan=plan,
    observes=SecretReaders(needs_pods),
    listens=Listens(ports={"api": [API_PORT]}),
    template=CloudTemplate(
        field="designate",
        phase="OptionalServices",
        description="DNS as a service: zones and records, and the servers that answer for them.",
        programs=programs,
    ),
    ignores=(ignored,),
)
