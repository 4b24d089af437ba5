"""MariaDB: the SQL server in which every service keeps its state."""

from __future__ import annotations

from ...plan import CloudTemplate, Listens, MemberReports, Service
from .handshake import start_tls
from .model import MARIADB
from .providers import KINDS, ignored
from .roles import questions
from .service import plan

SERVICE = Service(
    resource=MARIADB,
    plan=plan,
    observes=MemberReports(questions),
    listens=Listens(ports={"server": [3306]}, closed=True, from_nodes=True),
    start_tls={"mysql": start_tls},
    template=CloudTemplate(
        field="mariadb", phase="Infrastructure", programs={"mariadb": "image", "mariadb-exporter": ""}
    ),
    kinds=KINDS,
    ignores=(ignored,),
)
