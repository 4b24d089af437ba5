"""Names of the kinds of services that a cloud may run."""

from __future__ import annotations

from typing import NamedTuple


class ServiceKind(NamedTuple):
    """The name of a kind, which other specs may contain."""

    kind: str
    rotates: bool = False
    """True if it has credentials of its own that a CredentialRotation replaces."""
    nodes_obey: bool = False
    """True if programs on nodes take orders from what it runs: its images, options and addresses then need the verb
    `run-on-nodes` (`gives_orders`)."""


SERVICE_KINDS = (
    ServiceKind("MariaDB", nodes_obey=True),
    ServiceKind("RabbitMQ", nodes_obey=True),
    ServiceKind("Memcached", nodes_obey=True),
    ServiceKind("Valkey"),
    ServiceKind("Etcd"),
    ServiceKind("CephStorage"),
    ServiceKind("Keystone", rotates=True, nodes_obey=True),
    ServiceKind("Glance", rotates=True, nodes_obey=True),
    ServiceKind("Placement", rotates=True, nodes_obey=True),
    ServiceKind("OVNNetwork", nodes_obey=True),
    ServiceKind("Neutron", rotates=True, nodes_obey=True),
    ServiceKind("Nova", rotates=True, nodes_obey=True),
    ServiceKind("Cinder", rotates=True, nodes_obey=True),
    ServiceKind("Barbican", rotates=True, nodes_obey=True),
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

OBEYED_SPECS = frozenset({*(f"{each.kind}Spec" for each in SERVICE_KINDS if each.nodes_obey), "OVNClusterSpec"})
"""Names of the specs of these; an OVNCluster is another form of an OVNNetwork."""
