"""Fields of Services that clients outside the cluster call, for their load balancers."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .fields import Address, Annotations, Cidr, bounded
from .model import Model, Rule, rule

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_CLASS = f"^({_LABEL}([.]{_LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"

LoadBalancerClass = Annotated[
    str,
    bounded(253),
    Field(
        json_schema_extra={
            "x-kubernetes-validations": [
                rule(
                    f"self.matches('{_CLASS}')",
                    "not a class; write a name, with or without a domain, such as metallb or example.org/internal",
                )
            ]
        }
    ),
]
"""A class of load balancers."""


class ServiceAccess(Model):
    """A Service that clients outside call."""

    rules: ClassVar[tuple[Rule, ...]] = ()

    annotations: Annotations = {}
    """Annotations of the Service for the load balancer, such as `metallb.io/loadBalancerIPs`. Other annotations need
    the operator's flag `--service-annotations`."""
    load_balancer_class: LoadBalancerClass | None = None
    """Class of the load balancer, the cluster's default if unset. Kubernetes refuses a change while the type is
    LoadBalancer."""
    load_balancer_ip: Annotated[Address | None, Field(alias="loadBalancerIP")] = None
    """IP address to request from the load balancer. Some implementations read an annotation instead."""
    load_balancer_source_ranges: Annotated[list[Cidr], Field(max_length=64)] = []
    """Client networks that the load balancer admits, all if unset."""
    external_traffic_policy: Literal["Cluster", "Local"] | None = None
    """Traffic policy for clients outside the cluster, `Cluster` if unset. `Local` keeps client addresses, and uses only
    pods on the receiving node."""
