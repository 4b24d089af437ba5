"""Spec of a whole cloud with the names of c5c3.io: the same templates, in other places."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from ...api import REPLACES_PODS, Column, Logging, Model, Region, ReleaseName, Resource, Rule, Templates, rule
from .model import (
    CEPH,
    CephStorageTemplate,
    CinderTemplate,
    CloudMonitoring,
    CloudUpgrade,
    CortexTemplate,
    EtcdTemplate,
    GlanceTemplate,
    ImagePrecaching,
    KeystoneTemplate,
    KOrc,
    MariaDBTemplate,
    MemcachedTemplate,
    NeutronTemplate,
    NovaTemplate,
    OVNTemplate,
    PlacementTemplate,
    RabbitMQTemplate,
    TempestTemplate,
    Tls,
    ValkeyTemplate,
)


class StoreTemplate(ValkeyTemplate):
    """The cloud's Valkey."""

    enabled: bool = True
    """Run this service, if the spec has this section."""


class Infrastructure(Templates):
    """Databases, brokers, caches, storage and networks that the services use."""

    mariadb: MariaDBTemplate = MariaDBTemplate()
    """SQL server of all services. With three members or more, all services default to several pods, so that the cloud
    survives the loss of a node."""
    rabbitmq: RabbitMQTemplate = RabbitMQTemplate()
    """Message broker of all services."""
    memcached: MemcachedTemplate = MemcachedTemplate()
    """Cache of all services."""
    valkey: StoreTemplate | None = None
    """In-memory store for your own programs, none if unset."""
    etcd: EtcdTemplate = EtcdTemplate()
    """Distributed locks, for services that run on several nodes and need them."""
    ceph: CephStorageTemplate = CephStorageTemplate()
    """Pools for images, volumes, servers' disks and backups."""
    ovn: OVNTemplate = OVNTemplate()
    """Virtual switches and routers on the nodes, and their databases."""


class Services(Templates):
    """OpenStack's services."""

    keystone: KeystoneTemplate = KeystoneTemplate()
    """Users, projects, tokens and the service catalog."""
    glance: GlanceTemplate = GlanceTemplate()
    """Images from which servers boot."""
    placement: PlacementTemplate = PlacementTemplate()
    """Inventories of resources, and their allocations."""
    neutron: NeutronTemplate = NeutronTemplate()
    """Networks, ports, routers and floating addresses."""
    nova: NovaTemplate = NovaTemplate()
    """Virtual machines, and the programs on compute nodes."""
    cinder: CinderTemplate = CinderTemplate()
    """Volumes."""


class Global(Model):
    """Settings of all services."""

    node_agents = {"storageBackend": (("lvm",), "")}

    region: Region = "RegionOne"
    """Name of this cloud as a region of OpenStack. Cannot be changed."""
    release: ReleaseName = "2025.1"
    """OpenStack release of every service, unless its own template sets another one."""
    upgrade: CloudUpgrade = CloudUpgrade()
    """Settings of release checks and upgrades."""
    image_profile: Literal["debian", "kolla"] = "debian"
    """Set of images of that release. This project builds `debian` from Debian's packages; OpenStack's Kolla builds
    `kolla`. A change replaces the pods whose image differs."""
    storage_backend: Literal["ceph", "lvm"] | None = None
    """Storage of images, volumes and servers' disks, unless a service's template sets another one. If unset, a new
    service takes the CephStorage `ceph`, if there is one in this namespace. Otherwise images are on a volume of the
    Kubernetes cluster, and disks on the nodes."""
    tls: Tls = Tls()
    """Encryption of all connections, and its certificates."""
    monitoring: CloudMonitoring = CloudMonitoring()
    """Metrics of all services for Prometheus, and alerts, also for the operator. A condition names missing CRDs."""
    logging: Logging = Logging()
    """Format of the logs of all services."""
    image_precaching: ImagePrecaching = ImagePrecaching()
    """Images that nodes pull before the pods of the cloud need them."""


_BROKER = "self.infrastructure.rabbitmq"
_PER_SERVICE = f"(has(self.infrastructure) && has({_BROKER}) && has({_BROKER}.perService) && {_BROKER}.perService)"


class C5C3ControlPlaneSpec(Model, defer_build=True):
    """A whole OpenStack cloud: its infrastructure, its services and how they are wired together."""

    on_change = REPLACES_PODS
    # No kind below this one knows the settings of the others.
    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            f"{_PER_SERVICE} == {_PER_SERVICE.replace('self', 'oldSelf')}",
            "services would lose their broker; keep perService, or create a new control plane",
            ".infrastructure.rabbitmq.perService",
        ),
    )

    infrastructure: Infrastructure = Infrastructure()
    """Databases, brokers, caches, storage and networks that the services use."""
    services: Services = Services()
    """Services of OpenStack that the cloud runs."""
    cortex: CortexTemplate = CortexTemplate()
    """External scheduler that re-ranks the hosts Nova selected."""
    tempest: TempestTemplate = TempestTemplate()
    """Tests of the cloud through its APIs, on a schedule and on demand. The first run starts once all tested services
    are Ready."""
    korc: KOrc = KOrc()
    """K-ORC, an operator for the contents of Keystone; if enabled, the cloud uses it if the cluster has its kinds when
    you create the cloud."""
    global_: Global = Field(default=Global(), alias="global")
    """Settings that all services share."""

    def default_refs(self) -> Mapping[str, Any]:
        """Return the Ceph that the cloud takes if its spec names no storage."""
        return {} if self.global_.storage_backend else {"global.storageBackend": CEPH}

    @property
    def runs_release(self) -> str:
        """Release of every service, unless its own template sets another one."""
        return self.global_.release


C5C3_CONTROL_PLANE = Resource(
    kind="ControlPlane",
    plural="controlplanes",
    group="c5c3.io",
    as_c5c3=True,
    checked_below=True,
    alias="OpenStackControlPlane",
    spec=C5C3ControlPlaneSpec,
    columns=(
        Column("Phase", ".status.phase"),
        Column("Release", ".status.release"),
        Column("Region", ".spec.global.region"),
        Column("Endpoint", ".status.endpoint"),
    ),
)
