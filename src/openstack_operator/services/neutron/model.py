"""What users write to get a Neutron."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...api import (
    Column,
    Component,
    Hostname,
    HttpApi,
    Model,
    OptionalNovaRef,
    OVNNetworkRef,
    PodSettings,
    Resource,
    ServiceSpec,
    UsesCache,
    UsesDatabase,
    UsesIdentity,
    UsesMessaging,
    rule,
)

NetworkTypes = Annotated[list[Literal["local", "flat", "vlan", "geneve"]], Field(max_length=8)]
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
    extension_drivers: Words = ["port_security", "dns"]
    """ML2 extensions."""
    flat_networks: Words = ["*"]
    """Physical networks that may carry a flat network; * stands for all of them."""
    network_vlan_ranges: Words = []
    """Physical networks that may carry VLANs, with the tags projects get: physnet1:100:199."""
    vni_ranges: Annotated[str, Field(pattern=r"^[0-9]+:[0-9]+$")] = "1:8192"
    """Geneve network identifiers to hand out: first:last. Every start of Neutron compares them all with the database: a
    second of CPU a process for 65536."""
    max_header_size: Annotated[int, Field(ge=30, le=128)] = 38
    """Bytes kept free for Geneve's header when a network's MTU is computed."""


class OVN(Model):
    """The OVN that carries the networks out."""

    ovn_network_ref: OVNNetworkRef = OVNNetworkRef(name="ovn")
    """OVN this Neutron drives."""
    distributed_floating_ips: bool = Field(default=False, alias="distributedFloatingIPs")
    """Traffic of a floating IP leaves at its server's own node instead of a gateway; every compute node then needs
    the external bridge."""


class MetadataAgent(PodSettings):
    """The agent that hands instances their metadata. It runs on compute nodes, where nothing of the service's own pod
    settings applies."""

    enabled: bool = True
    """False where this cloud has no compute nodes of its own."""
    nova_ref: OptionalNovaRef = OptionalNovaRef(name="nova")
    """Nova whose metadata API it asks, and by whose certificate it checks it; where metadataHost is set, that one is
    asked instead, in plain HTTP."""


class NeutronSpec(ServiceSpec, UsesDatabase, UsesMessaging, UsesCache, UsesIdentity):
    """OpenStack Neutron: networks, routers and floating IPs."""

    mechanism: Literal["ovn", "ovs"] = "ovn"
    """What carries the networks out. Only ovn is built so far; ovs is answered with a condition."""
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
