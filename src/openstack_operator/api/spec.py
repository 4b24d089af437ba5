"""Fields that the specs of services share; a mixin states a dependency, and the engine does the rest."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field

from .fields import (
    Annotations,
    Cidr,
    HostOrAddress,
    Image,
    Labels,
    Name,
    Opaque,
    Opaques,
    Policies,
    Port,
    Region,
    ReleaseName,
    Replicas,
    Schedule,
    Sections,
    StorageSize,
    bounded,
    image_object,
    immutable_optional,
)
from .model import REPLACES_PODS, CalledOtherwise, Model, Rule, by_group, rule
from .observability import UsesMonitoring
from .pod_extras import Resources, UsesEnvironment, UsesPodExtras
from .refs import Dependency, PKIRef, SecretRef
from .service_access import ServiceAccess


class PodSettings(Model):
    """Placement and size of pods; set on a service for all its components, or on one component."""

    image_fields = ("image",)

    image: Annotated[Image, bounded(512)] | None = None
    """Image to run instead of the release's. A change replaces the pods."""
    resources: Resources | None = None
    """Requests and limits of the main container. A change replaces the pods."""
    node_selector: Labels | None = None
    """Labels of the nodes to run on, in place of the default label. A change replaces the pods."""
    tolerations: Annotated[Opaques, bounded(64)] | None = None
    """Taints of nodes that the pods tolerate. A change replaces the pods."""
    affinity: Opaque | None = None
    """Kubernetes affinity of the pods. A change replaces the pods. A required podAntiAffinity selects pods of this
    namespace only."""
    anti_affinity: Literal["soft", "hard"] | None = None
    """Placement of a program's pods on different nodes, `soft` if unset. With `soft`, pods share a node if there are
    too few nodes. With `hard`, a pod stays pending without a free node. A change replaces the pods. A podAntiAffinity
    in `affinity` replaces either. Has no effect on programs that run once on every node."""
    topology_spread_constraints: Annotated[Opaques, bounded(8)] | None = None
    """Spread of a program's pods, for example over zones. A change replaces the pods. A constraint without a
    labelSelector gets that of the program's pods. Has no effect on programs that run once on every node."""
    priority_class_name: Annotated[Name, bounded(253)] | None = None
    """PriorityClass of the pods. A change replaces the pods. Classes that begin with `system-` need the operator's flag
    `--priority-classes`."""


class Purge(PodSettings):
    """Removal of the database rows of what was deleted."""

    enabled: bool = True
    """Run this removal. False keeps the data."""
    schedule: Schedule
    """Time of the removal, as a cron expression in UTC."""
    keep: Annotated[str, Field(max_length=6, pattern=r"^[0-9]+d$")] = "30d"
    """Age of the rows at their removal, in days."""

    @property
    def days(self) -> int:
        """`keep` as a number."""
        return int(self.keep.removesuffix("d"))


AGENT = ("image", "node_selector", "tolerations")
"""Settings of pods that decide what runs on which nodes: `on_nodes` of programs that are root there."""


class AgentSettings(PodSettings):
    """Placement and size of pods that run as root on their nodes."""

    on_nodes = AGENT


class ComponentSettings(PodSettings):
    """One program of a service; unset fields take the service's values."""

    replicas: Replicas | None = None
    """Number of pods, the service's `replicas` if unset."""


class Autoscaling(Model):
    """HorizontalPodAutoscaler, which sets the number of pods by their load; needs a metrics-server."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
            "minReplicas is above maxReplicas; lower it, or raise maxReplicas",
            ".minReplicas",
        ),
    )

    min_replicas: Annotated[int, Field(ge=1, le=32)] = 2
    """Minimum number of pods."""
    max_replicas: Annotated[int, Field(ge=1, le=32)]
    """Maximum number of pods."""
    cpu_utilization: Annotated[int, Field(ge=1, le=1000)] = 80
    """Target for the pods' average CPU use, in percent of the CPU request."""


class Scalable(ComponentSettings):
    """A program whose number of pods may follow its load."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.autoscaling) || !has(self.replicas)",
            "autoscaling sets the number of pods; remove replicas",
            ".replicas",
        ),
        rule(
            "!has(self.autoscaling) || (has(self.resources) && has(self.resources.requests)"
            " && has(self.resources.requests.cpu))",
            "autoscaling compares with the CPU request; set resources.requests.cpu",
            ".autoscaling",
        ),
    )

    autoscaling: Autoscaling | None = None
    """Autoscaling of the number of pods by CPU use, instead of `replicas`."""


class HttpApi(Scalable):
    """An API over HTTP."""

    processes: Annotated[int, Field(ge=1, le=64)] | None = None
    """Maximum number of worker processes per pod. A pod of Nova, Cinder, Heat or Designate starts one, and another one
    whenever all have been busy for three seconds; others start all at once. A process of these four, Neutron or
    Keystone answers one request at a time. Unset is 8 for Nova, 4 for Cinder and Heat, 2 for Neutron, Keystone,
    Octavia, Designate and Nova's metadata, 1 for others. A change replaces the pods."""


class Ingress(Model):
    """An Ingress, for the controller that serves it. The operator's annotations let the controllers of nginx and both
    of haproxy accept large and long requests, and use TLS to an API that has it; for others, add your own annotations.
    """

    class_name: Name | None = None
    """IngressClass, the cluster's default if unset."""
    secret_name: Name | None = None
    """Secret with the certificate of the host. If unset, the controller uses its default certificate, or, with an
    annotation `cert-manager.io/issuer` or `cert-manager.io/cluster-issuer`, one that cert-manager issues."""
    annotations: Annotations = {}
    """Annotations of the Ingress, merged over the operator's. Allowed are those for cert-manager's issuer, timeouts and
    sizes. Others need the operator's flag `--ingress-annotations`."""


class GatewayParent(Model):
    """A Gateway, as in `parentRefs` of an HTTPRoute."""

    name: Name
    """Name of the Gateway."""
    namespace: Name | None = None
    """Namespace of the Gateway, this one if unset. The Gateway must accept routes from this namespace."""
    section_name: Name | None = None
    """Listener of the Gateway; if unset, every listener that accepts the host."""
    port: Port | None = None
    """Port of the listener, if its name does not identify it."""


class Gateway(Model):
    """A route of the Gateway API; the cluster must have its CRDs (`httproutes`, and `backendtlspolicies` with TLS)."""

    parent_refs: Annotated[list[GatewayParent], Field(min_length=1, max_length=8)]
    """Gateways that serve the route and hold the certificate of the host."""
    annotations: Annotations = {}
    """Annotations of the route, for example for external-dns. Other annotations need the operator's flag
    `--service-annotations`."""


# A control plane's template leaves out what is not set.
_PROXIED = "(has(self.type) && self.type in ['Ingress', 'Gateway'])"


class Exposure(ServiceAccess):
    """Access for clients outside the Kubernetes cluster."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.type) || self.type != 'Gateway' || has(self.gateway)",
            "type Gateway needs a Gateway; set gateway.parentRefs",
            ".gateway",
        ),
        rule(
            f"!has(self.port) || {_PROXIED}",
            "only types Ingress and Gateway take a port; remove it",
            ".port",
        ),
    )

    type: Literal["ClusterIP", "NodePort", "LoadBalancer", "Ingress", "Gateway"] = "ClusterIP"
    """Type of the API's Service, or the proxy before it. An Ingress or a Gateway terminates the TLS of clients."""
    ingress: Ingress | None = None
    """Settings of the Ingress, for type Ingress."""
    gateway: Gateway | None = None
    """Settings of the route, for type Gateway."""
    port: Port | None = None
    """HTTPS port of the Ingress or the Gateway, 443 if unset."""


_DNS = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+$"


def host_rules(field: str) -> tuple[Rule, ...]:
    """Return CEL rules that require a DNS name for what is behind a proxy."""
    text = f"self.{field}"
    return (
        rule(f"!{_PROXIED} || has({text})", f"types Ingress and Gateway need a host name; set {field}", f".{field}"),
        rule(
            f"!{_PROXIED} || !has({text}) || ({text}.matches('{_DNS}') && !{text}.matches('[.][0-9]+$'))",
            "not a DNS name in lower case; write one such as keystone.cloud.example.org",
            f".{field}",
        ),
    )


class Expose(Exposure):
    """Access to an API for clients outside the Kubernetes cluster."""

    rules: ClassVar[tuple[Rule, ...]] = host_rules("host")

    host: HostOrAddress | None = None
    """Name or address that outside clients use. It becomes the public endpoint in the catalog. With Ingress and Gateway
    only the API has it: with `nova.example.org` the consoles of a cell are at `nova-cell1-novncproxy.example.org`."""


class NetworkPolicies(Model):
    """Restriction of connections to pods; needs a network of Kubernetes that enforces NetworkPolicies. Each service
    closes its own pods and opens those of other services that it uses: turn it on for a whole cloud, or for every
    service of one.
    """

    enabled: bool = False
    """Accept connections to pods only from the pods that use them. If false, every client can reach the APIs, and all
    pods of this operator in the namespace can reach databases, brokers and caches, which are always closed to other
    clients. A change replaces no pod."""
    nodes: Annotated[list[Cidr], Field(max_length=64)] = []
    """Networks of the nodes, for programs with host networking such as nova-compute and ovn-controller, which
    NetworkPolicies cannot select. Include tunnel addresses of the Kubernetes network, if any. If unset, the ports of
    these programs are open to every client."""
    allow_from: Annotated[Opaques, bounded(32)] = []
    """Further clients of every port, each a Kubernetes NetworkPolicyPeer, such as monitoring or backups. For databases,
    brokers and caches, this and `nodes` also apply without `enabled`."""


def as_c5c3(model: Model, dumped: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a model's dump to the form of c5c3's groups: images as objects, and fields by their names there."""
    converted = dict(dumped)
    for name, info in type(model).model_fields.items():
        value, key = getattr(model, name), info.alias or name
        if key not in converted or value is None:
            continue
        if isinstance(model, PodSettings) and name == "image":
            converted[key] = image_object(value)
        elif isinstance(value, Model):
            converted[key] = as_c5c3(value, converted[key])
        elif isinstance(value, list):
            pairs = zip(cast("list[Any]", value), converted[key], strict=True)
            converted[key] = [as_c5c3(each, out) if isinstance(each, Model) else out for each, out in pairs]
    names = model.c5c3_names if isinstance(model, CalledOtherwise) else {}
    return {names.get(name, name): value for name, value in converted.items()}


class RunSpec(PodSettings, UsesPodExtras, defer_build=True):
    """Fields of everything that runs pods."""

    on_change = REPLACES_PODS

    release: ReleaseName = "2025.1"
    """OpenStack release to run. A change replaces the pods whose image differs."""
    image_profile: Literal["debian", "kolla"] = "debian"
    """Set of images of that release. This project builds `debian` from Debian's packages; OpenStack's Kolla builds
    `kolla`. A change replaces the pods whose image differs."""
    network_policies: NetworkPolicies = NetworkPolicies()
    """NetworkPolicies for the pods."""


class CertificateSource(Model):
    """Source of a service's certificate; without one, the service has none."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule("!has(self.pkiRef) || !has(self.secretRef)", "pkiRef and secretRef exclude each other", ".secretRef"),
    )

    pki_ref: PKIRef | None = None
    """PKI that issues the certificate. Clients trust its authority."""
    secret_ref: SecretRef | None = None
    """Your own certificate, a Secret with `tls.crt`, `tls.key` and `ca.crt`. Clients verify the certificate with
    `ca.crt`. A later change of the Secret takes effect if it is valid. Otherwise the last valid certificate stays in
    use."""
    announced: bool = True
    """Configure clients to use TLS, also in the catalog of APIs. With false, clients only get the authority to verify
    the certificate, and the service accepts connections with and without TLS. A control plane sets false by itself
    while the programs of a running cloud begin to trust the authority."""
    required: bool = False
    """Refuse connections without TLS, once clients are configured to use it. In a running cloud, set this when no
    client connects without TLS any more."""


class UsesTLS(Model):
    """Mixed into the spec of a service that can be reached through TLS."""

    tls: CertificateSource | None = None
    """Encryption of clients' connections, none if unset. Clients that this operator configures verify the certificate
    and its names."""


class Upgrade(Model):
    """A look at another release before an upgrade to it, and its end."""

    check_release: ReleaseName | None = None
    """Release to check without an upgrade. A job with its images checks this configuration and the database, and the
    condition PreflightReady has the result. Every upgrade begins with the same check."""
    complete: bool = True
    """Run the last step of an upgrade once all programs have the new release. With false, the upgrade stops before this
    step, and you can still go back. Afterwards, only a backup restores the old release."""


class UsesPolicies(Model):
    """Mixed into the spec of a service whose API judges requests by rules of oslo.policy."""

    policies: Policies = {}
    """Policy rules of the API (policy.yaml) that override its defaults: name and rule. The operator refuses unknown
    names, rules that oslo.policy cannot parse, and rules that it sets itself. A change replaces the pods that read
    them."""


class ServiceSpec(RunSpec, UsesEnvironment, UsesTLS, UsesMonitoring):
    """Fields every OpenStack service has."""

    replicas: Replicas = 1
    """Number of pods of each scalable program of the service."""
    region: Region = "RegionOne"
    """OpenStack region of this service. Cannot be changed."""
    config: Sections = {}
    """Extra options, merged over the operator's defaults: section, option, value. The operator refuses an option that
    it sets itself (addresses, passwords), and a value that no program of the release takes: see the condition
    ConfigValid. A change replaces the pods that read them."""
    expose: Expose = Expose()
    """Access to the API for clients outside the cluster."""
    upgrade: Upgrade = Upgrade()
    """Settings of release checks and upgrades."""
    depends_on: Annotated[list[Dependency], Field(max_length=32)] = []
    """Conditions of other resources that must be true before pods of APIs, workers and agents start for the first time.
    The operator already waits for the resources that the service uses."""

    def default_counts(self, existing: Mapping[str, Any] | None) -> dict[str, Any]:
        return {"replicas": 2}

    @property
    def runs_release(self) -> str:
        """Release that the spec names, and its programs run."""
        return self.release


_CLASS_STAYS = {
    **immutable_optional("storageClassName", "the storage class"),
    # By its earlier name it is the same.
    "rule": "(has(self.storageClassName) ? self.storageClassName : '') == (has(oldSelf.storageClassName) ? "
    "oldSelf.storageClassName : has(oldSelf.storageClass) ? oldSelf.storageClass : '')",
}


class UsesStorageClass(CalledOtherwise):
    """Mixed into what names the StorageClass of volumes, as `storage_class_name`."""

    rules: ClassVar[tuple[Rule, ...]] = (
        by_group(ours=_CLASS_STAYS, theirs=immutable_optional("storageClass", "the storage class")),
    )
    renamed: ClassVar[Mapping[str, str]] = {"storageClass": "storageClassName"}
    c5c3_names: ClassVar[Mapping[str, str]] = {"storageClassName": "storageClass"}


class UsesVolume(UsesStorageClass):
    """Mixed into the spec of a service whose members keep a volume each."""

    storage_size: StorageSize = "10Gi"
    """Size of each member's volume. It may grow where the StorageClass allows it, never shrink."""
    storage_class_name: Name | None = None
    """StorageClass of the volumes, the cluster's default if unset. Cannot be changed later."""
    retention: Literal["Retain", "Delete"] = "Retain"
    """Keep or delete the volumes when this resource is deleted. A new resource of the same name uses retained volumes
    again."""
