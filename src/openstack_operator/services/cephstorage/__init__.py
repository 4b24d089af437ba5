"""CephStorage: pools for volumes, images, disks and backups, in a Ceph of ours or an external one."""

from __future__ import annotations

from ...plan import CloudTemplate, Listens, MemberReports, Service
from .health import WATCHER, questions
from .ignored import ignored
from .model import CEPH_STORAGE
from .programs import programs
from .rook import KINDS
from .service import plan

SERVICE = Service(
    resource=CEPH_STORAGE,
    plan=plan,
    observes=MemberReports(questions),
    # Any port: its daemons take the first ones that are free.
    listens=Listens(ports={"mon": (), "mgr": (), "osd": ()}),
    template=CloudTemplate(field="ceph", phase="Infrastructure", programs=programs),
    kinds=KINDS,
    ignores=(ignored,),
    dispensable=(f"-{WATCHER}",),
)
