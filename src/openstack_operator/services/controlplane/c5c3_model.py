"""What users write to get a whole cloud by the names of c5c3.io: the same templates, in other places."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from ...api import Column, Model, Monitoring, Region, ReleaseName, Resource, Rule, Templates, rule
from .model import (
    CephStorageTemplate,
    CinderTemplate,
    CortexTemplate,
    EtcdTemplate,
    GlanceTemplate,
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
    """Whether this service runs, where it is named at all."""


class Infrastructure(Templates):
    """What services lean on."""

    mariadb: MariaDBTemplate = MariaDBTemplate()
    """SQL server of all services."""
    rabbitmq: RabbitMQTemplate = RabbitMQTemplate()
    """Message broker of all services."""
    memcached: MemcachedTemplate = MemcachedTemplate()
    """Cache of all services."""
    valkey: StoreTemplate | None = None
    """A store in memory for programs of your own; unset is none."""
    etcd: EtcdTemplate = EtcdTemplate()
    """Locks that services on several nodes share; only what asks for them needs it."""
    ceph: CephStorageTemplate = CephStorageTemplate()
    """Pools for images, volumes, servers' disks and backups."""
    ovn: OVNTemplate = OVNTemplate()
    """Virtual switches and routers on the nodes, and their databases."""


class Services(Templates):
    """OpenStack's services."""

    keystone: KeystoneTemplate = KeystoneTemplate()
    """Users, projects, tokens and the service catalog."""
    glance: GlanceTemplate = GlanceTemplate()
    """Images instances boot from."""
    placement: PlacementTemplate = PlacementTemplate()
    """Inventories of resources, and who has claimed them."""
    neutron: NeutronTemplate = NeutronTemplate()
    """Networks, ports, routers and floating addresses."""
    nova: NovaTemplate = NovaTemplate()
    """Virtual machines."""
    cinder: CinderTemplate = CinderTemplate()
    """Volumes."""


class Global(Model):
    """What holds for all services."""

    region: Region = "RegionOne"
    """Name of the OpenStack region this cloud is."""
    release: ReleaseName = "2025.1"
    """OpenStack release every service runs, unless its own template says otherwise."""
    image_profile: Literal["debian", "kolla"] = "debian"
    """Which set of images of that release."""
    storage_backend: Literal["ceph", "lvm"] | None = None
    """Where images, volumes and servers' disks are kept, unless a service's template says otherwise."""
    tls: Tls = Tls()
    """Encryption of all connections."""
    monitoring: Monitoring = Monitoring()
    """What a Prometheus is told by all services, and of the operator; and alerts. A condition says what is missing."""


_BROKER = "self.infrastructure.rabbitmq"
_APART = f"(has(self.infrastructure) && has({_BROKER}) && has({_BROKER}.perService) && {_BROKER}.perService)"


class C5C3ControlPlaneSpec(Model):
    """A whole OpenStack cloud: its infrastructure, its services and how they are wired together."""

    # No kind below this one knows what the others are told.
    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            f"{_APART} == {_APART.replace('self', 'oldSelf')}",
            "services would lose the broker they use; keep perService as it was, or create a new control plane",
            ".infrastructure.rabbitmq.perService",
        ),
    )

    infrastructure: Infrastructure = Infrastructure()
    """What services lean on."""
    services: Services = Services()
    """OpenStack's services."""
    cortex: CortexTemplate = CortexTemplate()
    """Who chooses nodes after Nova has."""
    tempest: TempestTemplate = TempestTemplate()
    """Tests of the cloud through its APIs, on a schedule and on demand; the first once all it tests is Ready."""
    korc: KOrc = KOrc()
    """K-ORC, an operator for what is in Keystone; enabled, it is used where the cluster has its kinds when the cloud is
    made."""
    global_: Global = Field(default=Global(), alias="global")
    """What holds for all services."""

    @property
    def runs_release(self) -> str:
        """Services run it unless their own templates say otherwise."""
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
