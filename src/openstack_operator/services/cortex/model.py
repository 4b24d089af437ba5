"""What users write to get a Cortex."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from ...api import (
    Column,
    DatabaseName,
    Dependency,
    Destination,
    Image,
    Model,
    OptionalSecretRef,
    Replicas,
    Resource,
    Rule,
    RunSpec,
    Scale,
    Url,
    UsesMonitoring,
    UsesTLS,
    rule,
    sent,
)

Part = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
"""Name of a filter or weigher."""


class CortexDatabase(Model):
    """A PostgreSQL."""

    secret_ref: OptionalSecretRef
    """Secret with what it takes to log in; the image reads its keys as files of /etc/cortex/database."""
    database: DatabaseName = "cortex"
    """Name of the database."""


class CortexIdentity(Model):
    """Who authenticates it."""

    auth_url: Url
    """URL of Keystone's API, with its version."""
    app_credential_ref: OptionalSecretRef
    """Secret with an application credential; the image reads its keys as files of /etc/cortex/keystone."""

    def destinations(self) -> Sequence[Destination]:
        """That Keystone."""
        return sent({"appCredentialRef": self.app_credential_ref}, self.auth_url)


class CortexFilter(Model):
    """Refuses hosts."""

    name: Part
    """AvailabilityZoneFilter or ComputeCapabilitiesFilter; of an image of Cortex itself, what it has."""


class CortexWeigher(Model):
    """Prefers hosts."""

    name: Part
    """CPUWeigher, DiskWeigher, IoOpsWeigher, NumInstancesWeigher or RAMWeigher; of an image of Cortex itself, what it
    has."""
    weight: float = 1.0
    """How much it counts beside the others; a negative one prefers hosts that have less."""


class Pipeline(Model):
    """How hosts are ranked for one service, which asks at `/scheduler/<service>/external`: filters, then the sum of
    weighers; where that is equal, the order of who asks holds."""

    enabled: bool = False
    """Whether it answers."""
    filters: Annotated[list[CortexFilter], Field(max_length=32)] = []
    """Each may refuse hosts."""
    weighers: Annotated[list[CortexWeigher], Field(max_length=32)] = []
    """Their sum is the order."""


class NovaPipeline(Pipeline):
    """How nodes are ranked for Nova, which asks with `scheduler.externalScheduler`."""

    enabled: bool = True
    """Whether it answers."""
    filters: Annotated[list[CortexFilter], Field(max_length=32)] = [
        CortexFilter(name="AvailabilityZoneFilter"),
        CortexFilter(name="ComputeCapabilitiesFilter"),
    ]
    """Each may refuse hosts."""
    weighers: Annotated[list[CortexWeigher], Field(max_length=32)] = [
        CortexWeigher(name="RAMWeigher"),
        CortexWeigher(name="CPUWeigher"),
    ]
    """Their sum is the order."""


class Pipelines(Model):
    """Who may ask."""

    nova: NovaPipeline = NovaPipeline()
    """Nodes for servers."""
    cinder: Pipeline = Pipeline()
    """Backends for volumes. Cinder itself does not ask."""


class Datasource(Model):
    """Something to learn from."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.enabled) || !self.enabled || has(self.endpoint)",
            "where it is is not said; set endpoint",
            ".endpoint",
        ),
    )

    enabled: bool = False
    """Whether it is read."""
    endpoint: Url | None = None
    """Where it is."""


class Datasources(Model):
    """What it learns from, of an image of Cortex itself."""

    prometheus: Datasource = Datasource()
    """Metrics of hosts and servers."""
    nova: Datasource = Datasource()
    """Servers, hypervisors and flavors, by Nova's API."""


class CortexSpec(RunSpec, UsesTLS, UsesMonitoring):
    """Cortex: a scheduler that others ask which of the hosts they have left is the best one. Without an `image` it is
    the operator's small reference implementation, which knows of hosts what it is told with each question, and nothing
    else."""

    replicas: Replicas = 1
    """Number of pods."""
    image: Image | None = None
    """An image of Cortex itself, which is given its configuration as `/etc/cortex/cortex.json`; unset is the reference
    implementation."""
    database: CortexDatabase | None = None
    """Where it keeps what it learns. Nothing for the reference implementation."""
    keystone: CortexIdentity | None = None
    """As whom it reads OpenStack's APIs. Nothing for the reference implementation."""
    pipelines: Pipelines = Pipelines()
    """Who may ask, and what decides."""
    datasources: Datasources = Datasources()
    """What it learns from. Nothing for the reference implementation."""
    depends_on: Annotated[list[Dependency], Field(max_length=32)] = []
    """What its pods wait for before they start for the first time."""


class CortexStatus(Model):
    """What a Cortex tells besides its conditions."""

    active_pipelines: Annotated[
        list[Annotated[str, Field(max_length=63)]],
        Field(max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = []
    """Pipelines that answer."""


CORTEX = Resource(
    kind="Cortex",
    plural="cortexes",
    group="cortex.c5c3.io",
    as_c5c3=True,
    spec=CortexSpec,
    scale=Scale("api"),
    status=CortexStatus,
    columns=(Column("Endpoint", ".status.endpoint"), Column("Pipelines", ".status.activePipelines", priority=1)),
)
