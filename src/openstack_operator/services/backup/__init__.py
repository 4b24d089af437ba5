"""OpenStackBackup, its schedule and OpenStackRestore: a whole cloud in a repository, and back."""

from __future__ import annotations

from ...plan import CloudContents, CloudDatabases, Listens, ServedContents, Service
from . import archives, images, networks, pools, restore, schedule
from .delegated import PHYSICAL_BACKUP
from .model import BACKUP, RESTORE, SCHEDULE
from .service import LEFT_OUT, needs_contents, plan

_DATABASES = ("MariaDB",)
_ORDERS = ("openstack.k8s.io/force-bootstrap", "tempest.openstack.c5c3.io/run-now")
SERVICE = Service(
    resource=BACKUP,
    plan=plan,
    observes=CloudContents(
        needs_contents,
        left_out=LEFT_OUT,
        databases=_DATABASES,
        networks=(networks.KIND,),
        images=(images.KIND,),
        storages=(pools.KIND,),
        identities=("Keystone",),
        orders=_ORDERS,
    ),
    kinds=(PHYSICAL_BACKUP,),
    has_release_images=False,
)
SCHEDULE_SERVICE = Service(
    resource=SCHEDULE,
    plan=schedule.plan,
    observes=CloudDatabases(schedule.needs_databases, _DATABASES, archives.questions),
    # The operator alone asks the programs that archive.
    listens=Listens(closed=True),
    has_release_images=False,
)
RESTORE_SERVICE = Service(
    resource=RESTORE, plan=restore.plan, observes=ServedContents(restore.served, restore.needs_databases, _DATABASES)
)
