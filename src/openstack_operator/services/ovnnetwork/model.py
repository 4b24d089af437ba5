"""Spec of an OVNNetwork."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from ...api import (
    AgentSettings,
    ClientSecretRef,
    Column,
    ComponentSettings,
    HostAddress,
    Image,
    InterfaceName,
    Labels,
    Model,
    Name,
    PodSettings,
    QuorumReplicas,
    RemoteAccess,
    Resource,
    Resources,
    RunSpec,
    StorageSize,
    UsesMonitoring,
    UsesStorageClass,
    UsesTLS,
    UsesVolume,
    immutable_presence,
    lasting_count,
    rule,
)


class ExternalBridge(Model):
    """The Open vSwitch bridge through which virtual networks meet physical ones."""

    on_nodes = ("address", "interface")

    name: InterfaceName = "br-ex"
    """Name of the bridge. The operator creates it on every node."""
    address: HostAddress | None = None
    """Address of the bridge itself on gateway nodes, with its prefix length: the bridge is then the router of the
    external network. Use it with one gateway node; leave it unset if a physical router has this address."""
    interface: InterfaceName | None = None
    """Network interface of the nodes to add to the bridge. The node cannot use it for other traffic then."""


class Gateway(Model):
    """Nodes where traffic enters and leaves the virtual networks."""

    on_nodes = ("node_selector",)

    node_selector: Labels = {"openstack-gateway": "enabled"}
    """Labels that make a node of `chassis` a gateway, too."""


class ContainerSettings(Model):
    """A container of the pod on each node."""

    on_nodes = ("image",)

    image: Image | None = None
    """Image of the container, that of the release if unset. A change replaces the pods."""
    resources: Resources | None = None
    """Requests and limits of the container. A change replaces the pods."""


class Chassis(AgentSettings):
    """Open vSwitch and ovn-controller on the nodes of the cloud. Both belong to the node, so only one OVNNetwork of a
    Kubernetes cluster can use a node: a second one needs a different nodeSelector or `enabled: false`.
    """

    node_agents = {"enabled": ((True,), True)}

    enabled: bool = True
    """Run Open vSwitch and ovn-controller on nodes. With false, instances cannot connect to the networks."""
    switch_database: ContainerSettings = ContainerSettings()
    """Database of Open vSwitch. `image` and `resources` of `chassis` itself are those of the switch."""
    controller: ContainerSettings = ContainerSettings()
    """ovn-controller, which configures the switch."""


ChassisName = Annotated[str, Field(max_length=64, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
"""Name of a node, as long as a certificate takes it."""


class RemoteChassis(RemoteAccess):
    """Nodes of other Kubernetes clusters that join this OVN, and the Service `<name>-remote` by which they reach the
    southbound database. Needs `tls`.
    """

    nodes: Annotated[
        list[ChassisName], Field(min_length=1, max_length=256, json_schema_extra={"x-kubernetes-list-type": "set"})
    ]
    """Names of these nodes in their cluster. Each gets a certificate in the Secret `<name>-remote-chassis`, and can
    write to the database under that name alone, so no other node of this OVN may have it."""


class ExternalDatabases(Model):
    """Databases of this OVN in another Kubernetes cluster."""

    on_nodes = ("secret_ref",)

    secret_ref: ClientSecretRef
    """Copy of the Secret `<name>-remote-chassis` of the OVNNetwork with the databases: `southbound`, `ca.crt`, and
    `node-NAME.crt` and `node-NAME.key` for each node."""


class Members(PodSettings, UsesStorageClass):
    """A database. An unset field takes the value of the whole OVNNetwork."""

    replicas: QuorumReplicas | None = None
    """Number of members of this database."""
    storage_size: StorageSize | None = None
    """Size of each member's volume. You can increase it if the StorageClass allows it. You cannot decrease it."""
    storage_class_name: Name | None = None
    """StorageClass of the volumes. You cannot change it later."""


class Fabric(UsesMonitoring):
    """Packet switching on nodes, and connections to physical networks."""

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

    northd: ComponentSettings = ComponentSettings()
    """ovn-northd, which translates networks into logical flows. One pod is active, the others are standby. If unset,
    replicas is 2 if a database has several members, else 1."""
    relay: ComponentSettings = ComponentSettings()
    """Copies of the southbound database that nodes read instead of its members. With TLS, at least one relay runs,
    which limits what a node may write. If unset, replicas is 2 if the database has several members, else 1. Without
    TLS, replicas is 0 if unset: nodes read the members. Use relays in clouds of hundreds of nodes."""
    gateway: Gateway = Gateway()
    """Nodes that connect virtual networks to physical ones."""
    datapath: Literal["auto", "system", "netdev"] = "auto"
    """Datapath of Open vSwitch: in the kernel (system) or in userspace (netdev). auto uses the kernel of a node if it
    has the module openvswitch. With netdev, servers on different nodes reach each other only through a
    `tunnelInterface`."""
    encap_type: Literal["geneve"] = "geneve"
    """Protocol of the tunnels between nodes."""
    tunnel_interface: InterfaceName | None = None
    """Network interface of the nodes for the tunnels between them. It needs an address on each node. If unset, tunnels
    use the network of Kubernetes. A switch in userspace takes the interface over and moves its addresses and routes to
    the bridge br-phy, so Kubernetes needs another interface."""
    bridge_mappings: Annotated[dict[str, InterfaceName], Field(max_length=64)] | None = None
    """Bridge of each physical network, by the network's name in Neutron. If unset, physnet1 uses the external bridge.
    The operator creates only the external bridge."""
    external_bridge: ExternalBridge = ExternalBridge()
    """The bridge between virtual and physical networks."""


class OVNNetworkSpec(RunSpec, UsesVolume, UsesTLS, Fabric):
    """OVN: the virtual networks of the cloud, and the switch on every node that implements them."""

    rules = (
        immutable_presence("external", "the place of the databases"),
        rule(
            "!has(self.external) || !has(self.remoteChassis)",
            "set remoteChassis at the OVN with the databases; remove external or remoteChassis",
            ".remoteChassis",
        ),
        rule("!has(self.version) || !has(self.image)", "image and version exclude each other; remove one", ".version"),
    )
    # Fields that `chassis` leaves unset are taken from here.
    on_nodes = ("image", "tolerations")

    version: Annotated[str, Field(max_length=7, pattern=r"^\d{1,3}\.\d{1,3}$")] | None = None
    """Version of OVN, that of the release if unset. It must be one that the release offers. A later version replaces
    ovn-controller on all nodes, then databases and northd; going back needs a backup. It does not include Open
    vSwitch."""
    replicas: QuorumReplicas = 1
    """Number of members of the northbound and of the southbound database. The operator adds or removes one at a time.
    With the image profile kolla, use 1."""
    storage_size: StorageSize = "1Gi"
    """Size of each database member's volume. You can increase it if the StorageClass allows it, not decrease it."""
    northbound: Members = Members()
    """The database of configured networks, which Neutron writes."""
    southbound: Members = Members()
    """The database of flows, which the nodes read."""
    chassis: Chassis = Chassis()
    """Open vSwitch and ovn-controller on the nodes labeled `openvswitch=enabled`."""
    remote_chassis: RemoteChassis | None = None
    """Nodes of other Kubernetes clusters that join this OVN, none if unset."""
    external: ExternalDatabases | None = None
    """Databases in another Kubernetes cluster, whose `remoteChassis` names the nodes of this one: only `chassis` and
    other fields about nodes have an effect. You cannot set or unset it later."""

    def members(self, database: str) -> int:
        """Return the number of members of the northbound (nb) or the southbound (sb) database."""
        return (self.northbound if database == "nb" else self.southbound).replicas or self.replicas

    def default_counts(self, existing: Mapping[str, Any] | None) -> dict[str, Any]:
        # The databases of Kolla's images have one member. Those of a running cloud grow when their user says so, not
        # with an upgrade of the operator.
        return {} if self.image_profile == "kolla" else {"replicas": lasting_count(3, existing)}


OVN_NETWORK = Resource(
    kind="OVNNetwork",
    plural="ovnnetworks",
    spec=OVNNetworkSpec,
    nodes=True,
    columns=(Column("Replicas", ".spec.replicas", "integer"), Column("Datapath", ".spec.datapath")),
)
