"""What users write to get a RabbitMQ."""

from __future__ import annotations

from typing import ClassVar

from ...api import Column, OptionValue, QuorumReplicas, Resource, Rule, RunSpec, UsesTLS, UsesVolume, rule


class RabbitMQSpec(RunSpec, UsesVolume, UsesTLS):
    """RabbitMQ: the broker services send their RPC through."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.replicas) || !has(oldSelf.replicas) || self.replicas >= oldSelf.replicas",
            "members cannot be taken away, since the others would wait for them; keep the old number",
            ".replicas",
        ),
    )

    replicas: QuorumReplicas = 1
    """Members of the cluster. More may be added later, none taken away: those left would wait for them."""
    config: dict[str, OptionValue] = {}
    """Extra lines of rabbitmq.conf, merged over the operator's defaults: key, value. A key the operator wires itself
    is refused."""


RABBITMQ = Resource(
    kind="RabbitMQ",
    plural="rabbitmqs",
    spec=RabbitMQSpec,
    columns=(Column("Replicas", ".spec.replicas", "integer"), Column("Storage", ".spec.storageSize")),
)
