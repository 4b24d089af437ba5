"""Registry of every kind the operator serves: the place where services meet the engine."""

from __future__ import annotations

from dataclasses import replace

from .actuators import ACTUATORS as REMOTES
from .parts import moving
from .runtime.asking import member_probe
from .runtime.readers import secret_consumers
from .runtime.registry import Actuator, Service
from .runtime.users import tls_observer
from .services.cephstorage.health import questions as ceph_status
from .services.cephstorage.model import CEPH_STORAGE
from .services.cephstorage.service import plan as ceph_storage
from .services.cinder.c5c3 import plan as c5c3_cinder
from .services.cinder.model import CINDER, C5C3CinderStatus
from .services.cinder.service import plan as cinder
from .services.controlplane.c5c3 import API_NAMES as C5C3
from .services.controlplane.c5c3 import phase as c5c3_phase
from .services.controlplane.c5c3 import plan as c5c3_cloud
from .services.controlplane.c5c3_model import C5C3_CONTROL_PLANE
from .services.controlplane.model import CONTROL_PLANE
from .services.controlplane.service import phase as cloud_phase
from .services.controlplane.service import plan as cloud
from .services.cortex.model import CORTEX
from .services.cortex.service import plan as cortex
from .services.credentialrotation.model import CREDENTIAL_ROTATION
from .services.credentialrotation.service import phase as rotation_phase
from .services.credentialrotation.service import plan as credential_rotation
from .services.etcd.model import ETCD
from .services.etcd.service import plan as etcd
from .services.glance.model import GLANCE
from .services.glance.service import plan as glance
from .services.keystone.korc import ordered_teardown as after_korc
from .services.keystone.model import KEYSTONE
from .services.keystone.service import plan as keystone
from .services.mariadb.model import MARIADB
from .services.mariadb.roles import questions as mariadb_members
from .services.mariadb.service import plan as mariadb
from .services.memcached.clients import awaits_clients
from .services.memcached.model import MEMCACHED
from .services.memcached.providers import ordered_teardown as ordered_memcached
from .services.memcached.service import plan as memcached
from .services.neutron.model import NEUTRON
from .services.neutron.service import plan as neutron
from .services.nova.model import NOVA
from .services.nova.service import plan as nova
from .services.ovnnetwork.cluster import plan as ovn_cluster
from .services.ovnnetwork.cluster_model import OVN_CLUSTER
from .services.ovnnetwork.model import OVN_NETWORK
from .services.ovnnetwork.recovery import questions as ovn_members
from .services.ovnnetwork.service import plan as ovn_network
from .services.pki.model import PKI
from .services.pki.service import is_replacing_authority, needs_served_certificates
from .services.pki.service import plan as pki
from .services.placement.model import PLACEMENT
from .services.placement.service import plan as placement
from .services.rabbitmq.model import RABBITMQ
from .services.rabbitmq.providers import ordered_teardown as ordered_rabbitmq
from .services.rabbitmq.service import plan as rabbitmq
from .services.secretaggregate.model import SECRET_AGGREGATE
from .services.secretaggregate.service import plan as secret_aggregate
from .services.tempest.model import TEMPEST
from .services.tempest.service import plan as tempest
from .services.valkey.model import VALKEY
from .services.valkey.service import plan as valkey

_SERVICES = (
    Service(resource=CONTROL_PLANE, plan=cloud, teardown=True, phases=cloud_phase),
    Service(resource=PKI, plan=pki, observe=tls_observer(is_replacing_authority, needs_served_certificates)),
    Service(resource=MARIADB, plan=mariadb, observe=member_probe(mariadb_members)),
    Service(resource=RABBITMQ, plan=rabbitmq, teardown=ordered_rabbitmq),
    Service(resource=MEMCACHED, plan=memcached, observe=secret_consumers(awaits_clients), teardown=ordered_memcached),
    Service(resource=VALKEY, plan=valkey),
    Service(resource=ETCD, plan=etcd),
    Service(resource=CEPH_STORAGE, plan=ceph_storage, observe=member_probe(ceph_status)),
    Service(resource=KEYSTONE, plan=keystone, observe=secret_consumers(moving), teardown=after_korc),
    Service(resource=GLANCE, plan=glance, observe=secret_consumers(moving)),
    Service(resource=PLACEMENT, plan=placement, observe=secret_consumers(moving)),
    Service(resource=OVN_NETWORK, plan=ovn_network, observe=member_probe(ovn_members)),
    Service(resource=NEUTRON, plan=neutron, observe=secret_consumers(moving)),
    Service(resource=NOVA, plan=nova, observe=secret_consumers(moving)),
    Service(resource=CINDER, plan=cinder, observe=secret_consumers(moving)),
    Service(resource=CORTEX, plan=cortex),
    Service(resource=TEMPEST, plan=tempest),
    Service(resource=CREDENTIAL_ROTATION, plan=credential_rotation, phases=rotation_phase),
    Service(resource=SECRET_AGGREGATE, plan=secret_aggregate),
)
_AS_C5C3 = {
    "Cinder": Service(
        resource=replace(CINDER, status=C5C3CinderStatus), plan=c5c3_cinder, observe=secret_consumers(moving)
    ),
}
"""Services that differ under the names of c5c3, by kind."""
_SECOND = tuple(
    replace(each, resource=replace(each.resource, group=C5C3.groups[each.resource.kind], short_names=(), as_c5c3=True))
    for each in (_AS_C5C3.get(service.resource.kind, service) for service in _SERVICES)
    if C5C3.groups.get(each.resource.kind, each.resource.group) != each.resource.group
)
"""The same models and plans, served under the names of c5c3."""
SERVICES = (
    *_SERVICES,
    Service(resource=C5C3_CONTROL_PLANE, plan=c5c3_cloud, teardown=True, phases=c5c3_phase),
    *_SECOND,
    # Its objects for Nodes belong to the Nodes, and would not go with it.
    Service(resource=OVN_CLUSTER, plan=ovn_cluster, observe=member_probe(ovn_members), teardown=True),
)

ACTUATORS = tuple(
    Actuator(
        resource=remote.resource,
        ensure=remote.ensure,
        remove=remote.remove,
        observe=remote.observe,
        interval=remote.interval,
        external_kind=remote.beside,
        claims=remote.claims,
    )
    for remote in REMOTES
)

RESOURCES = tuple(entry.resource for entry in (*SERVICES, *ACTUATORS))
"""Every kind, in the order users meet them."""
