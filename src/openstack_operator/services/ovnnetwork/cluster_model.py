"""Spec of an OVNCluster: an OVNNetwork in the form of c5c3."""

from typing import Annotated, Literal

from pydantic import Field

from ...api import (
    ALWAYS,
    REPLACES_PODS,
    AgentSettings,
    Column,
    Image,
    Labels,
    Model,
    Name,
    NetworkPolicies,
    OptionalSecretRef,
    PKIRef,
    PodSettings,
    Port,
    QuorumReplicas,
    ReleaseName,
    Resource,
    Resources,
    StorageSize,
    immutable_optional,
    rule,
)
from .model import Fabric


class Storage(Model):
    """The volume of each member."""

    rules = (immutable_optional("storageClass", "the storage class"),)

    size: StorageSize = "1Gi"
    """Size of the volume. You can increase it if the StorageClass allows it. You cannot decrease it."""
    storage_class: Name | None = None
    """StorageClass of the volume, the cluster's default if unset. You cannot change it later."""


class ClusterDatabase(PodSettings):
    """A database; `image` takes precedence over `ovnImage`."""

    replicas: QuorumReplicas = 1
    """Number of members. The operator adds or removes one at a time."""
    storage: Storage = Storage()
    """The volume of each member."""


class Controller(Model):
    """ovn-controller, which configures the switch of its node. Both run on the same nodes."""

    on_nodes = ("node_selector",)

    node_selector: Labels | None = None
    """Labels of the nodes, those of `ovs` if unset. If that is unset too, they are `openvswitch=enabled`."""
    resources: Resources | None = None
    """Requests and limits of the controller."""


class Switch(AgentSettings):
    """Open vSwitch; `image` takes precedence over `ovsImage`, and `resources` are those of the switch itself."""


class ServicePort(Model):
    """A Service and its port."""

    name: Name
    """Name of the Service. The Services of the members are `<name>-nb` and `<name>-sb`, after this resource."""
    port: Port
    """Port of the Service. Members listen on 6641 and 6642, and with TLS on 16641 and 16642. A Service with another
    name can have another port."""


class Connection(Model):
    """One address of a database."""

    service: ServicePort
    """The Service. The operator creates it, unless it is the Service of the members."""


class Integration(Model):
    """One address of each database, for programs that use fixed addresses. A Neutron of this operator does not need
    them: it connects to every member, through its `ovn.clusterRef`.
    """

    nb_connection: Connection | None = None
    """Address of the northbound database."""
    sb_connection: Connection | None = None
    """Address of the southbound database."""


class ClusterTLS(Model):
    """Encryption of connections between OVN's programs, Neutron and the nodes."""

    rules = (
        rule(
            "!(has(self.enabled) && self.enabled) || has(self.certSecretRef) != has(self.pkiRef)",
            "TLS needs exactly one certificate source; set certSecretRef or pkiRef",
            ".certSecretRef",
        ),
    )

    enabled: bool = False
    """Use TLS for clients, on separate ports."""
    cert_secret_ref: OptionalSecretRef | None = None
    """Secret with `tls.crt`, `tls.key` and `ca.crt`. A client with a certificate of that authority can write to the
    databases. The operator reads the Secret if TLS is enabled."""
    pki_ref: PKIRef | None = None
    """PKI that issues the certificate."""
    required: bool = False
    """Refuse connections without TLS. In a running OVN, set this when no client connects without TLS any more."""


class OVNClusterSpec(Fabric, defer_build=True):
    """OVN: the virtual networks of the cloud, and the switch on every node that implements them."""

    on_change = REPLACES_PODS
    on_nodes = image_fields = ("ovn_image", "ovs_image")
    node_agents = ALWAYS
    rules = (
        rule(
            "!has(self.ovs) || !has(self.ovs.nodeSelector) || !has(self.controller)"
            " || !has(self.controller.nodeSelector) || self.ovs.nodeSelector == self.controller.nodeSelector",
            "ovs and controller run on the same nodes; use the labels of controller.nodeSelector, or remove this",
            ".ovs.nodeSelector",
        ),
    )

    ovn_image: Image | None = None
    """Image of OVN's programs, that of the release if unset. It needs the same commands as this operator's images. A
    change replaces the pods."""
    ovs_image: Image | None = None
    """Image of Open vSwitch, that of the release if unset. It needs the same commands as this operator's images. A
    change replaces the pods."""
    northbound: ClusterDatabase = ClusterDatabase()
    """The database of configured networks, which Neutron writes."""
    southbound: ClusterDatabase = ClusterDatabase()
    """The database of flows, which the nodes read."""
    controller: Controller = Controller()
    """ovn-controller, on every node."""
    ovs: Switch = Switch()
    """Open vSwitch, on every node."""
    neutron_integration: Integration = Integration()
    """Services with one address for each database."""
    tls: ClusterTLS = ClusterTLS()
    """Encryption of clients' connections."""
    release: ReleaseName = "2025.1"
    """OpenStack release. It selects the version of OVN if no image is set."""
    retention: Literal["Retain", "Delete"] = "Retain"
    """Keep or delete the volumes when this resource is deleted. A new resource of the same name uses retained volumes
    again."""
    network_policies: NetworkPolicies = NetworkPolicies()
    """NetworkPolicies for the pods."""


class Endpoints(Model):
    """An address of each database."""

    northbound: Annotated[str, Field(max_length=1024)] = ""
    """Address of the northbound database."""
    southbound: Annotated[str, Field(max_length=1024)] = ""
    """Address of the southbound database."""


class OVNClusterStatus(Model):
    """Status of an OVNCluster, besides its conditions."""

    endpoints: Endpoints | None = None
    """One address of each database: `tcp:host:port`, or `ssl:…`."""
    chassis_count: int = 0
    """Number of nodes in this OVN; each has an OVNChassis."""
    active_controllers: int = 0
    """Number of nodes whose switch and controller are ready."""


OVN_CLUSTER = Resource(
    kind="OVNCluster",
    plural="ovnclusters",
    group="ovn.c5c3.io",
    as_c5c3=True,
    alias="OVNNetwork",
    spec=OVNClusterSpec,
    status=OVNClusterStatus,
    nodes=True,
    columns=(
        Column("Chassis", ".status.chassisCount", "integer"),
        Column("Active", ".status.activeControllers", "integer"),
    ),
)
