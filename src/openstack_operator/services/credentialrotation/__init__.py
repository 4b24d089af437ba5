"""CredentialRotation: orders services to replace credentials."""

from __future__ import annotations

from ...plan import Service
from .model import CREDENTIAL_ROTATION
from .service import phase, plan

SERVICE = Service(resource=CREDENTIAL_ROTATION, plan=plan, phases=phase)
