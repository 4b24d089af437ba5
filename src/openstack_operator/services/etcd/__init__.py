"""etcd: locks that services on several nodes share."""

from __future__ import annotations

from ...plan import CloudMember, Listens, Service
from .model import ETCD
from .service import plan

SERVICE = Service(
    resource=ETCD,
    plan=plan,
    listens=Listens(ports={"server": [2379]}, closed=True, from_nodes=True),
    member=CloudMember(field="etcd", phase="Infrastructure", programs={"etcd": "image"}),
)
