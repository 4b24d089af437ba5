"""OpenStack Keystone: users, projects, tokens and the service catalog."""

from __future__ import annotations

from ...api import KEYSTONE_LOGIN
from ...parts import moving
from ...plan import C5C3, CloudMember, Listens, SecretReaders, Service
from .korc import CLOUDS, ordered_teardown
from .model import KEYSTONE
from .service import plan

SERVICE = Service(
    resource=KEYSTONE,
    plan=plan,
    observes=SecretReaders(moving),
    teardown=ordered_teardown,
    listens=Listens(ports={"api": [5000]}),
    member=CloudMember(field="keystone", phase="Identity"),
    c5c3=C5C3(),
    # Logins of its administrator, for clients.
    shares=dict.fromkeys(("{name}-admin", "{name}-clouds", "{name}-app-credential", CLOUDS), KEYSTONE_LOGIN),
)
