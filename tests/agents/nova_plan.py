"""A Nova whose programs tests run."""

from __future__ import annotations

from typing import Any

from openstack_operator.plan import Plan, Release
from openstack_operator.services.nova.model import NOVA
from openstack_operator.services.nova.service import plan
from openstack_operator.testing import context

_PUBLISHED = {
    "MariaDB": {"host": "mariadb.openstack.svc", "port": "3306"},
    "RabbitMQ": {"host": "rabbitmq.openstack.svc", "port": "5672"},
    "Memcached": {"servers": "memcached-0:11211"},
    "Keystone": {"internalURL": "http://keystone-api:5000/v3", "region": "RegionOne"},
    "Neutron": {"metadataSecret": "neutron-credentials"},
}
_SECRETS = {"neutron-credentials": {"metadata": "shared"}}


def planned_nova(release: Release, nodes: int = 0) -> Plan:
    """The plan of a Nova with so many compute nodes."""
    name = "nova-cell1-compute"
    status = {"desiredNumberScheduled": nodes}
    children: dict[tuple[str, str], Any] = {
        ("DaemonSet", name): {"kind": "DaemonSet", "metadata": {"name": name}, "status": status}
    }
    return plan(context(NOVA, release=release, published=_PUBLISHED, secrets=_SECRETS, children=children))
