"""What users write to get a RabbitMQ."""

from __future__ import annotations

from ...api import Column, OptionValue, QuorumReplicas, Resource, RunSpec, UsesVolume


class RabbitMQSpec(RunSpec, UsesVolume):
    """RabbitMQ: the broker services send their RPC through."""

    replicas: QuorumReplicas = 1
    """Members of the cluster. More than one is not built yet and answered with a condition."""
    config: dict[str, OptionValue] = {}
    """Extra lines of rabbitmq.conf, merged over the operator's defaults: key, value. A key the operator wires itself
    is refused."""


RABBITMQ = Resource(
    kind="RabbitMQ",
    plural="rabbitmqs",
    spec=RabbitMQSpec,
    columns=(Column("Replicas", ".spec.replicas", "integer"), Column("Storage", ".spec.storageSize")),
)
