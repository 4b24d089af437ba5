"""Valkey: a store in memory; sentinels replace its primary when it fails."""

from __future__ import annotations

from ...plan import CloudTemplate, Listens, Service
from .model import VALKEY
from .programs import programs
from .providers import KINDS, ignored
from .service import plan

SERVICE = Service(
    resource=VALKEY,
    plan=plan,
    listens=Listens(closed=True),
    template=CloudTemplate(field="valkey", phase="Infrastructure", programs=programs),
    kinds=KINDS,
    ignores=(ignored,),
)
