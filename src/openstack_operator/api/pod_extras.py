"""Fields of pods beyond the operator's own: annotations, labels, sizes of side containers, and variables."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from .destinations import UNKNOWN
from .fields import Annotations, Labels, Quantity, Url, bounded
from .model import KEY_TEXTS, Destination, Model
from .refs import SecretRef

_KEY_TEXTS = {"cpu": "CPU cores, such as `500m` or `2`.", "memory": "Memory, such as `512Mi`."}
_Amounts = Annotated[
    dict[Literal["cpu", "memory"], Quantity], Field(json_schema_extra={KEY_TEXTS: dict[str, Any](_KEY_TEXTS)})
]


class Resources(Model):
    """Resources a container requests, and its limits."""

    requests: _Amounts = {}
    """Resources that Kubernetes reserves for the container."""
    limits: _Amounts = {}
    """Maximum resources that the container may use."""


class UsesPodExtras(Model):
    """Mixed into what runs pods."""

    pod_annotations: Annotations = {}
    """Annotations of the pods, except pods that run on nodes as root. Annotations that change meshes or container
    runtimes need the operator's flag `--pod-metadata`. A change replaces the pods."""
    pod_labels: Labels = {}
    """Labels of the pods, except pods that run on nodes as root. They need the operator's flag `--pod-metadata`. A
    change replaces the pods."""
    default_resources: Resources | None = None
    """Default requests and limits of all containers, including TLS proxies, exporters and init containers. With limits
    of cpu here, a quota on `limits.cpu` admits every pod. A change replaces the pods."""


class Proxy(Model):
    """Proxy for HTTP requests to servers outside the cluster."""

    http_proxy: Url | None = None
    """URL of the proxy for HTTP requests."""
    https_proxy: Url | None = None
    """URL of the proxy for HTTPS requests."""
    no_proxy: Annotated[list[Annotated[str, bounded(253)]], bounded(64)] = []
    """Names, domains and networks to reach without the proxy, besides those of the cluster."""


class VariablesSecretRef(SecretRef):
    """A Secret in the same namespace whose keys are names of variables."""

    def destinations(self) -> Sequence[Destination]:
        """Return the destination of the Secret: any server."""
        return [Destination("name", self.name, (UNKNOWN,))]


class UsesEnvironment(Model):
    """Mixed into services whose programs call servers outside the cluster."""

    env: Annotated[dict[str, Annotated[str, bounded(4096)]], bounded(64)] = {}
    """Environment variables of the pods, except pods that run on nodes as root. A change replaces the pods."""
    env_secret_ref: VariablesSecretRef | None = None
    """Secret whose keys become environment variables. Programs could send these values anywhere, so the Secret must
    allow every host: annotate it with `openstack.k8s.io/allowed-hosts: "*"`."""
    proxy: Proxy = Proxy()
    """Proxy for requests to servers outside the cluster. A change replaces the pods."""


def pod_extras(spec: UsesPodExtras, proxy: Proxy) -> dict[str, Any]:
    """Return the fields that a cloud hands on to its services, as users write them; none that is unset."""
    resources = spec.default_resources
    extras = {
        "podAnnotations": spec.pod_annotations,
        "podLabels": spec.pod_labels,
        "defaultResources": resources.model_dump(exclude_defaults=True) if resources else {},
        "proxy": proxy.model_dump(by_alias=True, exclude_defaults=True),
    }
    return {name: value for name, value in extras.items() if value}
