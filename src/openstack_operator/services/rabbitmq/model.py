"""Spec of a RabbitMQ."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...api import (
    PROVIDED,
    Column,
    ExternalBroker,
    Options,
    QuorumReplicas,
    RemoteAccess,
    Resource,
    Rule,
    RunSpec,
    UsesMonitoring,
    UsesTLS,
    UsesVolume,
    lasting_count,
    rule,
)


class RabbitMQSpec(RunSpec, UsesVolume, UsesTLS, UsesMonitoring):
    """RabbitMQ: the broker through which services send their RPC."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.replicas) || !has(oldSelf.replicas) || self.replicas >= oldSelf.replicas",
            "members cannot be removed, since the others would wait for them; keep the old number",
            ".replicas",
        ),
        rule("!has(self.version) || !has(self.image)", "image and version exclude each other; remove one", ".version"),
        *PROVIDED,
    )

    version: Annotated[str, Field(max_length=7, pattern=r"^\d{1,3}\.\d{1,3}$")] | None = None
    """Version of RabbitMQ, that of the release if unset. It must be one that the release offers. Set it for a new
    RabbitMQ: to change the version, move services to a second one."""

    provider: Literal["auto", "builtin", "rabbitmq-cluster-operator", "external"] = "builtin"
    """Operator that runs the broker: this one (`builtin`), RabbitMQ's cluster operator by a RabbitmqCluster, or none
    for an `external` broker. Without TLS the messaging topology operator, if the cluster has it, makes virtual hosts
    and users on a RabbitmqCluster. `auto` is rabbitmq-cluster-operator if the cluster has its kind, else builtin. The
    first choice cannot change. In a ControlPlane of c5c3.io unset is auto."""
    external: ExternalBroker | None = None
    """Address of the broker, with provider external."""
    replicas: QuorumReplicas = 1
    """Number of members of the cluster. You can add members later, but not remove any: the others would wait for
    them."""
    remote_access: RemoteAccess | None = None
    """Service `<name>-remote` for clients outside the Kubernetes cluster, none if unset. An example is nova-compute of
    another cluster. It serves only TLS (5671), and the certificate includes the Service's host. Needs `tls`."""
    config: Options = {}
    """Extra lines of rabbitmq.conf, merged over the operator's defaults: key, value. A key that the operator
    sets itself is refused."""

    def default_counts(self, existing: Mapping[str, Any] | None) -> dict[str, Any]:
        return {"replicas": lasting_count(3, existing)}


RABBITMQ = Resource(
    kind="RabbitMQ",
    plural="rabbitmqs",
    spec=RabbitMQSpec,
    columns=(Column("Replicas", ".spec.replicas", "integer"), Column("Storage", ".spec.storageSize")),
)
