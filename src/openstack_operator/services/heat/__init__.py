"""OpenStack Heat: stacks of servers, networks, volumes and other resources, from templates."""

from __future__ import annotations

from ...parts.connect.broker_move import needs_pods
from ...plan import CloudTemplate, Listens, SecretReaders, Service
from .config import API_PORT, CFN, CFN_PORT
from .model import HEAT
from .service import plan

SERVICE = Service(
    resource=HEAT,
    plan=plan,
    observes=SecretReaders(needs_pods),
    listens=Listens(ports={"api": [API_PORT], CFN: [CFN_PORT]}),
    template=CloudTemplate(
        field="heat",
        phase="OptionalServices",
        description="Orchestration: stacks of servers, networks, volumes and other resources, from templates.",
        programs={"heat-api": "image", "heat-api-cfn": "image", "heat-engine": "image"},
    ),
)
