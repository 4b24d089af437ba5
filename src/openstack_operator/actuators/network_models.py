"""Nodes of an OVN, one resource each."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ..api import Address, Column, InterfaceName, Model, OVNNetworkRef, PhysicalNetwork, Resource, validated


class BridgeMapping(Model):
    """A physical network, and how a node reaches it."""

    physical_network: PhysicalNetwork
    """Name of the network in Neutron."""
    bridge: InterfaceName
    """Bridge of Open vSwitch on the node."""


BridgeMappings = Annotated[
    list[BridgeMapping],
    Field(max_length=64),
    validated(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["physicalNetwork"]}),
]


class Encapsulation(Model):
    """How packets travel between nodes."""

    type: Literal["geneve"] = "geneve"
    """Kind of tunnel."""
    ip: Address | None = None
    """Address of the node at which its tunnels end; unset is the one all nodes have theirs by."""


class OVNChassisSpec(Model):
    """A node of an OVN. The operator makes one for each Node that an OVNCluster runs on, called as that; it goes when
    the Node goes, or is none of the cluster's any more. What is set here holds for this node, in place of what the
    cluster says; the node takes it over within two minutes, without a restart."""

    cluster_ref: OVNNetworkRef = OVNNetworkRef(name="ovn")
    """OVN it belongs to. Written by the operator."""
    hostname: Annotated[str, Field(max_length=253)] = ""
    """Name of the Node. Written by the operator."""
    system_id: Annotated[str, Field(max_length=253)] = ""
    """What the node is called in OVN's databases. Written by the operator: the name of the Node."""
    bridge_mappings: BridgeMappings | None = None
    """Bridges of this node; unset are the cluster's, and an empty list is none. A bridge that is not there is made,
    with nothing in it: which interface belongs into it is the node's matter."""
    encapsulation: Encapsulation | None = None
    """How packets reach this node; unset is as the cluster says."""


class FoundMapping(Model):
    """A physical network, and how a node says it reaches it."""

    physical_network: Annotated[str, Field(max_length=255)]
    """Name of the network."""
    bridge: Annotated[str, Field(max_length=255)]
    """Bridge on the node."""


class FoundEncapsulation(Model):
    """How a node says it is reached."""

    type: Annotated[str, Field(max_length=63)]
    """Kind of tunnel."""
    ip: Annotated[str, Field(max_length=255)]
    """Address at which its tunnels end."""


class OVNChassisStatus(Model):
    """What OVN's southbound database knows of the node."""

    registered_at: Annotated[str, Field(max_length=32)] | None = None
    """When the operator first found it there (RFC 3339); anew when it was removed meanwhile."""
    last_heartbeat: Annotated[str, Field(max_length=32)] | None = None
    """When its ovn-controller last answered OVN, in steps of five minutes (RFC 3339): Neutron asks about twice a
    minute, and nobody without it."""
    bridge_mappings: Annotated[list[FoundMapping], Field(max_length=64)] | None = None
    """Bridges it has told of."""
    encapsulation: FoundEncapsulation | None = None
    """How it has told others to reach it."""


CHASSIS = Resource(
    kind="OVNChassis",
    plural="ovnchassis",
    group="ovn.c5c3.io",
    spec=OVNChassisSpec,
    status=OVNChassisStatus,
    nodes=True,
    of_node=True,
    columns=(
        Column("Connected", '.status.conditions[?(@.type=="OVSConnected")].status'),
        Column("IP", ".status.encapsulation.ip"),
        Column("Heartbeat", ".status.lastHeartbeat", "date"),
    ),
)
