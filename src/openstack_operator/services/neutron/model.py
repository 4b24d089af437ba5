"""What users write to get a Neutron."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from ...api import (
    AgentSettings,
    Column,
    Component,
    Hostname,
    HttpApi,
    Model,
    Name,
    OptionalNovaRef,
    OVNNetworkRef,
    Resource,
    SecretRef,
    ServiceSpec,
    UsesCache,
    UsesDatabase,
    UsesIdentity,
    UsesMessaging,
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
    """Kinds of networks the ML2 plugin offers."""

    rules = (
        rule(
            # A control plane's template leaves out what is not set.
            "!has(self.tenantNetworkTypes) || !has(self.typeDrivers)"
            " || self.tenantNetworkTypes.all(t, t in self.typeDrivers)",
            "every type in tenantNetworkTypes must be in typeDrivers too",
        ),
    )

    type_drivers: NetworkTypes = ["local", "flat", "vlan", "geneve"]
    """Types of networks an administrator may make."""
    tenant_network_types: NetworkTypes = ["geneve"]
    """Types of networks a project gets, the first one that has room."""
    mechanism_drivers: Drivers = ["ovn"]
    """Mechanism drivers of ML2, in their order: ovn, and logger, which writes down each call. The others need agents on
    the nodes that are not built yet, which is answered with a condition."""
    extension_drivers: Words = ["port_security", "dns"]
    """ML2 extensions."""
    flat_networks: Words = ["*"]
    """Physical networks that may carry a flat network; * stands for all of them."""
    network_vlan_ranges: Words = []
    """Physical networks that may carry VLANs, with the tags projects get: physnet1:100:199."""
    vni_ranges: Annotated[str, bounded(21), Field(pattern=r"^[0-9]+:[0-9]+$")] = "1:8192"
    """Geneve network identifiers to hand out: first:last. Every start of Neutron compares them all with the database: a
    second of CPU a process for 65536."""
    max_header_size: Annotated[int, Field(ge=30, le=128)] = 38
    """Bytes kept free for Geneve's header when a network's MTU is computed."""


_ADDRESS = r"(tcp|ssl):(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?):[0-9]{1,5}"
_CONNECTION = f"^{_ADDRESS}(,{_ADDRESS})*$"

Connection = Annotated[
    str,
    Field(max_length=1024, pattern=_CONNECTION),
    validated(
        rule(
            f"self.matches(r'{_CONNECTION}')",
            "not a connection of OVN; write tcp:host:port or ssl:host:port, several with commas between them",
        )
    ),
]
"""Where a database of OVN answers."""


class OVNClusterRef(Model):
    """An OVN, of this namespace or of another one."""

    name: Name
    """Name of the OVNNetwork."""
    namespace: Name | None = None
    """Its namespace; unset is this one."""


_OVN = OVNNetworkRef(name="ovn")


class OVN(Model):
    """The OVN that carries the networks out: one of this namespace, unless connections say where it answers."""

    rules = (
        rule(
            "has(self.nbConnection) == has(self.sbConnection)",
            "Neutron needs both databases of OVN; set nbConnection and sbConnection",
            ".sbConnection",
        ),
        rule(
            "!has(self.ovnNetworkRef) || !(has(self.nbConnection) || has(self.clusterRef))",
            "an OVN is named once; keep ovnNetworkRef, or clusterRef or connections in its place",
            ".ovnNetworkRef",
        ),
        rule(
            "!has(self.clusterRef) || !has(self.clusterRef.namespace) || has(self.nbConnection)",
            "what an OVN of another namespace publishes is not read; write its addresses in nbConnection and "
            "sbConnection",
            ".clusterRef.namespace",
        ),
        rule(
            "has(self.tlsSecretRef) == (has(self.nbConnection) && self.nbConnection.contains('ssl:')"
            " || has(self.sbConnection) && self.sbConnection.contains('ssl:'))",
            "a connection by ssl: needs the Secret with tls.crt, tls.key and ca.crt that OVN trusts, and nothing else "
            "does",
            ".tlsSecretRef",
        ),
    )

    enabled: bool = True
    """Whether OVN carries the networks out. Nothing else is built yet: false is answered with a condition."""
    ovn_network_ref: OVNNetworkRef | None = None
    """OVNNetwork this Neutron drives; unset is the one called `ovn`."""
    cluster_ref: OVNClusterRef | None = None
    """The same in other words. For one of another namespace the connections have to say where it answers; nothing is
    read of it."""
    nb_connection: Connection | None = None
    """Where the northbound database answers, of an OVN that nobody here looks after: `tcp:192.0.2.10:6641`, and each of
    several members with a comma between them."""
    sb_connection: Connection | None = None
    """Where the southbound database answers; for the metadata agents on nodes, too."""
    tls_secret_ref: SecretRef | None = None
    """Secret with `tls.crt`, `tls.key` and `ca.crt`, which is shown where a connection is by `ssl:`."""
    distributed_floating_ips: bool = Field(default=False, alias="distributedFloatingIPs")
    """Traffic of a floating IP leaves at its server's own node instead of a gateway; every compute node then needs
    the external bridge."""

    @property
    def network(self) -> OVNNetworkRef | None:
        """The OVNNetwork in use; None where connections say where it answers."""
        far = self.cluster_ref and self.cluster_ref.namespace
        if self.nb_connection or far:
            return None
        return self.ovn_network_ref or (OVNNetworkRef(name=self.cluster_ref.name) if self.cluster_ref else _OVN)

    def implied(self) -> Mapping[str, Any]:
        """The OVNNetwork that is meant where `ovnNetworkRef` does not name it."""
        if self.ovn_network_ref or not self.network:
            return {}
        return {"clusterRef" if self.cluster_ref else "ovnNetworkRef": self.network}


class MetadataAgent(AgentSettings):
    """The agent that hands instances their metadata. It runs on compute nodes, where nothing of the service's own pod
    settings applies."""

    enabled: bool = True
    """False where this cloud has no compute nodes of its own."""
    nova_ref: OptionalNovaRef = OptionalNovaRef(name="nova")
    """Nova whose metadata API it asks, and by whose certificate it checks it; where metadataHost is set, that one is
    asked instead, in plain HTTP."""


class NeutronSpec(ServiceSpec, UsesDatabase, UsesMessaging, UsesCache, UsesIdentity):
    """OpenStack Neutron: networks, routers and floating IPs."""

    # The metadata agent has it, too.
    on_nodes = ("config",)

    mechanism: Literal["ovn", "ovs"] = "ovn"
    """What carries the networks out, of which ovs is answered with a condition: only ovn is built yet."""
    ovn: OVN = OVN()
    """Settings of mechanism ovn."""
    ml2: ML2 = ML2()
    """Kinds of networks."""
    dns_domain: Annotated[str, Field(max_length=253, pattern=r"^[A-Za-z0-9][-A-Za-z0-9.]*\.$")] = "openstack.internal."
    """Domain of the names ports get; ends with a dot."""
    metadata_host: Hostname | None = None
    """Where Nova's metadata API answers; unset takes that of metadataAgent.novaRef."""
    api: HttpApi = HttpApi()
    """The Networking API."""
    ovn_maintenance_worker: Component = Component()
    """The worker that repairs differences between Neutron's database and OVN's."""
    metadata_agent: MetadataAgent = MetadataAgent()
    """The agent that hands instances their metadata."""


NEUTRON = Resource(
    kind="Neutron",
    plural="neutrons",
    spec=NeutronSpec,
    columns=(Column("Mechanism", ".spec.mechanism"), Column("Endpoint", ".status.endpoint")),
)
