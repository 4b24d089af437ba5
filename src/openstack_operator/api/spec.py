"""What the specs of services share; a mixin states a dependency, and the engine does the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field

from .fields import (
    Annotations,
    Cidr,
    Hostname,
    Image,
    Labels,
    Name,
    Opaque,
    Opaques,
    Port,
    Quantity,
    Region,
    ReleaseName,
    Replicas,
    Sections,
    StorageSize,
    bounded,
    image_object,
    settled,
)
from .model import CalledOtherwise, Model, Rule, by_group, rule
from .refs import Dependency, PKIRef, SecretRef


class Resources(Model):
    """What a container asks for and may use at most."""

    requests: dict[Literal["cpu", "memory"], Quantity] = {}
    """What the scheduler reserves."""
    limits: dict[Literal["cpu", "memory"], Quantity] = {}
    """What the container may use at most."""


class PodSettings(Model):
    """How pods are placed and sized; set on a service for all its components, or on one component."""

    image: Annotated[Image, bounded(512)] | None = None
    """Image to run instead of the release's."""
    resources: Resources | None = None
    """Requests and limits of the main container."""
    node_selector: Labels | None = None
    """Labels of the nodes to run on; replaces the default label."""
    tolerations: Annotated[Opaques, bounded(64)] | None = None
    """Taints the pods tolerate."""
    affinity: Opaque | None = None
    """Kubernetes affinity of the pods."""
    anti_affinity: Literal["soft", "hard"] | None = None
    """Whether pods of one program share a node: `soft` puts them on different ones where there are enough, `hard`
    leaves a pod pending rather than let it share. Unset is `soft`; a podAntiAffinity in `affinity` takes the place of
    either. What runs once on every node has no use for it."""
    topology_spread_constraints: Annotated[Opaques, bounded(8)] | None = None
    """How the pods of one program are spread, over zones for one; a constraint without a labelSelector gets that of the
    program's pods. Nothing for what runs once on every node."""
    priority_class_name: Annotated[Name, bounded(253)] | None = None
    """PriorityClass of the pods."""


AGENT = ("image", "node_selector", "tolerations")
"""Settings of pods that decide what runs on which nodes: `on_nodes` of programs that are root there."""


class AgentSettings(PodSettings):
    """How pods are placed and sized that are root on their nodes."""

    on_nodes = AGENT


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
    busy for three seconds; Keystone's and Neutron's all run from the start. Those of Nova, Neutron, Keystone and Cinder
    answer one request at a time. Unset is 8 for Nova, 4 for Cinder, 2 for Keystone and Nova's metadata, 1 for
    others."""


class Ingress(Model):
    """An Ingress, for the controller that serves it. Those of nginx and both of haproxy are told to let large and long
    requests through, and to call by TLS where the API has it; others by annotations of yours."""

    class_name: Name | None = None
    """IngressClass; unset is the cluster's default one."""
    secret_name: Name | None = None
    """Secret with the certificate of the host, which the controller shows. Unset is the controller's own one, or,
    with an annotation `cert-manager.io/issuer` or `cert-manager.io/cluster-issuer`, one that cert-manager makes."""
    annotations: Annotations = {}
    """Annotations, over the operator's: cert-manager's issuer, timeouts, sizes. Others need the operator's flag
    `--ingress-annotations`."""


class GatewayParent(Model):
    """A Gateway, as an HTTPRoute names it."""

    name: Name
    """Name of the Gateway."""
    namespace: Name | None = None
    """Its namespace; unset is this one. It must take routes from here."""
    section_name: Name | None = None
    """Its listener; unset is each that takes the host."""
    port: Port | None = None
    """Port of the listener, where its name does not say enough."""


class Gateway(Model):
    """A route of the Gateway API, whose CRDs are the cluster's (`httproutes`, and `backendtlspolicies` with TLS)."""

    parent_refs: Annotated[list[GatewayParent], Field(min_length=1, max_length=8)]
    """Gateways clients call; they have the certificate of the host."""


# A control plane's template leaves out what is not set.
_PROXIED = "(has(self.type) && self.type in ['Ingress', 'Gateway'])"


class Exposure(Model):
    """How clients outside the Kubernetes cluster come."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.type) || self.type != 'Gateway' || has(self.gateway)",
            "type Gateway needs to know which; set gateway.parentRefs",
            ".gateway",
        ),
        rule(
            f"!has(self.port) || {_PROXIED}",
            "the port is given by the Service's type; remove it",
            ".port",
        ),
    )

    type: Literal["ClusterIP", "NodePort", "LoadBalancer", "Ingress", "Gateway"] = "ClusterIP"
    """Type of the API's Service; or what stands before it and ends the TLS of clients."""
    ingress: Ingress | None = None
    """The Ingress; for type Ingress alone."""
    gateway: Gateway | None = None
    """The Gateway; for type Gateway alone."""
    port: Port | None = None
    """Port at which clients find the Ingress or the Gateway, by HTTPS; unset is 443."""


_DNS = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+$"


def named(field: str) -> tuple[Rule, ...]:
    """CEL rules: what stands behind a proxy has a name there."""
    text = f"self.{field}"
    return (
        rule(f"!{_PROXIED} || has({text})", f"types Ingress and Gateway need a name; set {field}", f".{field}"),
        rule(
            f"!{_PROXIED} || !has({text}) || ({text}.matches('{_DNS}') && !{text}.matches('[.][0-9]+$'))",
            "not a DNS name, which an Ingress and a Gateway choose by; write one in lower case, such as "
            "keystone.cloud.example.org",
            f".{field}",
        ),
    )


class Expose(Exposure):
    """How clients outside the Kubernetes cluster reach an API."""

    rules: ClassVar[tuple[Rule, ...]] = named("host")

    host: Hostname | None = None
    """Name or address outside clients use; goes into the public endpoint of the catalog. With Ingress and Gateway it is
    the API's alone: with `nova.example.org` the consoles of a cell are at `nova-cell1-novncproxy.example.org`."""


class NetworkPolicies(Model):
    """Who may reach pods; needs a network of Kubernetes that enforces NetworkPolicies. Each service shuts its own pods
    and opens those of others that it uses: turn it on for a whole cloud, or for every service of one.
    """

    enabled: bool = False
    """Let pods be reached only by those who use them. Otherwise everybody reaches APIs, and all pods of this operator's
    in the namespace reach its databases, brokers and caches, which are shut to others in any case."""
    nodes: Annotated[list[Cidr], Field(max_length=64)] = []
    """Networks that programs on the nodes' own network come from (nova-compute, ovn-controller and the like, which no
    policy can select): the addresses of the nodes, and those of their tunnels where Kubernetes' network has any. Unset
    leaves what they use open to everybody."""
    allow_from: Annotated[Opaques, bounded(32)] = []
    """Others who may reach every port, each a NetworkPolicyPeer as Kubernetes has it: what watches or backs up, and an
    operator whose pods have other labels than its manifest says. Databases, brokers and caches follow this, and
    `nodes`, also without `enabled`."""


class Monitoring(Model):
    """What a Prometheus is told."""

    enabled: bool = False
    """Whether programs tell of themselves at a port of their own, RabbitMQ and what stands before APIs with `tls`; and
    a PodMonitor of each is made, where the cluster has Prometheus' operator. A change makes their pods anew."""
    labels: Labels = {}
    """Labels of what is made for it, by which a Prometheus chooses: `release: prometheus`."""


class UsesMonitoring(Model):
    """Mixed into the spec of a service that can tell of itself."""

    monitoring: Monitoring = Monitoring()
    """What a Prometheus is told."""


def as_c5c3(model: Model, dumped: Mapping[str, Any]) -> dict[str, Any]:
    """What was dumped of a model, as kinds of c5c3's groups have it: images as objects, and fields by their names
    there.
    """
    made = dict(dumped)
    for name, info in type(model).model_fields.items():
        value, key = getattr(model, name), info.alias or name
        if key not in made or value is None:
            continue
        if isinstance(model, PodSettings) and name == "image":
            made[key] = image_object(value)
        elif isinstance(value, Model):
            made[key] = as_c5c3(value, made[key])
        elif isinstance(value, list):
            pairs = zip(cast("list[Any]", value), made[key], strict=True)
            made[key] = [as_c5c3(each, out) if isinstance(each, Model) else out for each, out in pairs]
    names = model.c5c3_names if isinstance(model, CalledOtherwise) else {}
    return {names.get(name, name): value for name, value in made.items()}


class RunSpec(PodSettings):
    """Fields of everything that runs pods."""

    release: ReleaseName = "2025.1"
    """OpenStack release to run."""
    image_profile: Literal["debian", "kolla"] = "debian"
    """Which set of images of that release."""
    network_policies: NetworkPolicies = NetworkPolicies()
    """Who may reach the pods."""


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


class ServiceSpec(RunSpec, UsesTLS, UsesMonitoring):
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
    depends_on: Annotated[list[Dependency], Field(max_length=32)] = []
    """What pods of APIs, workers and agents wait for before they start for the first time, besides what the service
    uses."""

    @property
    def runs_release(self) -> str:
        """Its programs are of the release it names."""
        return self.release


_CLASS_STAYS = {
    **settled("storageClassName", "the storage class"),
    # By its earlier name it is the same.
    "rule": "(has(self.storageClassName) ? self.storageClassName : '') == (has(oldSelf.storageClassName) ? "
    "oldSelf.storageClassName : has(oldSelf.storageClass) ? oldSelf.storageClass : '')",
}


class UsesStorageClass(CalledOtherwise):
    """Mixed into what names the StorageClass of volumes, as `storage_class_name`."""

    rules: ClassVar[tuple[Rule, ...]] = (
        by_group(ours=_CLASS_STAYS, theirs=settled("storageClass", "the storage class")),
    )
    renamed: ClassVar[Mapping[str, str]] = {"storageClass": "storageClassName"}
    c5c3_names: ClassVar[Mapping[str, str]] = {"storageClassName": "storageClass"}


class UsesVolume(UsesStorageClass):
    """Mixed into the spec of a service whose members keep a volume each."""

    storage_size: StorageSize = "10Gi"
    """Size of each member's volume; may grow where the StorageClass allows it, never shrink."""
    storage_class_name: Name | None = None
    """StorageClass of the volumes; unset takes the cluster's default. Cannot be changed later."""
    retention: Literal["Retain", "Delete"] = "Retain"
    """What becomes of the volumes when this resource is deleted. What is retained is used again by a resource of the
    same name."""
