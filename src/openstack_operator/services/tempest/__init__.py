"""Tempest: repeated tests of a cloud through its APIs, and their results."""

from __future__ import annotations

from ...plan import CloudTemplate, Service
from .model import TEMPEST
from .service import plan

SERVICE = Service(
    resource=TEMPEST,
    plan=plan,
    template=CloudTemplate(field="tempest", phase="OptionalServices", programs={"tempest": "image"}),
)
