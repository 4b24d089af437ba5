"""RabbitMQ: the broker through which services send their RPC."""

from __future__ import annotations

from ...plan import CloudTemplate, Listens, Service
from .model import RABBITMQ
from .providers import KINDS, ignored, ordered_teardown
from .service import plan

SERVICE = Service(
    resource=RABBITMQ,
    plan=plan,
    teardown=ordered_teardown,
    listens=Listens(ports={"server": [5671, 5672]}, closed=True, open_to_nodes=True),
    template=CloudTemplate(field="rabbitmq", phase="Infrastructure", programs={"rabbitmq": "image"}),
    kinds=KINDS,
    ignores=(ignored,),
)
