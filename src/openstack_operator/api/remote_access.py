"""Access for programs outside of the Kubernetes cluster that belong to the cloud."""

from typing import ClassVar, Literal

from .fields import HostOrAddress
from .model import Rule, rule
from .service_access import ServiceAccess


class RemoteAccess(ServiceAccess):
    """A Service for clients outside the Kubernetes cluster, beside the one for clients within."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "(has(self.type) && self.type == 'LoadBalancer') || has(self.host)",
            "type NodePort needs the name or address of a node; set host",
            ".host",
        ),
    )

    type: Literal["NodePort", "LoadBalancer"] = "NodePort"
    """Type of this Service."""
    host: HostOrAddress | None = None
    """Name or address of the Service for these clients; if unset, the address that the load balancer reports."""
