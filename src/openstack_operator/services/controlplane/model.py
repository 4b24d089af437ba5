"""Spec of a whole cloud."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from ...api import (
    REPLACES_PODS,
    Column,
    ExistingCephStorageRef,
    Exposure,
    Hostname,
    HostOrAddress,
    Labels,
    Logging,
    Model,
    Monitoring,
    Name,
    NetworkPolicies,
    Opaques,
    Proxy,
    Ref,
    Region,
    ReleaseName,
    Resource,
    Rule,
    Template,
    Upgrade,
    UsesPodExtras,
    bounded,
    host_rules,
    rule,
)
from ..cephstorage.model import CephStorageSpec
from ..cinder.model import CinderSpec
from ..cloud_services import CLOUD_SERVICES, template_of
from ..cortex.model import CortexSpec
from ..etcd.model import EtcdSpec
from ..glance.model import GlanceSpec
from ..keystone.model import BootstrapResources, KeystoneSpec, SecretStore
from ..mariadb.model import MARIADB, MariaDBSpec
from ..memcached.model import MemcachedSpec
from ..neutron.model import NeutronSpec
from ..nova.model import NovaSpec
from ..ovnnetwork.model import OVNNetworkSpec
from ..placement.model import PlacementSpec
from ..rabbitmq.model import RabbitMQSpec
from ..tempest.model import TempestSpec
from ..valkey.model import ValkeySpec

CEPH: Ref = ExistingCephStorageRef(name="ceph")
"""Ceph that a cloud finds in its namespace, its own one or another."""


class Issuer(Model):
    """Issuer of certificates."""

    name: Name
    """Name of the Issuer or ClusterIssuer."""
    kind: Literal["Issuer", "ClusterIssuer"] = "Issuer"
    """Kind of the issuer: of this namespace, or of the whole cluster."""


class Tls(Model):
    """Encryption of connections between clients and APIs, and between the services of the cloud."""

    enabled: bool | None = None
    """Encrypt all connections. If unset, a new cloud encrypts them, except with Kolla's images, some of which do not
    support it. A cloud without encryption stays so until you set this."""
    required: bool = True
    """Refuse connections without TLS. A running cloud does so once all of its own services use TLS."""
    issuer_ref: Issuer | None = None
    """Issuer of cert-manager for the certificates. The operator's own authority always issues those of OVN's databases.
    If unset, it issues all certificates."""


class CloudExpose(Exposure):
    """Access to the APIs of a cloud for clients outside the Kubernetes cluster."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *host_rules("domain"),
        rule(
            "!has(self.host) || !has(self.type) || !(self.type in ['Ingress', 'Gateway'])",
            "with this type each API has its own host; set domain instead",
            ".host",
        ),
    )

    host: HostOrAddress | None = None
    """Name or address that outside clients use, with types NodePort and LoadBalancer. It becomes part of the public
    endpoints in the catalog."""
    domain: Hostname | None = None
    """Domain of the APIs, with types Ingress and Gateway: `cloud.example.org` for `keystone.cloud.example.org`."""


class KOrc(Model):
    """K-ORC, an operator for the contents of Keystone."""

    enabled: bool = False
    """Let K-ORC manage the services of the catalog and their users. You cannot change this later. The same as
    `catalog.provider` of the Keystone's template, which takes precedence."""
    bootstrap_resources: BootstrapResources = []
    """Initial content of Keystone to create in K-ORC. The same as `catalog.bootstrapResources` of the Keystone's
    template, which takes precedence."""
    secret_store_ref: SecretStore | None = None
    """Secret store for K-ORC's login. The same as `catalog.secretStoreRef` of the Keystone's template, which takes
    precedence."""


class ImagePrecaching(Model):
    """Images that nodes pull before the pods of the cloud need them."""

    enabled: bool = False
    """Run a pod on each node that pulls all images of the cloud's services, at once after each change of an image, so
    that no roll-out waits for a pull. The condition ImagesCached has the number of nodes that have all images."""
    node_selector: Labels | None = None
    """Labels of the nodes that pull images, those of their roles if unset. These are the default labels of control
    plane, compute and network nodes; set the field if your templates choose nodes by other labels. Empty takes all
    nodes."""
    tolerations: Annotated[Opaques, bounded(64)] | None = None
    """Taints of nodes that pull images, too."""


# No other braces: Prometheus expands an annotation as a template, which may ask for metrics of other namespaces.
RUNBOOK_URL = r"^(https?://[A-Za-z0-9._~:/?#@&+,;=%-]+|[A-Za-z0-9._~/-]*)[{]alert[}][A-Za-z0-9._~/?#&+,;=%-]*$"


class CloudMonitoring(Monitoring):
    """Metrics and alerts for Prometheus."""

    runbook_url: Annotated[str, Field(max_length=512, pattern=RUNBOOK_URL)] = "docs/runbooks/{alert}.md"
    """Annotation `runbook_url` of the alerts, with `{alert}` for the name of the alert. If unset, it points to the page
    in the operator's source. Set it to your own copy of the runbooks."""


class MariaDBTemplate(Template, MariaDBSpec):
    """The cloud's MariaDB."""


class RabbitMQTemplate(Template, RabbitMQSpec):
    """The cloud's RabbitMQ."""

    per_service: bool = False
    """Run a separate RabbitMQ for each service that sends messages (`rabbitmq-nova`), all with the settings of this
    template, and one more for notifications (`rabbitmq-notifications`). Otherwise all services share `rabbitmq`, and
    send no notifications. Cannot be changed."""


class MemcachedTemplate(Template, MemcachedSpec):
    """The cloud's Memcached."""


class ValkeyTemplate(Template, ValkeySpec):
    """The cloud's Valkey."""

    enabled: bool = False
    """Run this service. Setting false removes its objects. Volumes follow their own retention."""


class EtcdTemplate(Template, EtcdSpec):
    """The cloud's Etcd."""

    enabled: bool = False
    """Run this service. Setting false removes its objects. Volumes follow their own retention."""


class CephStorageTemplate(Template, CephStorageSpec):
    """The cloud's CephStorage."""

    enabled_by_others = True

    enabled: bool = False
    """Run this service; if unset, it runs if `storageBackend` is ceph. Setting false removes its objects. Volumes
    follow their own retention."""


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


class OptionalTemplate(Template):
    """A service that a cloud runs on request."""

    enabled: bool = False
    """Run this service. Setting false removes its objects. Its data stay in its database."""


class CinderTemplate(Template, CinderSpec):
    """The cloud's Cinder."""

    enabled: bool = False
    """Run this service. Setting false removes its objects. Volumes stay in their storage."""


class CortexTemplate(Template, CortexSpec):
    """The cloud's Cortex."""

    enabled: bool = False
    """Run this service, and let Nova use it. Setting false removes its objects."""


class TempestTemplate(Template, TempestSpec):
    """The cloud's Tempest."""

    enabled: bool = False
    """Run this service. Setting false removes its objects, and the results of its runs."""


OTHER_GROUPS = {
    each.resource.kind: each.resource.group for each in CLOUD_SERVICES if each.resource.group != MARIADB.group
}
"""Groups of kinds that are not in openstack.k8s.io."""


_PER_SERVICE = "(has(self.rabbitmq) && has(self.rabbitmq.perService) && self.rabbitmq.perService)"


# The fields that users see are more than those written here: CONTROL_PLANE adds one for each service of
# `cloud_services.py` without a field of its own here, such as Barbican, Heat and Octavia. These are
# off by default, and their template in a cloud is the spec of the service alone. So a new service changes no file but
# its own. A template with a field or a default of its own is written out.
class CloudUpgrade(Upgrade):
    """A look at another release before an upgrade to it, and its end."""

    backup: bool = True
    """Before the last step of an upgrade, create an OpenStackBackup and verify it, with the repository and `include` of
    the first OpenStackBackupSchedule of the namespace that is not suspended; without such a schedule, create none. The
    last step waits for the backup. It is called by the cloud and the release, as `cloud-before-2026-1`, and its
    resource stays until the next upgrade."""


class ControlPlaneSpec(UsesPodExtras, defer_build=True):
    """A whole OpenStack cloud: its infrastructure, its services and how they are wired together."""

    on_change = REPLACES_PODS
    node_agents = {"storageBackend": (("lvm",), "")}
    # The control plane writes them into kinds that nodes obey.
    on_nodes = ("image_profile", "pod_annotations", "pod_labels", "proxy")

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            f"{_PER_SERVICE} == {_PER_SERVICE.replace('self', 'oldSelf')}",
            "services would lose their broker; keep perService, or create a new control plane",
            ".rabbitmq.perService",
        ),
    )

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
    """Storage of images, volumes and servers' disks, unless a service's template sets another one. ceph runs a
    CephStorage for all three; lvm is for volumes only. If unset, a new service takes the CephStorage `ceph` of this
    namespace, if there is one. Otherwise images are on a volume of the Kubernetes cluster, and disks on the nodes."""
    network_backend: Literal["ovn", "ovs"] = "ovn"
    """Technology of the tenants' networks. Only ovn is supported; a condition reports ovs."""
    tls: Tls = Tls()
    """Encryption of all connections, and its certificates."""
    expose: CloudExpose = CloudExpose()
    """Access to the APIs for clients outside the Kubernetes cluster, unless a service's template sets it."""
    network_policies: NetworkPolicies = NetworkPolicies()
    """NetworkPolicies for the pods of all services."""
    monitoring: CloudMonitoring = CloudMonitoring()
    """Metrics of all services for Prometheus, and alerts, also for the operator. A condition names missing CRDs."""
    logging: Logging = Logging()
    """Format of the logs of all services."""
    proxy: Proxy = Proxy()
    """Proxy for requests of all services to servers outside the cluster."""
    image_precaching: ImagePrecaching = ImagePrecaching()
    """Images that nodes pull before the pods of the cloud need them."""
    mariadb: MariaDBTemplate = MariaDBTemplate()
    """SQL server of all services. With three members or more, all services default to several pods, so that the cloud
    survives the loss of a node."""
    rabbitmq: RabbitMQTemplate = RabbitMQTemplate()
    """Message broker of all services."""
    memcached: MemcachedTemplate = MemcachedTemplate()
    """Cache of all services."""
    valkey: ValkeyTemplate = ValkeyTemplate()
    """In-memory store for your own programs; OpenStack services do not use it."""
    etcd: EtcdTemplate = EtcdTemplate()
    """Distributed locks, for services that run on several nodes and need them."""
    ceph: CephStorageTemplate = CephStorageTemplate()
    """Pools for images, volumes, disks and backups: in a small Ceph of this operator, an external one, or Rook's."""
    keystone: KeystoneTemplate = KeystoneTemplate()
    """Users, projects, tokens and the service catalog."""
    glance: GlanceTemplate = GlanceTemplate()
    """Images from which servers boot."""
    placement: PlacementTemplate = PlacementTemplate()
    """Inventories of resources, and their allocations."""
    ovn: OVNTemplate = OVNTemplate()
    """Virtual switches and routers on the nodes, and their databases."""
    neutron: NeutronTemplate = NeutronTemplate()
    """Networks, ports, routers and floating addresses."""
    nova: NovaTemplate = NovaTemplate()
    """Virtual machines, and the programs on compute nodes."""
    cinder: CinderTemplate = CinderTemplate()
    """Volumes. Without its own `backends`, they are in the storage of `storageBackend`."""
    cortex: CortexTemplate = CortexTemplate()
    """Re-ranks the hosts Nova selected."""
    tempest: TempestTemplate = TempestTemplate()
    """Tests of the cloud through its APIs, on a schedule and on demand. The first run starts once all tested services
    are Ready."""
    korc: KOrc = KOrc()
    """K-ORC, an operator for the contents of Keystone."""

    def default_refs(self) -> Mapping[str, Any]:
        """Return the Ceph that the cloud takes if its spec names no storage."""
        return {} if self.storage_backend else {"storageBackend": CEPH}

    @property
    def runs_release(self) -> str:
        """Release of every service, unless its own template sets another one."""
        return self.release


def _with_templates(spec: type[ControlPlaneSpec]) -> type[ControlPlaneSpec]:
    """Return the spec with a template for each service that it does not name itself. The name of the field and its
    description come from the service's CloudTemplate; its fields are those of the service's spec, and `enabled`.
    """
    records = [(template_of(service), service.resource) for service in CLOUD_SERVICES]
    models = {
        template: _template_model(resource) for template, resource in records if template.field not in spec.model_fields
    }
    fields: dict[str, Any] = {
        template.field: (model, FieldInfo(default=model(), description=template.description))
        for template, model in models.items()
    }
    return _derived(spec.__name__, spec, doc=spec.__doc__, **fields) if fields else spec


def _template_model(resource: Resource[Any]) -> type[OptionalTemplate]:
    doc = f"The cloud's {resource.kind}."
    return _derived(f"{resource.kind}Template", OptionalTemplate, resource.spec, doc=doc)


def _derived(name: str, *bases: type[Any], doc: str | None, **fields: Any) -> type[Any]:
    """Return a model that no source declares, so that no docstrings describe its own fields."""
    return create_model(name, __base__=bases, __doc__=doc, __module__=__name__, **fields)


CONTROL_PLANE = Resource(
    kind="OpenStackControlPlane",
    plural="openstackcontrolplanes",
    spec=_with_templates(ControlPlaneSpec),
    short_names=("oscp",),
    columns=(
        Column("Phase", ".status.phase"),
        Column("Release", ".status.release"),
        Column("Region", ".spec.region"),
        Column("Endpoint", ".status.endpoint"),
    ),
)
