"""OpenStack Glance: images instances boot from."""

from __future__ import annotations

from ...parts.secrets.rotation import rotation_in_progress
from ...plan import C5C3, CloudTemplate, Listens, SecretReaders, Service
from .ignored import ignored
from .model import GLANCE
from .programs import programs
from .service import plan

SERVICE = Service(
    resource=GLANCE,
    plan=plan,
    observes=SecretReaders(rotation_in_progress),
    listens=Listens(ports={"api": [9292], "internal-api": [9292]}),
    template=CloudTemplate(field="glance", phase="CoreServices", programs=programs),
    c5c3=C5C3(),
    ignores=(ignored,),
    internal_overrides={"DEFAULT": {"show_image_direct_url": None, "show_multiple_locations": None}},
)
