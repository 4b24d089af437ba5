"""Spec of a Designate."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...api import (
    Column,
    Component,
    HttpApi,
    Model,
    Replicas,
    Resource,
    ServiceSpec,
    StorageSize,
    UsesCache,
    UsesDatabase,
    UsesIdentity,
    UsesMessaging,
    UsesVolume,
    immutable,
    validated,
)

ServerName = Annotated[str, Field(max_length=253, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?[.])+$")]
Limit = Annotated[int, Field(ge=0, le=2**31 - 1)]


class Program(Model):
    """A program of Designate; where its pods run is said for all of them."""

    replicas: Replicas | None = None
    """Number of pods; unset takes the service's."""

    @property
    def component(self) -> Component:
        """The same as settings of pods."""
        return Component(replicas=self.replicas)


class Servers(Program):
    """DNS servers of the pool."""

    service_type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    """Type of the Service `<name>-dns`, at whose port 53 (TCP and UDP) resolvers ask the servers."""


class Bind9(Servers, UsesVolume):
    """DNS servers, each of which has all zones on a volume of its own."""

    storage_size: StorageSize = "1Gi"
    """Size of each server's volume; may grow where the StorageClass allows it, never shrink."""
    retention: Literal["Retain", "Delete"] = "Delete"
    """Keep or delete the volumes when this resource is deleted. They have copies of zones, whose originals are in the
    database."""


class Pdns4(Servers):
    """DNS servers that have all zones in one schema of the database."""


class Quotas(Model):
    """Limits of a project without quotas of its own; unset keeps Designate's value."""

    zones: Limit | None = None
    """Number of zones."""
    zone_recordsets: Limit | None = None
    """Number of record sets of a zone."""
    zone_records: Limit | None = None
    """Number of records of a zone."""
    recordset_records: Limit | None = None
    """Number of records of a record set."""


class DesignateSpec(ServiceSpec, UsesDatabase, UsesMessaging, UsesCache, UsesIdentity):
    """OpenStack Designate: zones and records of DNS. Its mini DNS hands zones to the servers, by transfers that a key
    signs. Central and producer always run one pod each, since several would need a coordination server."""

    api: HttpApi = HttpApi()
    """The DNS API."""
    worker: Program = Program()
    """The worker, which creates zones on the servers, and looks whether they answer."""
    mdns: Program = Program()
    """The mini DNS, from which servers transfer zones. Each pod has an address of its own."""
    backend: Annotated[Literal["bind9", "pdns4"], validated(immutable("the kind of servers"))] = "bind9"
    """Servers of the pool, which answer resolvers: BIND or PowerDNS."""
    bind9: Bind9 = Bind9()
    """BIND, with `backend: bind9`."""
    pdns4: Pdns4 = Pdns4()
    """PowerDNS, with `backend: pdns4`; its zones are in a schema beside Designate's."""
    ns_records: Annotated[
        list[ServerName], Field(max_length=13, json_schema_extra={"x-kubernetes-list-type": "set"})
    ] = []
    """Names of the servers as the world knows them, each with a dot at its end: `ns1.example.org.`. They become the NS
    records of each zone. Unset is the name of the Service `<name>-dns`, which only this cluster knows."""
    quotas: Quotas = Quotas()
    """Limits of a project without quotas of its own."""

    @property
    def servers(self) -> Servers:
        """The servers of the pool."""
        return self.pdns4 if self.backend == "pdns4" else self.bind9


DESIGNATE = Resource(
    kind="Designate",
    plural="designates",
    spec=DesignateSpec,
    columns=(Column("Endpoint", ".status.endpoint"),),
)
