"""etcd: locks that services on several nodes share."""

from __future__ import annotations

from ...plan import CloudTemplate, Listens, Service
from .model import ETCD
from .service import plan

SERVICE = Service(
    resource=ETCD,
    plan=plan,
    listens=Listens(ports={"server": [2379]}, closed=True, from_nodes=True),
    template=CloudTemplate(field="etcd", phase="Infrastructure", programs={"etcd": "image"}),
)
