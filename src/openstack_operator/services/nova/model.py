"""What users write to get a Nova."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from ...api import (
    CachesResults,
    CephSource,
    CinderRef,
    Column,
    Component,
    DatabaseSource,
    GlanceRef,
    HttpApi,
    MessagingSource,
    Model,
    NeutronRef,
    PlacementRef,
    PodSettings,
    Resource,
    Scalable,
    Sections,
    ServiceSpec,
    UsesDatabase,
    UsesIdentity,
    UsesMessaging,
    immutable,
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


class Cell(Model):
    """A share of the compute nodes, with a database and a broker of its own. A node whose label `openstack-cell` names
    a cell belongs to that one, nodes without the label to the first cell of the list."""

    rules = (settled("database", "a cell's database"), settled("messaging", "a cell's broker"))

    name: CellName
    """Name of the cell."""
    conductor: Scalable = Scalable()
    """The cell's conductor, which keeps compute nodes away from the database."""
    database: DatabaseSource | None = None
    """Database of this cell; unset takes the server of the service."""
    messaging: MessagingSource | None = None
    """Broker of this cell; unset takes the one of the service. The cell has a virtual host of its own either way."""


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
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    ),
]


class Compute(PodSettings):
    """libvirt and nova-compute on every compute node, where nothing of the service's own pod settings applies."""

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
    libvirt: PodSettings = PodSettings()
    """Image and resources of libvirt; it runs where nova-compute does."""

    def implied(self) -> Mapping[str, Any]:
        """The Ceph that is meant where nobody names one."""
        return {"rbd": CephSource()} if self.enabled and self.storage_type == "ceph" and not self.rbd else {}


class NovaSpec(ServiceSpec, UsesDatabase, UsesMessaging, CachesResults, UsesIdentity):
    """OpenStack Nova: virtual machines, in cells."""

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
    scheduler: Scalable = Scalable()
    """The scheduler, which chooses nodes."""
    conductor: Scalable = Scalable()
    """The super conductor, which hands new servers to the cells."""
    novncproxy: Component = Component()
    """The proxy to the instances' screens, one Deployment a cell."""
    cells: Cells = [Cell(name="cell1")]
    """Cells that hold compute nodes. cell0, where servers end up that found no node, exists without being listed."""
    compute: Compute = Compute()
    """What runs on compute nodes."""


NOVA = Resource(
    kind="Nova",
    plural="novas",
    spec=NovaSpec,
    columns=(Column("Endpoint", ".status.endpoint"),),
)
