"""Nodes of an OVN, one resource each."""

from typing import Annotated, Literal

from pydantic import Field

from ..api import Address, Column, InterfaceName, Model, OVNNetworkRef, PhysicalNetwork, Resource, validated


class BridgeMapping(Model):
    """Physical network, and the bridge by which a node reaches it."""

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
    """Tunnel by which packets travel between nodes."""

    type: Literal["geneve"] = "geneve"
    """Kind of tunnel."""
    ip: Address | None = None
    """Address of the node at which its tunnels end. Unset takes that of the network's tunnel interface, or else of the
    Node in Kubernetes."""


class OVNChassisSpec(Model):
    """A node of an OVN. The operator creates one for each Node that an OVNCluster runs on, with the Node's name, and
    deletes it when the Node is deleted or leaves the cluster. Fields that are set here override the cluster's for this
    node; the node applies them within two minutes, without a restart.
    """

    cluster_ref: OVNNetworkRef = OVNNetworkRef(name="ovn")
    """OVN of this chassis. Written by the operator."""
    hostname: Annotated[str, Field(max_length=253)] = ""
    """Name of the Node. Written by the operator."""
    system_id: Annotated[str, Field(max_length=253)] = ""
    """Name of the node in OVN's databases. Written by the operator: the name of the Node."""
    bridge_mappings: BridgeMappings | None = None
    """Bridges of this node, those of the cluster if unset. An empty list sets none. A bridge that does not exist is
    created without any interface; add the interface on the node."""
    encapsulation: Encapsulation | None = None
    """Tunnel encapsulation of this node, the cluster's if unset."""


class FoundMapping(Model):
    """Physical network, and the bridge that a node reports for it."""

    physical_network: Annotated[str, Field(max_length=255)]
    """Name of the network."""
    bridge: Annotated[str, Field(max_length=255)]
    """Bridge on the node."""


class FoundEncapsulation(Model):
    """Tunnel that a node reports."""

    type: Annotated[str, Field(max_length=63)]
    """Kind of tunnel."""
    ip: Annotated[str, Field(max_length=255)]
    """Address at which its tunnels end."""


class OVNChassisStatus(Model):
    """State of the node in OVN's southbound database."""

    registered_at: Annotated[str, Field(max_length=32)] | None = None
    """Time of the chassis' first registration in OVN's southbound database (RFC 3339). Deleting it there resets the
    time."""
    last_heartbeat: Annotated[str, Field(max_length=32)] | None = None
    """Time of the last answer of its ovn-controller to OVN, in steps of five minutes (RFC 3339). It needs Neutron,
    which sends requests about twice a minute."""
    bridge_mappings: Annotated[list[FoundMapping], Field(max_length=64)] | None = None
    """Bridges that the node reports."""
    encapsulation: FoundEncapsulation | None = None
    """Tunnel that the node reports to other nodes."""


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
