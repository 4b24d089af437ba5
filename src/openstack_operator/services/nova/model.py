"""Spec and status of a Nova."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, cast

from pydantic import Field, model_validator

from ...api import (
    BY_NAME,
    AuthoritySecretRef,
    CachesResults,
    CinderRef,
    Column,
    ComponentSettings,
    CortexRef,
    DatabaseName,
    DatabaseSource,
    GlanceRef,
    HttpApi,
    MessagingSource,
    Model,
    Name,
    NeutronRef,
    PlacementRef,
    RemoteAccess,
    Resource,
    Rule,
    Scalable,
    ServiceSpec,
    Url,
    UsesIdentity,
    UsesKeyManager,
    UsesLogging,
    UsesMessaging,
    UsesPolicies,
    immutable_optional,
    immutable_presence,
    rule,
    validated,
)
from .node_model import Compute

CellName = Annotated[
    str,
    Field(min_length=1, max_length=20, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$"),
    validated(
        rule(
            "!(self in ['cell0', 'api', 'messaging', 'notifications']) && !self.endsWith('-compute')",
            "cell0 always exists, and the others name parts of Nova; choose another name",
        )
    ),
]


class NovaDatabase(DatabaseSource):
    """Database of the tables above the cells, and of each cell that names no other database."""

    rules: ClassVar[tuple[Rule, ...]] = (
        immutable_optional("apiDatabase", "the name of the schema above the cells"),
        immutable_optional("cellDatabase", "the name of cell0's schema"),
        rule(
            "!has(self.apiDatabase) || !has(self.cellDatabase) || self.apiDatabase != self.cellDatabase",
            "apiDatabase and cellDatabase must differ; choose another name",
            ".cellDatabase",
        ),
    )

    api_database: DatabaseName | None = None
    """Name of the schema above the cells, `database` with `_api` after it if unset. Cannot be changed."""
    cell_database: DatabaseName | None = None
    """Name of cell0's schema, `database` with `_cell0` after it if unset. The schema of any other cell is named in the
    same way; but with a secretRef, the schema of the first cell is `database` itself. Cannot be changed."""


NodeShare = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


class ComputeRef(Model):
    """A share of the compute nodes."""

    name: NodeShare
    """Value of the label `openstack-cell` on these nodes."""
    elsewhere: bool = False
    """These nodes are in another Kubernetes cluster. The operator writes Secret `<name>-<cell>-hypervisors` with what a
    HypervisorCluster there needs. The APIs have to be exposed, and the broker and `metadata` need `remoteAccess`, all
    with TLS."""


class Cell(Model):
    """A share of the compute nodes, with a database and a broker of its own. A node whose label `openstack-cell` names
    a cell belongs to that cell; nodes without the label belong to the first cell of the list.
    """

    rules = (immutable_presence("database", "a cell's database"), immutable_presence("messaging", "a cell's broker"))

    name: CellName
    """Name of the cell."""
    conductor: Scalable = Scalable()
    """The cell's conductor, which accesses the database for compute nodes."""
    database: DatabaseSource | None = None
    """Server of this cell's database, that of the service if unset. You cannot set or unset it later."""
    messaging: MessagingSource | None = None
    """Broker of this cell, that of the service if unset. You cannot set or unset it later. The cell always has a
    virtual host of its own. If the service logs in by a secretRef, you make the virtual host, for the same account:
    `nova-cell1` for `cell1`."""
    compute_ref: ComputeRef | None = None
    """More nodes of this cell, besides the nodes that have the cell's name as their label: label the hypervisors of a
    cluster with its name. Nodes that have servers stay in their cell: do not change this name later."""

    @property
    def has_remote_nodes(self) -> bool:
        """Return True if nodes of another Kubernetes cluster belong to this cell."""
        return self.compute_ref is not None and self.compute_ref.elsewhere

    @property
    def shares(self) -> list[str]:
        """Values of the label `openstack-cell` on this cell's nodes."""
        return list(dict.fromkeys([self.name, *([self.compute_ref.name] if self.compute_ref else [])]))


Cells = Annotated[
    list[Cell],
    Field(min_length=1, max_length=32),
    validated(
        rule(
            "oldSelf.all(old, self.exists(cell, cell.name == old.name))",
            "a cell cannot be removed: its compute nodes and servers would be lost; keep it in the list",
        ),
        rule(
            "self[0].name == oldSelf[0].name",
            "the first cell owns the nodes without a cell, and their servers; keep it first",
        ),
        rule(
            "self.all(a, self.all(b, a.name == b.name || !has(a.computeRef) || (a.computeRef.name != b.name"
            " && (!has(b.computeRef) || a.computeRef.name != b.computeRef.name))))",
            "two cells use the same computeRef, or one the name of another cell; use different names",
        ),
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    ),
]


Seconds = Annotated[str, Field(max_length=5, pattern=r"^[1-9][0-9]{0,3}(s|m)$")]
"""A short time: `5s`, `2m`."""

_IS_DISABLED = "!has(self.enabled) || !self.enabled"


class ExternalScheduler(Model):
    """Another scheduler that Nova's scheduler asks last, for each server: it selects from the hosts that Nova's filters
    leave, and orders them (`POST <endpoint>/scheduler/nova/external`). If it does not answer, Nova's own order holds.
    Kolla's images do not support it.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            f"{_IS_DISABLED} || has(self.endpoint) || has(self.cortexRef)",
            "the external scheduler needs an address; set endpoint or cortexRef",
            ".endpoint",
        ),
        rule(
            "!has(self.endpoint) || !has(self.cortexRef)",
            "endpoint and cortexRef exclude each other; remove one",
            ".endpoint",
        ),
    )

    enabled: bool = False
    """Let this scheduler re-rank the hosts Nova selected."""
    endpoint: Url | None = None
    """URL of the scheduler, such as `https://cortex.openstack.svc.cluster.local:8080`."""
    cortex_ref: CortexRef | None = None
    """A Cortex of this namespace, in place of `endpoint`. Nova does not wait for it."""
    ca_secret_ref: AuthoritySecretRef | None = None
    """Secret with `ca.crt`, which verifies an https endpoint. If unset, Nova trusts the authorities of the Cortex or of
    the cloud, or else those of the image."""
    timeout: Seconds = "5s"
    """Timeout of a request. A request for several servers asks once for each server."""
    pipeline: Annotated[str, Field(max_length=253, pattern=r"^[A-Za-z0-9._-]*$")] = ""
    """Pipeline to use. If empty, the scheduler chooses. Cortex chooses by the flavor's `capabilities:hypervisor_type`,
    and refuses flavors without it."""
    pause_after_failure: Seconds = "30s"
    """Time after a failure during which Nova does not use this scheduler."""


class Scheduler(Scalable):
    """The scheduler, which chooses nodes."""

    external_scheduler: ExternalScheduler | None = None
    """External scheduler that re-ranks the hosts Nova selected, none if unset."""


class ServiceUserRef(Model):
    """A service that Nova calls."""

    name: Name
    """Name of the resource that is the service."""


_CALLED = ("placement", "glance", "neutron", "cinder")


class ServiceAuth(Model):
    """The services that Nova calls, under other names than the fields of the spec. Nova calls each as its own user,
    with the token of the user who made the request: a node holds no password but Nova's.
    """

    placement_service_user_ref: ServiceUserRef | None = None
    """The same as `placementRef`."""
    neutron_service_user_ref: ServiceUserRef | None = None
    """The same as `neutronRef`."""
    glance_service_user_ref: ServiceUserRef | None = None
    """The same as `glanceRef`."""
    cinder_service_user_ref: ServiceUserRef | None = None
    """The same as `cinderRef`."""


def _called_once(name: str) -> Rule:
    """Return the rule that names a service once, or twice the same; defaults of the API server do not count."""
    auth, ref = f"self.serviceAuth.{name}ServiceUserRef", f"self.{name}Ref"
    return rule(
        f"!has(self.serviceAuth) || !has({auth}) || !has({ref}) || {ref}.name in ['{name}', {auth}.name]",
        f"this {name} differs from serviceAuth.{name}ServiceUserRef; remove one of the two",
        f".{name}Ref",
    )


class MetadataApi(HttpApi):
    """The metadata API for instances."""

    remote_access: RemoteAccess | None = None
    """Access for metadata agents of other Kubernetes clusters, none if unset. It is at the Service
    `<name>-metadata`."""


class NovaSpec(ServiceSpec, UsesPolicies, UsesLogging, UsesMessaging, CachesResults, UsesIdentity, UsesKeyManager):
    """OpenStack Nova: virtual machines, in cells."""

    rules: ClassVar[tuple[Rule, ...]] = tuple(map(_called_once, _CALLED))
    # nova-compute reads it, too.
    on_nodes = ("config",)

    database: NovaDatabase = NovaDatabase()
    """Server and names of Nova's databases."""
    service_auth: ServiceAuth = ServiceAuth()
    """Alternative names of placementRef, neutronRef, glanceRef and cinderRef."""
    placement_ref: PlacementRef = PlacementRef(name="placement")
    """Placement that tracks the resources of nodes."""
    glance_ref: GlanceRef = GlanceRef(name="glance")
    """Glance whose images servers boot from."""
    neutron_ref: NeutronRef = NeutronRef(name="neutron")
    """Neutron that connects servers to networks."""
    cinder_ref: CinderRef | None = None
    """Cinder that provides volumes to instances, none if unset."""
    api: HttpApi = HttpApi()
    """Pods of the Compute API."""
    metadata: MetadataApi = MetadataApi()
    """The metadata API for instances."""
    scheduler: Scheduler = Scheduler()
    """Pods of the scheduler, which chooses nodes for servers."""
    conductor: Scalable = Scalable()
    """The super conductor, which sends new servers to cells."""
    novncproxy: ComponentSettings = ComponentSettings()
    """The proxy to the instances' consoles, one Deployment per cell."""
    cells: Cells = [Cell(name="cell1")]
    """Cells that hold compute nodes. cell0, which holds servers that failed to schedule, always exists and is not
    listed."""
    compute: Compute = Compute()
    """nova-compute and libvirt on compute nodes."""

    @property
    def has_nodes(self) -> bool:
        """Return True if there are compute nodes, in this Kubernetes cluster or in another one."""
        return self.compute.enabled or any(cell.has_remote_nodes for cell in self.cells)

    @model_validator(mode="before")
    @classmethod
    def _copy_service_auth(cls, value: Any) -> Any:
        """Return the spec with the services of `serviceAuth` in its own reference fields."""
        if not isinstance(value, Mapping) or not isinstance(auth := value.get("serviceAuth"), Mapping):
            return value
        spec, services = cast("Mapping[str, Any]", value), cast("Mapping[str, Any]", auth)
        return {**spec, **{f"{name}Ref": ref for name in _CALLED if (ref := services.get(f"{name}ServiceUserRef"))}}


class CellStatus(Model):
    """Observed state of a cell."""

    name: Annotated[str, Field(max_length=63)]
    """Name of the cell."""
    status: Annotated[str, Field(max_length=63)] = ""
    """Ready, or Progressing while a part of the cell is missing. The condition CellsReady names the part."""
    compute_nodes: int = 0
    """Nodes of the cell whose nova-compute is connected to the cell's broker."""


class ReleaseNodes(Model):
    """Nodes whose nova-compute is of one release."""

    name: Annotated[str, Field(max_length=63)]
    """Name of the release; `unknown` for pods of an earlier version of the operator."""
    nodes: int = 0
    """Number of these nodes."""


class ComputeStatus(Model):
    """Observed state of nova-compute on all nodes, read from its pods."""

    nodes: int = 0
    """Nodes that should run nova-compute."""
    updated_nodes: int = 0
    """Nodes whose nova-compute has the last change."""
    releases: Annotated[list[ReleaseNodes], BY_NAME] = []
    """Nodes by the release that they run."""
    behind: Annotated[list[Annotated[str, Field(max_length=253)]], Field(max_length=10)] = []
    """Names of nodes that do not have the last change yet, the first ten."""


class NovaStatus(Model):
    """Observed state of a Nova besides its conditions."""

    cells: Annotated[list[CellStatus], BY_NAME] = []
    """Cells that hold compute nodes."""
    compute: ComputeStatus | None = None
    """nova-compute on all nodes. Unset without compute nodes."""


NOVA = Resource(
    kind="Nova",
    plural="novas",
    spec=NovaSpec,
    status=NovaStatus,
    columns=(Column("Endpoint", ".status.endpoint"),),
    nodes=True,
)
