"""Values of the charts, as models: defaults, descriptions and the schema that helm checks follow from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, WithJsonSchema

from ...admission.policy_names import OPERATOR
from ...api import Model
from ...kube import Object
from ...registry import EXTERNAL_KINDS, RESOURCES
from ...runtime.kubernetes.kinds import Catalog, optional_role
from ..deployment import API_SERVER_PORTS, container, pod

Port = Annotated[int, Field(ge=1, le=65535)]
Duration = Annotated[str, Field(pattern=r"^([0-9]+(ms|s|m|h))*$")]
Objects = list[Object]

OPTIONAL_ROLES = sorted(
    {
        optional_role(kind).removeprefix(f"{OPERATOR}-")
        for kind in Catalog(RESOURCES, EXTERNAL_KINDS).all
        if kind.optional
    }
)
"""Names of optional roles, as those of the files in deploy/optional-roles."""
_SWITCHES = {
    "type": "object",
    "additionalProperties": False,
    "properties": {name: {"type": "boolean"} for name in OPTIONAL_ROLES},
}


class Values(Model):
    """Values of a chart. Helm refuses those that it does not have."""

    model_config = ConfigDict(extra="forbid")


class Image(Values):
    """Image of the operator."""

    repository: Annotated[str, Field(min_length=1)] = OPERATOR
    """Registry and name, for example `registry.example.org/openstack-operator/operator`."""
    tag: str = ""
    """Tag; empty is the version of the chart, unless there is a digest."""
    digest: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")] = ""
    """Digest (`sha256:…`): nodes run this content, whatever the registry has under the tag."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """Moment at which nodes pull the image."""


class LocalReference(Values):
    """Reference to a Secret in the namespace of the pod."""

    name: str
    """Name of the Secret."""


class Account(Values):
    """ServiceAccount of another program."""

    name: str
    """Name of the ServiceAccount."""
    namespace: str
    """Namespace of the ServiceAccount."""


class Definitions(Values):
    """Custom resource definitions, which are part of the release: an upgrade of the chart upgrades them."""

    enabled: bool = True
    """Install the definitions of `openstack.k8s.io`. They stay when you uninstall the chart or set this to false."""
    c5c3: Annotated[bool, Field(alias="c5c3")] = False
    """Install the definitions of c5c3's groups, too."""


class Admission(Values):
    """Policies of admission: who may decide what runs on nodes as root, and what the operator may change of pods."""

    enabled: bool = True
    """Install the policies."""


class LabelsInjector(Values):
    """Labels injector: a program that gives each pod the labels of its node, in the namespace `labels-injector`."""

    enabled: bool = False
    """Install the program with its namespace."""


class ServiceMonitor(Values):
    """ServiceMonitor of Prometheus' operator, with a Service."""

    enabled: bool = False
    """Create both. The cluster needs the kind ServiceMonitor (monitoring.coreos.com)."""
    labels: dict[str, str] = {}
    """Labels of the ServiceMonitor, by which a Prometheus chooses it."""
    interval: Duration = ""
    """Time between two scrapes; empty is the default of Prometheus."""
    scrape_timeout: Duration = ""
    """Time limit of a scrape; empty is the default of Prometheus."""


class Metrics(Values):
    """Metrics of the operator, by HTTPS."""

    enabled: bool = True
    """Serve metrics at port 8443."""
    readers: list[Account] = []
    """ServiceAccounts that may read the metrics, such as that of Prometheus."""
    certificate_secret_name: str = ""
    """Secret with `tls.crt`, `tls.key` and `ca.crt` for `openstack-operator-metrics.NAMESPACE.svc`. Without it, the
    operator makes a certificate that clients cannot check."""
    service_monitor: ServiceMonitor = ServiceMonitor()
    """ServiceMonitor of Prometheus' operator."""


class Dashboards(Values):
    """Dashboards of Grafana for clouds and the operator, each a ConfigMap."""

    enabled: bool = False
    """Create the ConfigMaps, which the sidecar of Grafana's chart finds."""
    labels: dict[str, str] = {"grafana_dashboard": "1"}
    """Labels by which Grafana finds them."""
    annotations: dict[str, str] = {}
    """Annotations, for example `grafana_folder: OpenStack`."""


class NetworkPolicy(Values):
    """NetworkPolicies of the operator's pods, and of those of the labels injector."""

    enabled: bool = True
    """Create them."""
    api_server_ports: list[Port] = list(API_SERVER_PORTS)
    """Ports that pods reach at every address. One of them has to be that of the API server."""


class PodDisruptionBudget(Values):
    """PodDisruptionBudget of the operator."""

    enabled: bool = True
    """Let a drain of nodes evict one pod of the operator at a time."""


class Logging(Values):
    """Log of the operator."""

    level: Literal["info", "debug"] = "info"
    """Least level to log."""
    format: Literal["json", "console"] = "json"
    """Form of a line; `json` is for programs."""


class OperatorValues(Values):
    """Values of the chart openstack-operator."""

    replica_count: Annotated[int, Field(ge=0)] = 2
    """Number of pods of the operator: one acts, the others stand by. 0 pauses every cloud; clouds run on."""
    image: Image = Image()
    """Image of the operator."""
    image_pull_secrets: list[LocalReference] = []
    """Secrets with logins to registries, in the namespace of the release. Pods of clouds have their own."""
    releases: dict[str, str] = {}
    """Files with the images of OpenStack's releases, by name (`2025.1.yaml`): output of `python -m images release`.
    Without one, the files in the operator's image apply."""
    watch_namespaces: list[Annotated[str, Field(min_length=1)]] = []
    """Namespaces to serve. The operator then has rights in these alone; they have to exist. Empty is all namespaces."""
    optional_roles: Annotated[dict[str, bool], WithJsonSchema(_SWITCHES)] = dict.fromkeys(OPTIONAL_ROLES, True)
    """Rights to the kinds of other projects. Without a right everything else runs."""
    crds: Definitions = Definitions()
    """Custom resource definitions, which an upgrade of the chart upgrades."""
    admission: Admission = Admission()
    """Policies of admission: who may decide what runs on nodes as root, and what the operator may change of pods."""
    labels_injector: LabelsInjector = LabelsInjector()
    """Labels injector: a program that gives each pod the labels of its node, in the namespace `labels-injector`."""
    metrics: Metrics = Metrics()
    """Metrics of the operator, by HTTPS, for accounts that may read them."""
    dashboards: Dashboards = Dashboards()
    """Dashboards of Grafana for clouds and the operator, each a ConfigMap."""
    network_policy: NetworkPolicy = NetworkPolicy()
    """NetworkPolicies of the operator's pods, and of those of the labels injector."""
    pod_disruption_budget: PodDisruptionBudget = PodDisruptionBudget()
    """PodDisruptionBudget of the operator."""
    logging: Logging = Logging()
    """Log of the operator."""
    extra_args: list[str] = []
    """Further arguments of `openstack-operator run`, for example `--cluster-domain=cluster.example`."""
    extra_env: Objects = []
    """Further environment variables, for example `{name: OPERATOR_BUILD, value: 3d4c}`."""
    resources: Object = container()["resources"]
    """Requests and limits of the operator's container."""
    node_selector: dict[str, str] = {}
    """Labels of nodes for the operator's pods."""
    tolerations: Objects = pod()["tolerations"]
    """Taints that the operator's pods tolerate. The default ones move a pod away from a lost node after 30 s."""
    affinity: Object = pod()["affinity"]
    """Affinity of the operator's pods. The default one prefers different nodes."""
    priority_class_name: str = ""
    """PriorityClass of the operator's pods."""
    pod_annotations: dict[str, str] = {}
    """Annotations of the operator's pods."""
    pod_labels: dict[str, str] = {}
    """Further labels of the operator's pods."""


class CloudValues(Values):
    """Values of the chart openstack-cloud."""

    name: Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$")] = "cloud"
    """Name of the OpenStackControlPlane. A namespace has one cloud."""
    labels: dict[str, str] = {}
    """Labels of the OpenStackControlPlane."""
    annotations: dict[str, str] = {}
    """Annotations of the OpenStackControlPlane."""
    spec: dict[str, Any] = {}
    """Spec of the OpenStackControlPlane. `openstack-operator explain oscp` and `kubectl explain oscp.spec` describe its
    fields."""
