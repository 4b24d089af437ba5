"""Where services meet the engine: every kind the operator serves."""

from __future__ import annotations

from .actuators import ACTUATORS as REMOTES
from .runtime.registry import Actuator, Service
from .services.glance.model import GLANCE
from .services.glance.service import plan as glance
from .services.keystone.model import KEYSTONE
from .services.keystone.service import plan as keystone
from .services.placement.model import PLACEMENT
from .services.placement.service import plan as placement

SERVICES = (
    Service(resource=KEYSTONE, plan=keystone),
    Service(resource=GLANCE, plan=glance),
    Service(resource=PLACEMENT, plan=placement),
)

ACTUATORS = tuple(
    Actuator(resource=remote.resource, ensure=remote.ensure, remove=remote.remove, interval=remote.interval)
    for remote in REMOTES
)
