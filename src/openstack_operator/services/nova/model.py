"""What users write to get a Nova."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field, model_validator

from ...api import (
    BY_NAME,
    AgentSettings,
    CachesResults,
    CephSource,
    CinderRef,
    Column,
    Component,
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
    Resource,
    Rule,
    Scalable,
    SecretRef,
    Sections,
    ServiceSpec,
    Url,
    UsesIdentity,
    UsesMessaging,
    immutable,
    present,
    rule,
    settled,
    validated,
)

CellName = Annotated[
    str,
    Field(min_length=1, max_length=20, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$"),
    validated(
        rule(
            "!(self in ['cell0', 'api', 'messaging', 'notifications']) && !self.endsWith('-compute')",
            "cell0 always exists; api, messaging, notifications and …-compute name other parts of Nova; "
            "choose another name",
        )
    ),
]


class NovaDatabase(DatabaseSource):
    """Where Nova keeps the tables above its cells, and those of cells that say nothing else."""

    rules: ClassVar[tuple[Rule, ...]] = (
        settled("apiDatabase", "the name of the schema above the cells"),
        settled("cellDatabase", "the name of cell0's schema"),
        rule(
            "!has(self.apiDatabase) || !has(self.cellDatabase) || self.apiDatabase != self.cellDatabase",
            "a schema has one use; choose another name",
            ".cellDatabase",
        ),
    )

    api_database: DatabaseName | None = None
    """Name of the schema above the cells; unset is `database` with `_api` after it."""
    cell_database: DatabaseName | None = None
    """Name of cell0's schema; unset is `database` with `_cell0` after it. A cell's own is called after it in the same
    way; but where there is a secretRef, the first cell's is `database` itself."""


NodeShare = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


class ComputeRef(Model):
    """A share of the nodes."""

    name: NodeShare
    """What the label `openstack-cell` of these nodes says."""


class Cell(Model):
    """A share of the compute nodes, with a database and a broker of its own. A node whose label `openstack-cell` names
    a cell belongs to that one, nodes without the label to the first cell of the list."""

    rules = (present("database", "a cell's database"), present("messaging", "a cell's broker"))

    name: CellName
    """Name of the cell."""
    conductor: Scalable = Scalable()
    """The cell's conductor, which keeps compute nodes away from the database."""
    database: DatabaseSource | None = None
    """Database of this cell; unset takes the server of the service."""
    messaging: MessagingSource | None = None
    """Broker of this cell; unset takes the one of the service. The cell has a virtual host of its own either way, which
    is yours to make as `nova-cell1` where the service logs in by a secretRef, for the same account."""
    compute_ref: ComputeRef | None = None
    """Nodes of this cell besides those that are labeled with its own name: where hypervisors come in clusters with
    names of their own, label the nodes of each with that name. Nodes that have servers stay in their cell: keep what
    was named."""

    @property
    def shares(self) -> list[str]:
        """What the label `openstack-cell` says of this cell's nodes."""
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
            "the first cell has the nodes that name none, and their servers; keep it the first",
        ),
        rule(
            "self.all(a, self.all(b, a.name == b.name || !has(a.computeRef) || (a.computeRef.name != b.name"
            " && (!has(b.computeRef) || a.computeRef.name != b.computeRef.name))))",
            "a node is in one cell; name each share of the nodes in one computeRef, and none like another cell",
        ),
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    ),
]


class Compute(AgentSettings):
    """libvirt and nova-compute on every compute node, where nothing of the service's own pod settings applies."""

    on_nodes = ("config",)
    node_folders = ("instance_storage_path",)

    enabled: bool = True
    """False where this cloud has no compute nodes of its own."""
    virt_type: Literal["auto", "kvm", "qemu"] = "auto"
    """How instances are virtualized; auto takes kvm where it works and the qemu emulator elsewhere, node by node."""
    instance_storage_path: Annotated[
        str, Field(max_length=255, pattern=r"^/[^:\s]+$"), validated(immutable("the folder of the instances' disks"))
    ] = "/var/lib/nova"
    """Folder of each node that holds the instances' disks and the node's identity; must outlive reboots. Cannot be
    changed."""
    storage_type: Annotated[Literal["local", "ceph"], validated(immutable("where servers' disks are"))] = "local"
    """Where servers' disks are: in the folder above, or in Ceph, as clones of images that are in the same one. Cannot
    be changed, since disks do not move by themselves."""
    rbd: CephSource | None = None
    """Where in Ceph, of storageType ceph; unset is the CephStorage called `ceph`."""
    live_migration: bool = True
    """Whether servers can move between nodes while they run, over TLS (ports 16514 and 49152 to 49215 of the nodes).
    Not with kolla's images."""
    config: Sections = {}
    """Options for nova-compute alone, merged over the service's config."""
    libvirt: AgentSettings = AgentSettings()
    """Image and resources of libvirt; it runs where nova-compute does."""

    def implied(self) -> Mapping[str, Any]:
        """The Ceph that is meant where nobody names one."""
        return {"rbd": CephSource()} if self.enabled and self.storage_type == "ceph" and not self.rbd else {}


Seconds = Annotated[str, Field(max_length=5, pattern=r"^[1-9][0-9]{0,3}(s|m)$")]
"""A short time: `5s`, `2m`."""

_ASKED = "!has(self.enabled) || !self.enabled"


class ExternalScheduler(Model):
    """Another scheduler that Nova's asks last, for each server: which of the hosts that its own filters leave, in what
    order (`POST <endpoint>/scheduler/nova/external`). Where it does not answer, Nova's own order holds. Not with
    kolla's images."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            f"{_ASKED} || has(self.endpoint) || has(self.cortexRef)",
            "whom to ask is not said; set endpoint or cortexRef",
            ".endpoint",
        ),
        rule("!has(self.endpoint) || !has(self.cortexRef)", "two are named; remove one", ".endpoint"),
    )

    enabled: bool = False
    """Whether it is asked."""
    endpoint: Url | None = None
    """Where it is: `https://cortex.openstack.svc.cluster.local:8080`."""
    cortex_ref: CortexRef | None = None
    """A Cortex of this namespace, in place of `endpoint`. Nova does not wait for it."""
    ca_secret_ref: SecretRef | None = None
    """Secret with `ca.crt`, by which the certificate of an https endpoint is checked. Unset are the authorities of the
    Cortex or of the cloud, and where it has none, those of the image."""
    timeout: Seconds = "5s"
    """How long an answer may take. A request for several servers asks for each."""
    pipeline: Annotated[str, Field(max_length=253, pattern=r"^[A-Za-z0-9._-]*$")] = ""
    """Which of its pipelines is to answer; empty lets it choose, which Cortex does by the flavor's
    `capabilities:hypervisor_type` and refuses without."""
    pause_after_failure: Seconds = "30s"
    """How long it is not asked after it failed."""


class Scheduler(Scalable):
    """The scheduler, which chooses nodes."""

    external_scheduler: ExternalScheduler | None = None
    """Another scheduler that has the last word; unset is none."""


class ServiceUserRef(Model):
    """A service this one calls."""

    name: Name
    """Name of the resource that is the service."""


_CALLED = ("placement", "glance", "neutron", "cinder")


class ServiceAuth(Model):
    """The services Nova calls, in other words than those beside it. It calls each as its own user, with the token of
    who asked for it: nobody's password but its own is on a node."""

    placement_service_user_ref: ServiceUserRef | None = None
    """The same as `placementRef`."""
    neutron_service_user_ref: ServiceUserRef | None = None
    """The same as `neutronRef`."""
    glance_service_user_ref: ServiceUserRef | None = None
    """The same as `glanceRef`."""
    cinder_service_user_ref: ServiceUserRef | None = None
    """The same as `cinderRef`."""


def _called_once(name: str) -> Rule:
    """A service is named once, or twice the same; what the API server fills in is not counted."""
    auth, ref = f"self.serviceAuth.{name}ServiceUserRef", f"self.{name}Ref"
    return rule(
        f"!has(self.serviceAuth) || !has({auth}) || !has({ref}) || {ref}.name in ['{name}', {auth}.name]",
        f"another {name} than serviceAuth.{name}ServiceUserRef names; keep one of the two",
        f".{name}Ref",
    )


class NovaSpec(ServiceSpec, UsesMessaging, CachesResults, UsesIdentity):
    """OpenStack Nova: virtual machines, in cells."""

    rules: ClassVar[tuple[Rule, ...]] = tuple(map(_called_once, _CALLED))
    # nova-compute has it, too.
    on_nodes = ("config",)

    database: NovaDatabase = NovaDatabase()
    """Databases of this service."""
    service_auth: ServiceAuth = ServiceAuth()
    """The services Nova calls, in other words."""
    placement_ref: PlacementRef = PlacementRef(name="placement")
    """Placement that counts the resources."""
    glance_ref: GlanceRef = GlanceRef(name="glance")
    """Glance that holds the images."""
    neutron_ref: NeutronRef = NeutronRef(name="neutron")
    """Neutron that connects the instances."""
    cinder_ref: CinderRef | None = None
    """Cinder whose volumes instances may have; unset is a cloud without volumes."""
    api: HttpApi = HttpApi()
    """The Compute API."""
    metadata: HttpApi = HttpApi()
    """The API that answers what instances ask about themselves."""
    scheduler: Scheduler = Scheduler()
    """The scheduler, which chooses nodes."""
    conductor: Scalable = Scalable()
    """The super conductor, which hands new servers to the cells."""
    novncproxy: Component = Component()
    """The proxy to the instances' screens, one Deployment a cell."""
    cells: Cells = [Cell(name="cell1")]
    """Cells that hold compute nodes. cell0, where servers end up that found no node, exists without being listed."""
    compute: Compute = Compute()
    """What runs on compute nodes."""

    @model_validator(mode="before")
    @classmethod
    def _in_other_words(cls, given: Any) -> Any:
        """What `serviceAuth` names stands in the field of ours."""
        if not isinstance(given, Mapping) or not isinstance(auth := given.get("serviceAuth"), Mapping):
            return given
        spec, named = cast("Mapping[str, Any]", given), cast("Mapping[str, Any]", auth)
        return {**spec, **{f"{name}Ref": ref for name in _CALLED if (ref := named.get(f"{name}ServiceUserRef"))}}


class CellStatus(Model):
    """A cell as the cluster shows it."""

    name: Annotated[str, Field(max_length=63)]
    """Name of the cell."""
    status: Annotated[str, Field(max_length=63)] = ""
    """Ready, or Progressing where something of it is missing; the condition CellsReady says what."""
    compute_nodes: int = 0
    """Nodes of the cell whose nova-compute is connected to the cell's broker."""


class NovaStatus(Model):
    """What a Nova tells besides its conditions."""

    cells: Annotated[list[CellStatus], BY_NAME] = []
    """Cells that hold compute nodes."""


NOVA = Resource(
    kind="Nova",
    plural="novas",
    spec=NovaSpec,
    status=NovaStatus,
    columns=(Column("Endpoint", ".status.endpoint"),),
)
