"""SecretAggregate: keys of several Secrets in one."""

from __future__ import annotations

from ...plan import Service
from .model import SECRET_AGGREGATE
from .service import collected, plan

SERVICE = Service(resource=SECRET_AGGREGATE, plan=plan, collects=collected)
