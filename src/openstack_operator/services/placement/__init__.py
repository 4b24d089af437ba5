"""OpenStack Placement: inventories of resources, and who has claimed them."""

from __future__ import annotations

from ...parts.secrets.rotation import rotation_in_progress
from ...plan import C5C3, CloudTemplate, Listens, SecretReaders, Service
from .model import PLACEMENT
from .service import plan

SERVICE = Service(
    resource=PLACEMENT,
    plan=plan,
    observes=SecretReaders(rotation_in_progress),
    listens=Listens(ports={"api": [8778]}),
    template=CloudTemplate(field="placement", phase="CoreServices", programs={"placement-api": "image"}),
    c5c3=C5C3(),
)
