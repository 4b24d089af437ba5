"""Spec of a Cortex."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from ...api import (
    Column,
    DatabaseName,
    Dependency,
    Destination,
    Image,
    Model,
    OptionalKeystoneSecretRef,
    OptionalSecretRef,
    Replicas,
    Resource,
    Rule,
    RunSpec,
    Scale,
    Url,
    UsesCloudPKI,
    UsesMonitoring,
    rule,
    sent,
)

Part = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
"""Name of a filter or weigher."""


class CortexDatabase(Model):
    """A PostgreSQL database."""

    secret_ref: OptionalSecretRef
    """Secret with the login. The image reads its keys as files in /etc/cortex/database."""
    database: DatabaseName = "cortex"
    """Name of the database. Cannot be changed."""


class CortexIdentity(Model):
    """Keystone at which Cortex logs in."""

    auth_url: Url
    """URL of Keystone's API, with its version."""
    app_credential_ref: OptionalKeystoneSecretRef
    """Secret with an application credential. The image reads its keys as files in /etc/cortex/keystone."""

    def destinations(self) -> Sequence[Destination]:
        """Return the API of that Keystone."""
        return sent({"appCredentialRef": self.app_credential_ref}, self.auth_url)


class CortexFilter(Model):
    """A filter, which refuses hosts."""

    name: Part
    """Name of the filter: AvailabilityZoneFilter or ComputeCapabilitiesFilter. With an image of Cortex itself, one of
    its filters."""


class CortexWeigher(Model):
    """A weigher, which prefers hosts."""

    name: Part
    """Name of the weigher: CPUWeigher, DiskWeigher, IoOpsWeigher, NumInstancesWeigher or RAMWeigher. With an image of
    Cortex itself, one of its weighers."""
    weight: float = 1.0
    """Multiplier of this weigher. A negative value prefers hosts with lower values."""


class Pipeline(Model):
    """Ranking of hosts for one service, which sends requests to `/scheduler/<service>/external`: filters, then the sum
    of weighers. Hosts with the same sum stay in the order of the request.
    """

    enabled: bool = False
    """Answer requests."""
    filters: Annotated[list[CortexFilter], Field(max_length=32)] = []
    """Filters, which exclude hosts."""
    weighers: Annotated[list[CortexWeigher], Field(max_length=32)] = []
    """Weighers, whose weighted sum ranks the hosts."""


class NovaPipeline(Pipeline):
    """Ranking of nodes for Nova, which sends requests with `scheduler.externalScheduler`."""

    enabled: bool = True
    """Answer requests."""
    filters: Annotated[list[CortexFilter], Field(max_length=32)] = [
        CortexFilter(name="AvailabilityZoneFilter"),
        CortexFilter(name="ComputeCapabilitiesFilter"),
    ]
    """Filters, which exclude hosts."""
    weighers: Annotated[list[CortexWeigher], Field(max_length=32)] = [
        CortexWeigher(name="RAMWeigher"),
        CortexWeigher(name="CPUWeigher"),
    ]
    """Weighers, whose weighted sum ranks the hosts."""


class Pipelines(Model):
    """Pipelines, by the service that sends requests."""

    nova: NovaPipeline = NovaPipeline()
    """Ranking of nodes for servers."""
    cinder: Pipeline = Pipeline()
    """Ranking of backends for volumes. Cinder itself sends no requests."""


class Datasource(Model):
    """A source of data for Cortex."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.enabled) || !self.enabled || has(self.endpoint)",
            "the address is missing; set endpoint",
            ".endpoint",
        ),
    )

    enabled: bool = False
    """Read this source."""
    endpoint: Url | None = None
    """URL of the source."""


class Datasources(Model):
    """Sources of data, for an image of Cortex itself."""

    prometheus: Datasource = Datasource()
    """Metrics of hosts and servers."""
    nova: Datasource = Datasource()
    """Servers, hypervisors and flavors, from Nova's API."""


class CortexSpec(RunSpec, UsesCloudPKI, UsesMonitoring):
    """Cortex: a scheduler that ranks the hosts which are left for a request of another service, such as Nova. Without
    an `image` it is the operator's small reference implementation, which knows nothing of hosts but what each request
    says.
    """

    replicas: Replicas = 1
    """Number of Cortex's pods."""
    image: Image | None = None
    """Image of Cortex itself, the reference implementation if unset. It reads its configuration from
    `/etc/cortex/cortex.json`. A change replaces the pods."""
    database: CortexDatabase | None = None
    """Database for Cortex's own data. The reference implementation does not use it."""
    keystone: CortexIdentity | None = None
    """Login for OpenStack's APIs. The reference implementation does not use it."""
    pipelines: Pipelines = Pipelines()
    """Services that may send requests, and the ranking for each."""
    datasources: Datasources = Datasources()
    """Sources of data. The reference implementation does not use them."""
    depends_on: Annotated[list[Dependency], Field(max_length=32)] = []
    """Resources that must be ready before its pods start for the first time."""

    def default_counts(self, existing: Mapping[str, Any] | None) -> dict[str, Any]:
        return {"replicas": 2}


class CortexStatus(Model):
    """Status of a Cortex besides its conditions."""

    active_pipelines: Annotated[
        list[Annotated[str, Field(max_length=63)]],
        Field(max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = []
    """Names of the active pipelines."""


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
