"""Spec of a Designate."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...api import (
    Address,
    AuthoritySecretRef,
    Column,
    ComponentSettings,
    Destination,
    Hostname,
    HttpApi,
    Model,
    Port,
    Replicas,
    Resource,
    Rule,
    SecretKeyRef,
    ServiceSpec,
    StorageSize,
    UsesCache,
    UsesDatabase,
    UsesIdentity,
    UsesLogging,
    UsesMessaging,
    UsesPolicies,
    UsesVolume,
    immutable,
    lasting_count,
    rule,
    sent,
    validated,
)


def _by(key: str) -> Any:
    """Return the annotation of a list whose entries differ in this field."""
    return Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]})


ServerName = Annotated[str, Field(max_length=253, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?[.])+$")]
PoolName = Annotated[
    str,
    Field(min_length=1, max_length=24, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$"),
    validated(rule("self != 'default'", "the top level of spec is the default pool; choose another name")),
]
KeyName = Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")]
Algorithm = Literal["hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"]
AttributeValue = Annotated[str, Field(min_length=1, max_length=50, pattern=r"^\S(.*\S)?$")]
Limit = Annotated[int, Field(ge=0, le=2**31 - 1)]


class ProgramSpec(Model):
    """A program of Designate; where its pods run is said for all of them."""

    replicas: Replicas | None = None
    """Number of pods, the service's `replicas` if unset."""

    @property
    def settings(self) -> ComponentSettings:
        """The same as settings of pods."""
        return ComponentSettings(replicas=self.replicas)


class MiniDns(ProgramSpec):
    """The mini DNS, from which servers transfer zones."""

    service_type: Literal["ClusterIP", "LoadBalancer"] = "ClusterIP"
    """Type of the Service of each pod. With `LoadBalancer`, servers outside of this cluster reach it at port 5354."""


class Servers(ProgramSpec):
    """DNS servers of the pool."""

    service_type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    """Type of the Service `<name>-dns`, which serves DNS on port 53 (TCP and UDP)."""


class Bind9(Servers, UsesVolume):
    """DNS servers, each of which has all zones on a volume of its own."""

    storage_size: StorageSize = "1Gi"
    """Size of each server's volume. It may grow where the StorageClass allows it, never shrink."""
    retention: Literal["Retain", "Delete"] = "Delete"
    """Keep or delete the volumes when this resource is deleted. The volumes only have copies of zones from the
    database."""


class Pdns4(Servers):
    """DNS servers that have all zones in one schema of the database."""


class SocketAddress(Model):
    """A DNS server."""

    address: Address
    """IP address of the server."""
    port: Port = 53
    """Port of UDP and TCP."""


class Primary(Model):
    """An address at which servers reach mini DNS."""

    address: Address
    """IP address."""
    port: Port = 5354
    """Port of UDP and TCP."""


class HmacKey(Model):
    """A key that two programs share, to sign what they send each other."""

    name: KeyName
    """Name of the key on the server."""
    algorithm: Algorithm = "hmac-sha256"
    """Algorithm of its signatures."""
    key_ref: SecretKeyRef
    """Secret with the key in base64, as `tsig-keygen` and `rndc-confgen` print it."""


class ExternalBind9(Model):
    """Commands to a BIND of yours, which has `allow-new-zones yes`."""

    host: Hostname | None = None
    """Host that `rndc` connects to, the server's address if unset."""
    port: Port = 953
    """Port of the `controls` statement."""
    key: HmacKey
    """Key of the `controls` statement."""


class ExternalPdns4(Model):
    """The API of a PowerDNS of yours, which has `secondary=yes`."""

    url: Annotated[str, Field(max_length=255, pattern=r"^https://[^\s/@?#]+/?$")]
    """Address of the API, such as `https://ns1.example.org:8081`."""
    token_ref: SecretKeyRef
    """Secret with the `api-key` of the server."""
    ca_secret_ref: AuthoritySecretRef
    """Secret with `ca.crt`, by which Designate verifies the server."""


class ExternalServer(SocketAddress):
    """A DNS server of yours: its address, where Designate asks it and tells it of changes, and how it is commanded."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule("has(self.bind9) != has(self.pdns4)", "a server needs exactly one type; set bind9 or pdns4", ".bind9"),
    )

    bind9: ExternalBind9 | None = None
    """Settings of a server with BIND."""
    pdns4: ExternalPdns4 | None = None
    """Settings of a server with PowerDNS."""


def _host(address: str) -> str:
    """Return an address as in a URL."""
    return f"[{address}]" if ":" in address else address


class External(Model):
    """DNS servers of yours."""

    servers: Annotated[list[ExternalServer], Field(min_length=1, max_length=16), _by("address")]
    """The servers of the pool. Each serves all zones."""
    primaries: Annotated[list[Primary], Field(max_length=16), _by("address")] = []
    """Addresses at which the servers reach mini DNS, such as those of a router in front of it. Unset takes those of the
    Services `<name>-mdns-0`, `<name>-mdns-1` …: of their load balancers, if `mdns.serviceType` is LoadBalancer."""
    tsig_key: HmacKey | None = None
    """Key with which the servers sign their requests to mini DNS. If unset, the operator generates one named `transfer`
    (`transfer-POOL` in a further pool) in the Secret `<name>-keys`."""

    def destinations(self) -> Sequence[Destination]:
        """Return where the keys go: each to its server, and that of transfers to all of them."""
        targets = sent(
            {"tsigKey.keyRef": self.tsig_key.key_ref if self.tsig_key else None},
            *(_host(each.address) for each in self.servers),
        )
        for number, each in enumerate(self.servers):
            if each.bind9:
                host = each.bind9.host or _host(each.address)
                targets += sent({f"servers[{number}].bind9.key.keyRef": each.bind9.key.key_ref}, host)
            if each.pdns4:
                targets += sent({f"servers[{number}].pdns4.tokenRef": each.pdns4.token_ref}, each.pdns4.url)
        return targets


class PoolServers(Model):
    """DNS servers that have the same zones."""

    backend: Annotated[Literal["bind9", "pdns4", "external"], validated(immutable("the kind of servers"))] = "bind9"
    """DNS servers of the pool: pods with BIND or PowerDNS, or external servers. Cannot be changed."""
    bind9: Bind9 = Bind9()
    """Servers with BIND, for backend bind9."""
    pdns4: Pdns4 = Pdns4()
    """Servers with PowerDNS, for backend pdns4. Their zones are in a schema beside Designate's."""
    external: External | None = None
    """Your own DNS servers, for backend external."""
    ns_records: Annotated[
        list[ServerName], Field(max_length=13, json_schema_extra={"x-kubernetes-list-type": "set"})
    ] = []
    """Public names of the servers, each with a final dot: `ns1.example.org.`. They become the NS records of each zone.
    Unset is the name of the Service `<name>-dns`, or `<name>-POOL-dns` of a further pool, which only this cluster
    knows."""
    also_notifies: Annotated[list[SocketAddress], Field(max_length=16), _by("address")] = []
    """Further servers that receive NOTIFY on each change of a zone. They transfer the zone from the pool's servers."""
    attributes: Annotated[
        dict[str, AttributeValue],
        Field(max_length=16),
        validated(
            rule(
                "self.all(name, name != 'pool' && size(name) <= 50)",
                "the name `pool` is reserved, and names have at most 50 characters; choose another name",
            )
        ),
    ] = {}
    """Attributes by which users choose the pool of a zone. Each pool also has the attribute `pool`, its name."""

    @property
    def servers(self) -> Servers:
        """Our servers of the pool."""
        return self.pdns4 if self.backend == "pdns4" else self.bind9


class Pool(PoolServers):
    """A further pool of DNS servers, for zones whose users choose it."""

    name: PoolName
    """Name of the pool."""
    retired: bool = False
    """Set it before you remove the pool from the list. Designate then creates no zones in it, and deletes the pool once
    it has none. RetiredPoolsReady lists the remaining zones."""


class Quotas(Model):
    """Limits of a project without quotas of its own; unset keeps Designate's value."""

    zones: Limit | None = None
    """Maximum number of zones."""
    zone_recordsets: Limit | None = None
    """Maximum number of record sets of a zone."""
    zone_records: Limit | None = None
    """Maximum number of records of a zone."""
    recordset_records: Limit | None = None
    """Maximum number of records of a record set."""


class DesignateSpec(
    ServiceSpec, UsesPolicies, UsesLogging, PoolServers, UsesDatabase, UsesMessaging, UsesCache, UsesIdentity
):
    """OpenStack Designate: zones and records of DNS. Its mini DNS hands zones to the servers, by transfers that a key
    signs. Central and producer always run one pod each, since several would need a coordination server.
    """

    api: HttpApi = HttpApi()
    """Pods of the DNS API."""
    worker: ProgramSpec = ProgramSpec()
    """The worker, which creates zones on the servers and polls them."""
    mdns: MiniDns = MiniDns()
    """Mini DNS (designate-mdns), from which servers transfer zones. Each pod has its own address."""
    pools: Annotated[list[Pool], Field(max_length=16), _by("name")] = []
    """Further pools of servers. The top-level fields (`backend`, `nsRecords` …) configure the pool `default`."""
    quotas: Quotas = Quotas()
    """Limits of a project without quotas of its own. Unset keeps Designate's value."""

    def default_counts(self, existing: Mapping[str, Any] | None) -> dict[str, Any]:
        # A new name server would answer before it has the zones.
        return {"replicas": lasting_count(2, existing)}


DESIGNATE = Resource(
    kind="Designate",
    plural="designates",
    spec=DesignateSpec,
    columns=(Column("Endpoint", ".status.endpoint"),),
)
