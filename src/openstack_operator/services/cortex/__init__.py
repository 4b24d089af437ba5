"""Cortex: a scheduler that ranks the hosts which are left for a request of another service."""

from __future__ import annotations

from ...plan import CloudTemplate, Service
from .ignored import ignored
from .model import CORTEX
from .service import plan

SERVICE = Service(
    resource=CORTEX,
    plan=plan,
    template=CloudTemplate(field="cortex", phase="OptionalServices", programs={"cortex-api": "image", "haproxy": ""}),
    ignores=(ignored,),
    # An image of Cortex has its own command.
    has_release_images=False,
)
