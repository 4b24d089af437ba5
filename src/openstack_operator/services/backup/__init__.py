"""OpenStackBackup and OpenStackRestore: a whole cloud in a repository, and back."""

from __future__ import annotations

from ...plan import CloudContents, ServedContents, Service
from . import networks, restore
from .model import BACKUP, RESTORE
from .service import LEFT_OUT, needs_contents, plan

_ORDERS = ("openstack.k8s.io/force-bootstrap", "tempest.openstack.c5c3.io/run-now")
SERVICE = Service(
    resource=BACKUP,
    plan=plan,
    observes=CloudContents(
        needs_contents,
        left_out=LEFT_OUT,
        databases=("MariaDB",),
        networks=(networks.KIND,),
        identities=("Keystone",),
        orders=_ORDERS,
    ),
    has_release_images=False,
)
RESTORE_SERVICE = Service(resource=RESTORE, plan=restore.plan, observes=ServedContents(restore.served))
