"""Memcached: a cache in which services remember tokens for a while."""

from __future__ import annotations

from ...plan import CloudTemplate, Listens, SecretReaders, Service
from .clients import awaits_clients
from .model import MEMCACHED
from .providers import KINDS, ignored, ordered_teardown
from .service import plan

SERVICE = Service(
    resource=MEMCACHED,
    plan=plan,
    observes=SecretReaders(awaits_clients),
    teardown=ordered_teardown,
    listens=Listens(ports={"server": [11211, 11212]}, closed=True),
    template=CloudTemplate(
        field="memcached", phase="Infrastructure", programs={"memcached": "image", "memcached-exporter": ""}
    ),
    kinds=KINDS,
    ignores=(ignored,),
)
