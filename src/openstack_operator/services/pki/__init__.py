"""PKI: the authority that certifies the parts of a cloud to each other."""

from __future__ import annotations

from ...plan import Service, TrustInUse
from .issuer import to_read
from .model import PKI
from .service import is_replacing_authority, needs_served_certificates, plan

SERVICE = Service(
    resource=PKI,
    plan=plan,
    observes=TrustInUse(is_replacing_authority, needs_served_certificates, issuer=to_read),
)
