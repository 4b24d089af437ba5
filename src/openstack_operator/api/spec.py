"""What the specs of services share; a mixin states a dependency, and the engine does the rest."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .fields import (
    DatabaseName,
    Hostname,
    Image,
    Name,
    Opaque,
    Quantity,
    Region,
    Replicas,
    Sections,
    StorageSize,
    immutable,
    settled,
    validated,
)
from .model import Model, Rule, rule
from .refs import KeystoneRef, MariaDBRef, MemcachedRef, PKIRef, RabbitMQRef, SecretRef


class Resources(Model):
    """What a container asks for and may use at most."""

    requests: dict[Literal["cpu", "memory"], Quantity] = {}
    """What the scheduler reserves."""
    limits: dict[Literal["cpu", "memory"], Quantity] = {}
    """What the container may use at most."""


class PodSettings(Model):
    """How pods are placed and sized; set on a service for all its components, or on one component."""

    image: Image | None = None
    """Image to run instead of the release's."""
    resources: Resources | None = None
    """Requests and limits of the main container."""
    node_selector: dict[str, str] | None = None
    """Labels of the nodes to run on; replaces the default label."""
    tolerations: list[Opaque] | None = None
    """Taints the pods tolerate."""
    affinity: Opaque | None = None
    """Kubernetes affinity of the pods."""
    anti_affinity: Literal["soft", "hard"] | None = None
    """Whether pods of one program share a node: `soft` puts them on different ones where there are enough, `hard`
    leaves a pod pending rather than let it share. Unset is `soft`; a podAntiAffinity in `affinity` takes the place of
    either. What runs once on every node has no use for it."""
    topology_spread_constraints: Annotated[list[Opaque], Field(max_length=8)] | None = None
    """How the pods of one program are spread, over zones for one; a constraint without a labelSelector gets that of the
    program's pods. Nothing for what runs once on every node."""
    priority_class_name: Name | None = None
    """PriorityClass of the pods."""


class Component(PodSettings):
    """One program of a service; what is unset here is taken from the service."""

    replicas: Replicas | None = None
    """Number of pods; unset takes the service's."""


class Autoscaling(Model):
    """How the number of pods follows their load: a HorizontalPodAutoscaler, which needs a metrics-server."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
            "more than the most there may be; lower it or raise maxReplicas",
            ".minReplicas",
        ),
    )

    min_replicas: Annotated[int, Field(ge=1, le=32)] = 2
    """Never fewer pods."""
    max_replicas: Annotated[int, Field(ge=1, le=32)]
    """Never more pods."""
    cpu_utilization: Annotated[int, Field(ge=1, le=1000)] = 80
    """Percent of the requested CPU that the pods are to use on average; the number of pods follows from it."""


class Scalable(Component):
    """A program whose number of pods may follow its load."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.autoscaling) || !has(self.replicas)",
            "autoscaling decides on the number of pods; remove replicas",
            ".replicas",
        ),
        rule(
            "!has(self.autoscaling) || (has(self.resources) && has(self.resources.requests)"
            " && has(self.resources.requests.cpu))",
            "utilization is counted against the CPU a pod requests; set resources.requests.cpu beside it",
            ".autoscaling",
        ),
    )

    autoscaling: Autoscaling | None = None
    """Let the number of pods follow their load; takes the place of `replicas`."""


class HttpApi(Scalable):
    """An API over HTTP."""

    processes: Annotated[int, Field(ge=1, le=64)] | None = None
    """Processes each pod may have to answer requests: it begins with one, and starts another one whenever all have been
    busy for three seconds; Neutron's all run from the start. Those of Nova and Neutron answer one request at a time;
    one that waits for a node that is gone takes a minute. Unset is 4 for Nova's, 1 for others."""


class Expose(Model):
    """How clients outside the Kubernetes cluster reach an API."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    """Type of the API's Service."""
    host: Hostname | None = None
    """Name or address outside clients use; goes into the public endpoint of the catalog."""


class RunSpec(PodSettings):
    """Fields of everything that runs pods."""

    release: str = "2025.1"
    """OpenStack release to run."""
    image_profile: Literal["debian", "kolla"] = "debian"
    """Which set of images of that release."""


class CertificateSource(Model):
    """Who vouches for a service; nobody where neither is set."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule("!has(self.pkiRef) || !has(self.secretRef)", "a certificate has one source; remove one", ".secretRef"),
    )

    pki_ref: PKIRef | None = None
    """PKI that makes its certificate, and whose authority its clients trust."""
    secret_ref: SecretRef | None = None
    """A certificate of your own: a Secret with `tls.crt`, `tls.key`, and `ca.crt`, by which clients check it. What is
    put there later is taken over if it is good; otherwise the last good one stays in use."""
    announced: bool = True
    """Whether clients are told to come with TLS, in the catalog of APIs too. Until then they are given what they check
    the certificate by, and it is there for who comes with TLS already. A control plane says false by itself while a
    cloud that runs learns to trust."""
    required: bool = False
    """Whether who comes without TLS is refused, once clients are told. For a cloud that runs, set it when nobody does
    any more."""


class UsesTLS(Model):
    """Mixed into the spec of a service that can be reached through TLS."""

    tls: CertificateSource | None = None
    """Encrypt what clients send; unset is plain. Where it is set, clients of this operator's check the certificate and
    its names."""


class ServiceSpec(RunSpec, UsesTLS):
    """Fields every OpenStack service has."""

    replicas: Replicas = 1
    """Number of pods of each of the service's components that scales."""
    region: Region = "RegionOne"
    """The OpenStack region this service belongs to."""
    config: Sections = {}
    """Extra options, merged over the operator's defaults: section, option, value. An option the operator wires
    itself (addresses, passwords) is refused."""
    expose: Expose = Expose()
    """How clients outside the cluster reach the API."""


class UsesVolume(Model):
    """Mixed into the spec of a service whose members keep a volume each."""

    storage_size: StorageSize = "10Gi"
    """Size of each member's volume; may grow where the StorageClass allows it, never shrink."""
    storage_class: Name | None = None
    """StorageClass of the volumes; unset takes the cluster's default. Cannot be changed later."""
    retention: Literal["Retain", "Delete"] = "Retain"
    """What becomes of the volumes when this resource is deleted. What is retained is used again by a resource of the
    same name."""

    rules: ClassVar[tuple[Rule, ...]] = (settled("storageClass", "the storage class"),)


class DatabaseSource(Model):
    """Where a service keeps its tables."""

    rules: ClassVar[tuple[Rule, ...]] = (settled("database", "the database's name"),)

    mariadb_ref: Annotated[MariaDBRef, validated(immutable("the server of a schema"))] = Field(
        default=MariaDBRef(name="mariadb"), alias="mariadbRef"
    )
    """Server that holds the schema. Cannot be changed, since data does not move by itself."""
    database: DatabaseName | None = None
    """Name of the schema; unset takes the service's name."""


class MessagingSource(Model):
    """Where a service sends its RPC."""

    rabbitmq_ref: Annotated[RabbitMQRef, validated(immutable("the broker"))] = Field(
        default=RabbitMQRef(name="rabbitmq"), alias="rabbitmqRef"
    )
    """Broker; the service gets a virtual host of its own in it. Cannot be changed."""


class ServiceMessaging(MessagingSource):
    """Where a service sends its RPC, and what it tells the world."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.notificationsRef) || !has(oldSelf.notificationsRef) "
            "|| self.notificationsRef == oldSelf.notificationsRef",
            "what was sent does not move; unset notificationsRef first, then name the other broker",
            ".notificationsRef",
        ),
    )

    notifications_ref: RabbitMQRef | None = None
    """Broker that takes the service's notifications (oslo.messaging's messagingv2) in a virtual host of their own,
    where each queue keeps the newest 256 MiB; unset sends none."""


class CacheSource(Model):
    """Where a service caches tokens."""

    memcached_ref: MemcachedRef = MemcachedRef(name="memcached")
    """The cache."""


class ResultsSource(CacheSource):
    """Where a service caches tokens and what it has worked out."""

    backend: Literal["oslo_cache.memcache_pool", "dogpile.cache.pymemcache"] = "oslo_cache.memcache_pool"
    """How oslo.cache talks to it. dogpile.cache.pymemcache has no timeout: a server that is cut off, not merely gone,
    stalls whoever asks it for minutes."""


class IdentitySource(Model):
    """Who authenticates a service."""

    keystone_ref: Annotated[KeystoneRef, validated(immutable("keystoneRef"))] = KeystoneRef(name="keystone")
    """Keystone that authenticates this service and lists its endpoints. Cannot be changed."""


class UsesDatabase(Model):
    """Mixed into the spec of a service that keeps its state in SQL."""

    database: DatabaseSource = DatabaseSource()
    """Database of this service."""


class UsesMessaging(Model):
    """Mixed into the spec of a service that talks over RabbitMQ."""

    messaging: ServiceMessaging = ServiceMessaging()
    """Broker of this service."""


class UsesCache(Model):
    """Mixed into the spec of a service that caches in Memcached."""

    cache: CacheSource = CacheSource()
    """Cache of this service."""


class CachesResults(Model):
    """Mixed into the spec of a service that also remembers what it has worked out."""

    cache: ResultsSource = ResultsSource()
    """Cache of this service."""


class UsesIdentity(Model):
    """Mixed into the spec of a service that authenticates with Keystone."""

    keystone: IdentitySource = IdentitySource()
    """Identity of this service."""
