"""OpenStack Octavia: load balancers, carried out by OVN on the nodes."""

from __future__ import annotations

from ...parts.connect.broker_move import needs_pods
from ...plan import CloudTemplate, Listens, SecretReaders, Service
from .config import PORT
from .model import OCTAVIA
from .service import plan

SERVICE = Service(
    resource=OCTAVIA,
    plan=plan,
    observes=SecretReaders(needs_pods),
    listens=Listens(ports={"api": [PORT]}),
    template=CloudTemplate(
        field="octavia",
        phase="OptionalServices",
        description="Load balancers for TCP, UDP and SCTP, implemented by OVN on the nodes.",
        programs={
            "octavia-api": "image",
            "octavia-driver-agent": "",
            "octavia-worker": "",
            "octavia-health-manager": "",
            "octavia-housekeeping": "",
        },
    ),
)
