"""What users write to get an OVN by the names of c5c3: the same in other places."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...api import (
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
    rule,
    settled,
)
from .model import Fabric


class Storage(Model):
    """The volume of each member."""

    rules = (settled("storageClass", "the storage class"),)

    size: StorageSize = "1Gi"
    """Size of the volume; may grow where the StorageClass allows it, never shrink."""
    storage_class: Name | None = None
    """StorageClass of the volume; unset takes the cluster's default. Cannot be changed later."""


class ClusterDatabase(PodSettings):
    """A database; `image` takes the place of `ovnImage`."""

    replicas: QuorumReplicas = 1
    """Its members. A change adds or takes away one at a time."""
    storage: Storage = Storage()
    """The volume of each member."""


class Controller(Model):
    """ovn-controller, which tells the switch of its node what to do. Both are in one pod."""

    on_nodes = ("node_selector",)

    node_selector: Labels | None = None
    """Labels of the nodes; unset is as in `ovs`, and without that `openvswitch=enabled`."""
    resources: Resources | None = None
    """Requests and limits of the controller."""


class Switch(AgentSettings):
    """Open vSwitch; `image` takes the place of `ovsImage`, and `resources` are those of the switch itself."""


class ServicePort(Model):
    """A Service and its port."""

    name: Name
    """Name of the Service. `<name of this>-nb` and `<name of this>-sb` are those of the members themselves."""
    port: Port
    """Its port. Members answer at 6641 and 6642, and by TLS at 16641 and 16642; a Service of another name may have
    another one."""


class Connection(Model):
    """One address of a database."""

    service: ServicePort
    """The Service, which is made where it is not the members' own."""


class Integration(Model):
    """One address of each database, for those who read addresses. A Neutron of this operator is told of each member
    instead, by its `ovn.clusterRef`."""

    nb_connection: Connection | None = None
    """Of the northbound database."""
    sb_connection: Connection | None = None
    """Of the southbound database."""


class ClusterTLS(Model):
    """Encryption of what OVN's programs, Neutron and the nodes tell each other."""

    rules = (
        rule(
            "!(has(self.enabled) && self.enabled) || has(self.certSecretRef) != has(self.pkiRef)",
            "a certificate has one source; set certSecretRef or pkiRef",
            ".certSecretRef",
        ),
    )

    enabled: bool = False
    """Whether they are told to come with TLS, on ports of its own."""
    cert_secret_ref: OptionalSecretRef | None = None
    """Secret with `tls.crt`, `tls.key` and `ca.crt`; whoever shows a certificate by that authority may write. It is
    read where TLS is enabled."""
    pki_ref: PKIRef | None = None
    """PKI that makes the certificate."""
    required: bool = False
    """Whether who comes without TLS is refused. For an OVN that runs, set it when nobody does any more."""


class OVNClusterSpec(Fabric):
    """OVN: the virtual networks of the cloud, and the switch on every node that carries them out."""

    on_nodes = ("ovn_image", "ovs_image")
    rules = (
        rule(
            "!has(self.ovs) || !has(self.ovs.nodeSelector) || !has(self.controller)"
            " || !has(self.controller.nodeSelector) || self.ovs.nodeSelector == self.controller.nodeSelector",
            "the switch and its controller are in one pod; write the labels of controller.nodeSelector, or none",
            ".ovs.nodeSelector",
        ),
    )

    ovn_image: Image | None = None
    """Image of OVN's programs, with the commands of this operator's; unset is the release's."""
    ovs_image: Image | None = None
    """Image of Open vSwitch, with the commands of this operator's; unset is the release's."""
    northbound: ClusterDatabase = ClusterDatabase()
    """The database of wanted networks, which Neutron writes."""
    southbound: ClusterDatabase = ClusterDatabase()
    """The database of flows, which the nodes read."""
    controller: Controller = Controller()
    """ovn-controller, on every node."""
    ovs: Switch = Switch()
    """Open vSwitch, on every node."""
    neutron_integration: Integration = Integration()
    """One address of each database."""
    tls: ClusterTLS = ClusterTLS()
    """Encryption."""
    release: ReleaseName = "2025.1"
    """OpenStack release whose OVN runs where no image is named."""
    retention: Literal["Retain", "Delete"] = "Retain"
    """What becomes of the volumes when this resource is deleted. What is retained is used again by a resource of the
    same name."""
    network_policies: NetworkPolicies = NetworkPolicies()
    """Who may reach the pods."""


class Endpoints(Model):
    """An address of each database."""

    northbound: Annotated[str, Field(max_length=1024)] = ""
    """Of the northbound database."""
    southbound: Annotated[str, Field(max_length=1024)] = ""
    """Of the southbound database."""


class OVNClusterStatus(Model):
    """What an OVNCluster tells besides its conditions."""

    endpoints: Endpoints | None = None
    """One address of each database: `tcp:host:port`, or `ssl:…`."""
    chassis_count: int = 0
    """Nodes that are part of it, an OVNChassis each."""
    active_controllers: int = 0
    """Those whose switch and controller are ready."""


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
