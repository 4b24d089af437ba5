"""Spec of a Neutron."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from ...api import (
    AgentSettings,
    Column,
    ComponentSettings,
    DesignateRef,
    Hostname,
    HttpApi,
    Model,
    Name,
    NamespacedOVNNetworkRef,
    OptionalNovaRef,
    OVNNetworkRef,
    OVNSecretRef,
    Ref,
    Resource,
    ServiceSpec,
    UsesCache,
    UsesDatabase,
    UsesIdentity,
    UsesLogging,
    UsesMessaging,
    UsesPolicies,
    bounded,
    rule,
    validated,
)

NetworkTypes = Annotated[list[Literal["local", "flat", "vlan", "geneve"]], Field(max_length=8)]
Drivers = Annotated[
    list[Literal["ovn", "logger", "sriovnicswitch", "macvtap", "openvswitch", "l2population"]],
    Field(min_length=1, max_length=6),
]
Words = Annotated[list[Annotated[str, Field(max_length=128, pattern=r"^[^\s,]+$")]], Field(max_length=64)]


class ML2(Model):
    """Types of networks that the ML2 plugin offers."""

    rules = (
        rule(
            # A control plane's template leaves out unset fields.
            "!has(self.tenantNetworkTypes) || !has(self.typeDrivers)"
            " || self.tenantNetworkTypes.all(t, t in self.typeDrivers)",
            "every type in tenantNetworkTypes must be in typeDrivers too",
        ),
    )

    type_drivers: NetworkTypes = ["local", "flat", "vlan", "geneve"]
    """Types of networks that an administrator can create."""
    tenant_network_types: NetworkTypes = ["geneve"]
    """Types of networks for projects. Neutron uses the first one with a free segment."""
    mechanism_drivers: Drivers = ["ovn"]
    """Mechanism drivers of ML2, in this order: ovn, and logger, which logs each call. The others need agents on the
    nodes, which are not supported: a condition reports them."""
    extension_drivers: Words = ["port_security", "dns"]
    """Extension drivers of ML2."""
    flat_networks: Words = ["*"]
    """Physical networks that can have a flat network; * means all of them."""
    network_vlan_ranges: Words = []
    """Physical networks that can have VLANs, with the range of tags for projects: physnet1:100:199."""
    vni_ranges: Annotated[str, bounded(21), Field(pattern=r"^[0-9]+:[0-9]+$")] = "1:8192"
    """Range of Geneve network identifiers: first:last. Every start of Neutron compares them all with the database; for
    65536, this takes a second of CPU per process."""
    max_header_size: Annotated[int, Field(ge=30, le=128)] = 38
    """Bytes to reserve for Geneve's header when Neutron computes a network's MTU."""


_ADDRESS = r"(tcp|ssl):(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?):[0-9]{1,5}"
_CONNECTION = f"^{_ADDRESS}(,{_ADDRESS})*$"

Connection = Annotated[
    str,
    Field(max_length=1024, pattern=_CONNECTION),
    validated(
        rule(
            f"self.matches(r'{_CONNECTION}')",
            "not an OVN connection; write tcp:host:port or ssl:host:port, separated by commas",
        )
    ),
]
"""Addresses of a database of OVN."""


class OVNClusterRef(Model):
    """An OVN in this or another namespace."""

    name: Name
    """Name of the OVNNetwork."""
    namespace: Name | None = None
    """Namespace of the OVNNetwork, that of this resource if unset."""


_OVN = OVNNetworkRef(name="ovn")


class OVN(Model):
    """The OVN that implements the networks: one of this namespace, unless you set its addresses."""

    rules = (
        rule(
            "has(self.nbConnection) == has(self.sbConnection)",
            "Neutron needs both databases of OVN; set nbConnection and sbConnection",
            ".sbConnection",
        ),
        rule(
            "!has(self.ovnNetworkRef) || !(has(self.nbConnection) || has(self.clusterRef))",
            "ovnNetworkRef excludes clusterRef and nbConnection; remove one",
            ".ovnNetworkRef",
        ),
        rule(
            "has(self.tlsSecretRef) == (has(self.nbConnection) && self.nbConnection.contains('ssl:')"
            " || has(self.sbConnection) && self.sbConnection.contains('ssl:'))",
            "ssl: connections and tlsSecretRef go together; set a Secret with tls.crt, tls.key and ca.crt, or use tcp:",
            ".tlsSecretRef",
        ),
    )

    enabled: bool = True
    """Use OVN for the networks. Only true is supported. A condition reports false."""
    ovn_network_ref: OVNNetworkRef | None = None
    """OVNNetwork that this Neutron uses, `ovn` if unset."""
    cluster_ref: OVNClusterRef | None = None
    """The same as ovnNetworkRef. An OVN of another namespace has to allow it by its annotation
    `openstack.k8s.io/allowed-resources`: `NAMESPACE/Neutron/NAME`. Of an OVN in another cluster, set nbConnection and
    sbConnection, too; then nothing else of it is read."""
    nb_connection: Connection | None = None
    """Address of the northbound database of an OVN that this operator does not manage: `tcp:192.0.2.10:6641`. Separate
    the addresses of several members with commas."""
    sb_connection: Connection | None = None
    """Address of the southbound database. The metadata agents on nodes use it, too."""
    tls_secret_ref: OVNSecretRef | None = None
    """Secret with `tls.crt`, `tls.key` and `ca.crt` for connections that begin with `ssl:`."""
    distributed_floating_ips: bool = Field(default=False, alias="distributedFloatingIPs")
    """Send traffic of a floating IP through the node of its server instead of a gateway. Every compute node then needs
    the external bridge."""

    @property
    def network(self) -> Ref | None:
        """Return the OVNNetwork in use; None if the spec has addresses instead."""
        if self.nb_connection:
            return None
        if (at := self.cluster_ref) and at.namespace:
            return NamespacedOVNNetworkRef(name=at.name, namespace=at.namespace)
        return self.ovn_network_ref or (OVNNetworkRef(name=at.name) if at else _OVN)

    def default_refs(self) -> Mapping[str, Any]:
        """Return the default OVNNetwork, if `ovnNetworkRef` does not name one."""
        if self.ovn_network_ref or not self.network:
            return {}
        return {"clusterRef" if self.cluster_ref else "ovnNetworkRef": self.network}


class MetadataAgent(AgentSettings):
    """The agent that serves metadata to instances. It runs on compute nodes; the pod settings of the service do not
    apply to it.
    """

    node_agents = {"enabled": ((True,), True)}

    enabled: bool = True
    """Run the agent. Set false if this cloud has no compute nodes."""
    nova_ref: OptionalNovaRef = OptionalNovaRef(name="nova")
    """Nova whose metadata API the agent uses, and whose certificate it verifies. If metadataHost is set, the agent uses
    that host instead, with plain HTTP."""


class ExternalDNS(Model):
    """The Designate that has the names of floating IPs, and of ports of networks with a `dns_domain`, as records."""

    enabled: bool = True
    """Write records, if designateRef is set."""
    designate_ref: DesignateRef | None = None
    """Designate in which Neutron creates and deletes the records. If unset, Neutron writes none. A control plane sets
    it if its Designate is enabled."""
    reverse_zones: bool = True
    """Create PTR records, too. Neutron creates their zones in the project of the services: `2.0.192.in-addr.arpa.`,
    and /116 of IPv6."""


class NeutronSpec(ServiceSpec, UsesPolicies, UsesLogging, UsesDatabase, UsesMessaging, UsesCache, UsesIdentity):
    """OpenStack Neutron: networks, routers and floating IPs."""

    # The metadata agent has it, too.
    on_nodes = ("config",)

    mechanism: Literal["ovn", "ovs"] = "ovn"
    """Implementation of the networks: only ovn is supported, and a condition reports ovs."""
    ovn: OVN = OVN()
    """OVN of the networks, for mechanism ovn."""
    ml2: ML2 = ML2()
    """Types of networks and drivers of Neutron's plug-in ML2."""
    dns_domain: Annotated[str, Field(max_length=253, pattern=r"^[A-Za-z0-9][-A-Za-z0-9.]*\.$")] = "openstack.internal."
    """DNS domain of the names of ports. It ends with a dot."""
    external_dns: ExternalDNS = ExternalDNS()
    """Records in Designate of the names of ports and floating IPs."""
    metadata_host: Hostname | None = None
    """Host of Nova's metadata API, the one of metadataAgent.novaRef if unset."""
    api: HttpApi = HttpApi()
    """Pods of the Networking API."""
    ovn_maintenance_worker: ComponentSettings = ComponentSettings()
    """The worker that repairs differences between Neutron's database and OVN's."""
    metadata_agent: MetadataAgent = MetadataAgent()
    """The agent that serves metadata to instances."""


NEUTRON = Resource(
    kind="Neutron",
    plural="neutrons",
    spec=NeutronSpec,
    columns=(Column("Mechanism", ".spec.mechanism"), Column("Endpoint", ".status.endpoint")),
)
