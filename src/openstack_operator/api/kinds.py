"""Names of the kinds of services that a cloud may run."""

from __future__ import annotations

from typing import NamedTuple


class ServiceKind(NamedTuple):
    """The name of a kind, which other specs may contain."""

    kind: str
    rotates: bool = False
    """True if it has credentials of its own that a CredentialRotation replaces."""


SERVICE_KINDS = (
    ServiceKind("MariaDB"),
    ServiceKind("RabbitMQ"),
    ServiceKind("Memcached"),
    ServiceKind("Valkey"),
    ServiceKind("Etcd"),
    ServiceKind("CephStorage"),
    ServiceKind("Keystone", rotates=True),
    ServiceKind("Glance", rotates=True),
    ServiceKind("Placement", rotates=True),
    ServiceKind("OVNNetwork"),
    ServiceKind("Neutron", rotates=True),
    ServiceKind("Nova", rotates=True),
    ServiceKind("Cinder", rotates=True),
    ServiceKind("Barbican", rotates=True),
    ServiceKind("Heat", rotates=True),
    ServiceKind("Horizon"),
    ServiceKind("Designate", rotates=True),
    ServiceKind("Octavia", rotates=True),
    ServiceKind("Cortex"),
    ServiceKind("Tempest"),
)
"""Services of a cloud, in the order in which conditions list them. `services/cloud_services.py` takes the record of
each from the folder of its name."""

ROTATING_KINDS = tuple(each.kind for each in SERVICE_KINDS if each.rotates)
DEPENDENCY_KINDS = (*(each.kind for each in SERVICE_KINDS), "PKI", "SecretAggregate")
"""Kinds whose conditions another resource may wait for."""
