"""What users write to get a whole cloud."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import ConfigDict

from ...api import (
    Column,
    Exposure,
    Hostname,
    Model,
    Monitoring,
    Name,
    NetworkPolicies,
    Region,
    ReleaseName,
    Replicas,
    Resource,
    Rule,
    Template,
    named,
    rule,
)
from ..cephstorage.model import CephStorageSpec
from ..cinder.model import CinderSpec
from ..cortex.model import CORTEX, CortexSpec
from ..etcd.model import EtcdSpec
from ..glance.model import GlanceSpec
from ..keystone.model import BootstrapResources, KeystoneSpec, SecretStore
from ..mariadb.model import MariaDBSpec
from ..memcached.model import MemcachedSpec
from ..neutron.model import NeutronSpec
from ..nova.model import NovaSpec
from ..ovnnetwork.model import OVNNetworkSpec
from ..placement.model import PlacementSpec
from ..rabbitmq.model import RabbitMQSpec
from ..tempest.model import TEMPEST, TempestSpec
from ..valkey.model import ValkeySpec


class Issuer(Model):
    """Who signs certificates."""

    name: Name
    """Name of the issuer."""
    kind: Literal["Issuer", "ClusterIssuer"] = "Issuer"
    """cert-manager's kind of it."""


class Tls(Model):
    """Encryption between clients and APIs, and among the cloud's own parts."""

    enabled: bool | None = None
    """Whether all connections are encrypted. Unset, those of a new cloud are, but with images of Kolla's, which cannot
    all; one that has begun without stays so until it is told."""
    required: bool = True
    """Whether who comes without TLS is refused, in a cloud that runs once all of its own services come with it."""
    issuer_ref: Issuer | None = None
    """cert-manager's issuer of the certificates; unset, the cloud has authorities of its own."""


class CloudExpose(Exposure):
    """How clients outside the Kubernetes cluster reach the APIs of a cloud."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *named("domain"),
        rule(
            "!has(self.host) || !has(self.type) || !(self.type in ['Ingress', 'Gateway'])",
            "each API has a name of its own there; set domain instead",
            ".host",
        ),
    )

    host: Hostname | None = None
    """Name or address outside clients use, of types NodePort and LoadBalancer; goes into the public endpoints of the
    catalog."""
    domain: Hostname | None = None
    """Domain of the APIs' names, of types Ingress and Gateway: `cloud.example.org` for `keystone.cloud.example.org`."""


class KOrc(Model):
    """K-ORC, an operator for what is in Keystone."""

    enabled: bool = False
    """Whether it keeps the services of the catalog and their users. It stays as it was at first. The same as
    `catalog.provider` of the Keystone's template, which goes before."""
    bootstrap_resources: BootstrapResources = []
    """What of Keystone's beginning it is shown. The same as `catalog.bootstrapResources` of the Keystone's template,
    which goes before."""
    secret_store_ref: SecretStore | None = None
    """By way of which store it is told how to log in. The same as `catalog.secretStoreRef` of the Keystone's template,
    which goes before."""


class MariaDBTemplate(Template, MariaDBSpec):
    """The cloud's MariaDB."""


class RabbitMQTemplate(Template, RabbitMQSpec):
    """The cloud's RabbitMQ."""

    per_service: bool = False
    """Whether each service that sends messages gets a RabbitMQ of its own (`rabbitmq-nova`), all as this template says,
    and notifications go to one more (`rabbitmq-notifications`). Unset, all share `rabbitmq` and nobody sends
    notifications. Cannot be changed."""


class MemcachedTemplate(Template, MemcachedSpec):
    """The cloud's Memcached."""


class ValkeyTemplate(Template, ValkeySpec):
    """The cloud's Valkey."""

    enabled: bool = False
    """Whether this service runs. Turning it off removes what it made; volumes follow their own retention."""


class EtcdTemplate(Template, EtcdSpec):
    """The cloud's Etcd."""

    enabled: bool = False
    """Whether this service runs. Turning it off removes what it made; volumes follow their own retention."""


class CephStorageTemplate(Template, CephStorageSpec):
    """The cloud's CephStorage."""

    enabled: bool = False
    """Whether this service runs; unset, it does where `storageBackend` is ceph. Turning it off removes what it made;
    volumes follow their own retention."""


class KeystoneTemplate(Template, KeystoneSpec):
    """The cloud's Keystone."""


class GlanceTemplate(Template, GlanceSpec):
    """The cloud's Glance."""


class PlacementTemplate(Template, PlacementSpec):
    """The cloud's Placement."""


class OVNTemplate(Template, OVNNetworkSpec):
    """The cloud's OVNNetwork."""


class NeutronTemplate(Template, NeutronSpec):
    """The cloud's Neutron."""


class NovaTemplate(Template, NovaSpec):
    """The cloud's Nova."""


class LaterTemplate(Template):
    """A service that is not built yet."""

    # What it will take is not known yet, so nothing a user wrote is pruned.
    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-preserve-unknown-fields": True,
            "x-kubernetes-map-type": "atomic",
            "maxProperties": 64,
        }
    )

    enabled: bool = False
    """Whether this service runs. Not built yet: turning it on is answered with a condition."""
    replicas: Replicas = 1
    """Number of pods of each of the service's components that scales."""


class CinderTemplate(Template, CinderSpec):
    """The cloud's Cinder."""

    enabled: bool = False
    """Whether this service runs. Turning it off removes what it made; volumes stay in their storage."""


class CortexTemplate(Template, CortexSpec):
    """The cloud's Cortex."""

    enabled: bool = False
    """Whether this service runs, and Nova asks it. Turning it off removes what it made."""


class TempestTemplate(Template, TempestSpec):
    """The cloud's Tempest."""

    enabled: bool = False
    """Whether this service runs. Turning it off removes what it made, and what is known of its runs."""


ELSEWHERE = {resource.kind: resource.group for resource in (CORTEX, TEMPEST)}
"""Groups of kinds that openstack.k8s.io has none of."""


_PER_SERVICE = "(has(self.rabbitmq) && has(self.rabbitmq.perService) && self.rabbitmq.perService)"


class ControlPlaneSpec(Model):
    """A whole OpenStack cloud: its infrastructure, its services and how they are wired together."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            f"{_PER_SERVICE} == {_PER_SERVICE.replace('self', 'oldSelf')}",
            "services would lose the broker they use; keep perService as it was, or create a new control plane",
            ".rabbitmq.perService",
        ),
    )

    region: Region = "RegionOne"
    """Name of the OpenStack region this cloud is."""
    release: ReleaseName = "2025.1"
    """OpenStack release every service runs, unless its own template says otherwise."""
    image_profile: Literal["debian", "kolla"] = "debian"
    """Which set of images of that release."""
    storage_backend: Literal["ceph", "lvm"] | None = None
    """Where images, volumes and servers' disks are kept, unless a service's template says otherwise. ceph brings a
    CephStorage and keeps all three in it; lvm is for volumes alone. Images are on a volume of the Kubernetes cluster
    otherwise, and disks on the nodes."""
    network_backend: Literal["ovn", "ovs"] = "ovn"
    """What carries the tenants' networks. ovs is not built yet: it is answered with a condition."""
    tls: Tls = Tls()
    """Encryption of all connections."""
    expose: CloudExpose = CloudExpose()
    """How clients outside the Kubernetes cluster reach the APIs, unless a service's template says otherwise."""
    network_policies: NetworkPolicies = NetworkPolicies()
    """Who may reach the pods of all services."""
    monitoring: Monitoring = Monitoring()
    """What a Prometheus is told by all services, and of the operator; and alerts. A condition says what is missing."""
    mariadb: MariaDBTemplate = MariaDBTemplate()
    """SQL server of all services."""
    rabbitmq: RabbitMQTemplate = RabbitMQTemplate()
    """Message broker of all services."""
    memcached: MemcachedTemplate = MemcachedTemplate()
    """Cache of all services."""
    valkey: ValkeyTemplate = ValkeyTemplate()
    """A store in memory for programs of your own; no service of the cloud needs it."""
    etcd: EtcdTemplate = EtcdTemplate()
    """Locks that services on several nodes share; only what asks for them needs it."""
    ceph: CephStorageTemplate = CephStorageTemplate()
    """Pools for images, volumes, servers' disks and backups: a small Ceph of ours, somebody else's, or Rook's."""
    keystone: KeystoneTemplate = KeystoneTemplate()
    """Users, projects, tokens and the service catalog."""
    glance: GlanceTemplate = GlanceTemplate()
    """Images instances boot from."""
    placement: PlacementTemplate = PlacementTemplate()
    """Inventories of resources, and who has claimed them."""
    ovn: OVNTemplate = OVNTemplate()
    """Virtual switches and routers on the nodes, and their databases."""
    neutron: NeutronTemplate = NeutronTemplate()
    """Networks, ports, routers and floating addresses."""
    nova: NovaTemplate = NovaTemplate()
    """Virtual machines."""
    cinder: CinderTemplate = CinderTemplate()
    """Volumes; without `backends` of its own they are kept where `storageBackend` says."""
    cortex: CortexTemplate = CortexTemplate()
    """A scheduler that Nova's asks last, which of the nodes it has left is the best one."""
    heat: LaterTemplate = LaterTemplate()
    """Orchestration. Not built yet: turning it on is answered with a condition."""
    horizon: LaterTemplate = LaterTemplate()
    """Dashboard. Not built yet: turning it on is answered with a condition."""
    tempest: TempestTemplate = TempestTemplate()
    """Tests of the cloud through its APIs, on a schedule and on demand; the first once all it tests is Ready."""
    korc: KOrc = KOrc()
    """K-ORC, an operator for what is in Keystone."""

    @property
    def runs_release(self) -> str:
        """Services run it unless their own templates say otherwise."""
        return self.release


CONTROL_PLANE = Resource(
    kind="OpenStackControlPlane",
    plural="openstackcontrolplanes",
    spec=ControlPlaneSpec,
    short_names=("oscp",),
    columns=(
        Column("Phase", ".status.phase"),
        Column("Release", ".status.release"),
        Column("Region", ".spec.region"),
        Column("Endpoint", ".status.endpoint"),
    ),
)
