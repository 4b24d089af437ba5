"""OpenStack Cinder: volumes, their snapshots and backups."""

from __future__ import annotations

from ...parts.connect.broker_move import needs_pods
from ...plan import C5C3, CloudTemplate, Listens, SecretReaders, Service
from .c5c3 import plan as c5c3_plan
from .ignored import ignored
from .model import CINDER, C5C3CinderStatus
from .service import plan

SERVICE = Service(
    resource=CINDER,
    plan=plan,
    observes=SecretReaders(needs_pods),
    listens=Listens(ports={"api": [8776]}),
    template=CloudTemplate(
        field="cinder",
        phase="ComputeAndStorage",
        programs={
            "cinder-api": "image",
            "cinder-scheduler": "image",
            "cinder-volume": "image",
            "cinder-backup": "image",
            "tgtd": "",
            "iscsid": "",
        },
    ),
    c5c3=C5C3(plan=c5c3_plan, status=C5C3CinderStatus),
    ignores=(ignored,),
)
