"""What users write to get a RabbitMQ."""

from __future__ import annotations

from typing import ClassVar, Literal

from ...api import (
    PROVIDED,
    Column,
    ExternalBroker,
    Options,
    QuorumReplicas,
    Resource,
    Rule,
    RunSpec,
    UsesMonitoring,
    UsesTLS,
    UsesVolume,
    rule,
)


class RabbitMQSpec(RunSpec, UsesVolume, UsesTLS, UsesMonitoring):
    """RabbitMQ: the broker services send their RPC through."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.replicas) || !has(oldSelf.replicas) || self.replicas >= oldSelf.replicas",
            "members cannot be taken away, since the others would wait for them; keep the old number",
            ".replicas",
        ),
        *PROVIDED,
    )

    provider: Literal["auto", "builtin", "rabbitmq-cluster-operator", "external"] = "builtin"
    """Who runs it: this operator, RabbitMQ's cluster operator by a RabbitmqCluster, or somebody else. Without TLS the
    messaging topology operator, where it is there, makes virtual hosts and users on a RabbitmqCluster. `auto` is
    rabbitmq-cluster-operator where the cluster has its kind, and builtin otherwise. It stays as it was at first. In a
    ControlPlane of c5c3.io unset is auto."""
    external: ExternalBroker | None = None
    """Where it is, with provider external."""
    replicas: QuorumReplicas = 1
    """Members of the cluster. More may be added later, none taken away: those left would wait for them."""
    config: Options = {}
    """Extra lines of rabbitmq.conf, merged over the operator's defaults: key, value. A key the operator wires itself
    is refused."""


RABBITMQ = Resource(
    kind="RabbitMQ",
    plural="rabbitmqs",
    spec=RabbitMQSpec,
    columns=(Column("Replicas", ".spec.replicas", "integer"), Column("Storage", ".spec.storageSize")),
)
