"""What users write to get an OVNNetwork."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...api import (
    AgentSettings,
    Column,
    Component,
    HostAddress,
    Image,
    InterfaceName,
    Labels,
    Model,
    Name,
    PodSettings,
    QuorumReplicas,
    Resource,
    Resources,
    RunSpec,
    StorageSize,
    UsesStorageClass,
    UsesTLS,
    UsesVolume,
    rule,
)


class ExternalBridge(Model):
    """The Open vSwitch bridge through which virtual networks meet physical ones."""

    on_nodes = ("address", "interface")

    name: InterfaceName = "br-ex"
    """Name of the bridge; made on every node."""
    address: HostAddress | None = None
    """Address the bridge itself bears on gateway nodes, with its prefix length: the router of the external network
    where no physical one is there. For one gateway node; unset where a physical router has it."""
    interface: InterfaceName | None = None
    """Network interface of the nodes to put into the bridge. It carries nothing else from then on."""


class Gateway(Model):
    """Nodes where traffic enters and leaves the virtual networks."""

    on_nodes = ("node_selector",)

    node_selector: Labels = {"openstack-gateway": "enabled"}
    """Labels by which a node of the chassis is a gateway as well."""


class Program(Model):
    """A container of a node's pod."""

    on_nodes = ("image",)

    image: Image | None = None
    """Image to run instead of the release's."""
    resources: Resources | None = None
    """Requests and limits."""


class Chassis(AgentSettings):
    """Open vSwitch and ovn-controller on the nodes of the cloud. Both belong to the node, so only one OVNNetwork of a
    Kubernetes cluster may use a node: a second one needs a nodeSelector of its own or `enabled: false`."""

    enabled: bool = True
    """Whether any nodes are used. Without, there are networks but nothing that runs instances can reach them."""
    switch_database: Program = Program()
    """Open vSwitch's own database. `image` and `resources` beside it are those of the switch."""
    controller: Program = Program()
    """ovn-controller, which tells the switch what to do."""


class Members(PodSettings, UsesStorageClass):
    """A database. What is unset here is as for both."""

    replicas: QuorumReplicas | None = None
    """Its members."""
    storage_size: StorageSize | None = None
    """Size of each member's volume; may grow where the StorageClass allows it, never shrink."""
    storage_class_name: Name | None = None
    """StorageClass of the volumes. Cannot be changed later."""


class Fabric(Model):
    """How nodes switch packets, and where these leave them."""

    on_nodes = ("tunnel_interface",)
    rules = (
        rule(
            "!has(self.tunnelInterface) || !has(self.externalBridge) || !has(self.externalBridge.interface)"
            " || self.tunnelInterface != self.externalBridge.interface",
            "tunnelInterface must be another interface than externalBridge.interface",
        ),
        rule(
            "!has(self.externalBridge) || !has(self.externalBridge.name) || self.externalBridge.name != 'br-phy'",
            "externalBridge.name must not be br-phy, which is the bridge of tunnelInterface",
        ),
    )

    northd: Component = Component()
    """Turns networks into flows. One pod works, further ones stand by; unset replicas are 2 where a database has more
    than one member."""
    relay: Component = Component()
    """Copies of the southbound database that nodes read instead of its members. With TLS there is at least one, which
    lets a node change the rows of its own chassis only; unset replicas are 2 where the database has several members.
    Without TLS, unset replicas are 0: nodes read the members. Use relays in clouds of hundreds of nodes."""
    gateway: Gateway = Gateway()
    """Which of these nodes connect virtual networks to physical ones."""
    datapath: Literal["auto", "system", "netdev"] = "auto"
    """Where packets are switched: in the kernel (system) or in Open vSwitch's own process (netdev). auto takes the
    kernel's where it has one. Without the kernel's, servers on different nodes reach each other only through a
    `tunnelInterface`."""
    encap_type: Literal["geneve"] = "geneve"
    """How packets travel between nodes."""
    tunnel_interface: InterfaceName | None = None
    """Network interface of the nodes through which packets travel between them; it has an address on each. Unset, they
    take the way Kubernetes takes. A switch in userspace owns it: the bridge br-phy bears its addresses and routes from
    then on, so that Kubernetes needs another one."""
    bridge_mappings: Annotated[dict[str, InterfaceName], Field(max_length=64)] | None = None
    """Bridge of each physical network, by the network's name in Neutron; unset maps physnet1 to the external bridge.
    Of these bridges only the external one is made here."""
    external_bridge: ExternalBridge = ExternalBridge()
    """The bridge through which virtual networks meet physical ones."""


class OVNNetworkSpec(RunSpec, UsesVolume, UsesTLS, Fabric):
    """OVN: the virtual networks of the cloud, and the switch on every node that carries them out."""

    # What `chassis` leaves unset is taken from here.
    on_nodes = ("image", "tolerations")

    replicas: QuorumReplicas = 1
    """Members of the northbound and of the southbound database. A change adds or takes away one at a time; images of
    the profile kolla are built for one only."""
    storage_size: StorageSize = "1Gi"
    """Size of each database member's volume; may grow where the StorageClass allows it, never shrink."""
    northbound: Members = Members()
    """The database of wanted networks, which Neutron writes."""
    southbound: Members = Members()
    """The database of flows, which the nodes read."""
    chassis: Chassis = Chassis()
    """Open vSwitch and ovn-controller on the nodes labeled `openvswitch=enabled`."""

    def members(self, database: str) -> int:
        """How many the northbound (nb) or the southbound (sb) database is to have."""
        return (self.northbound if database == "nb" else self.southbound).replicas or self.replicas


OVN_NETWORK = Resource(
    kind="OVNNetwork",
    plural="ovnnetworks",
    spec=OVNNetworkSpec,
    columns=(Column("Replicas", ".spec.replicas", "integer"), Column("Datapath", ".spec.datapath")),
)
