"""OpenStack Horizon: the dashboard, a web page for the users and administrators of a cloud."""

from __future__ import annotations

from ...plan import CloudTemplate, Listens, Service
from .ignored import ignored
from .model import HORIZON
from .service import plan
from .settings import PORT

SERVICE = Service(
    resource=HORIZON,
    plan=plan,
    listens=Listens(ports={"api": [PORT]}),
    template=CloudTemplate(
        field="horizon",
        phase="OptionalServices",
        description="The dashboard: a web page for the users and administrators of the cloud.",
        programs={"horizon-api": "image"},
    ),
    ignores=(ignored,),
)
