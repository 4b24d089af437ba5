"""OpenStack Neutron: networks, routers and floating IPs."""

from __future__ import annotations

from ...parts.connect.broker_move import needs_pods
from ...plan import C5C3, CloudTemplate, Listens, SecretReaders, Service
from .ignored import ignored
from .model import NEUTRON
from .service import plan

SERVICE = Service(
    resource=NEUTRON,
    plan=plan,
    observes=SecretReaders(needs_pods),
    listens=Listens(ports={"api": [9696]}),
    template=CloudTemplate(
        field="neutron",
        phase="CoreServices",
        programs={
            "neutron-api": "image",
            "neutron-rpc-server": "image",
            "neutron-periodic-workers": "image",
            "neutron-ovn-maintenance-worker": "image",
            "neutron-metadata-agent": "metadata_agent.image",
        },
    ),
    c5c3=C5C3(),
    ignores=(ignored,),
)
