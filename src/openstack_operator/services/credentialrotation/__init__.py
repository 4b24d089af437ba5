"""CredentialRotation: orders services to replace credentials."""

from __future__ import annotations

from dataclasses import replace

from ...plan import Service
from .model import C5C3_CREDENTIAL_ROTATION, CREDENTIAL_ROTATION
from .service import phase, plan

SERVICE = Service(resource=CREDENTIAL_ROTATION, plan=plan, phases=phase)
C5C3_SERVICE = replace(SERVICE, resource=C5C3_CREDENTIAL_ROTATION)
