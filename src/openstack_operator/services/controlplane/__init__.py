"""OpenStackControlPlane: a whole cloud from one resource."""

from __future__ import annotations

from ...plan import Service
from . import c5c3
from .backup import SCHEDULES
from .c5c3_model import C5C3_CONTROL_PLANE
from .images import ignored
from .model import CONTROL_PLANE
from .service import phase, plan

SERVICE = Service(
    resource=CONTROL_PLANE, plan=plan, observes=SCHEDULES, teardown=True, phases=phase, ignores=(ignored,)
)
C5C3_SERVICE = Service(
    resource=C5C3_CONTROL_PLANE,
    plan=c5c3.plan,
    observes=c5c3.SCHEDULES,
    teardown=True,
    phases=c5c3.phase,
    ignores=(ignored,),
)
"""The same cloud under the names of c5c3."""
