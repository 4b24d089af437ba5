"""Status of OpenStackBackup and OpenStackRestore besides their conditions."""

from typing import Annotated

from pydantic import Field

from ...api import Model, Name

Size = Annotated[str, Field(max_length=32)]
"""A quantity, as 412Mi."""


class DatabaseBackup(Model):
    """Backup of one database."""

    kind: Annotated[str, Field(max_length=32)] = "MariaDB"
    """`MariaDB`, or `OVNNetwork` for the northbound database of an OVN."""
    name: Name
    """Name of the MariaDB or OVNNetwork."""
    size: Size | None = None
    """Size of its data."""
    stored: Size | None = None
    """Size by which the repository grew."""
    gtid: Annotated[str, Field(max_length=1024)] | None = None
    """Position in its binary log; unset without one."""
    server: Annotated[str, Field(max_length=64)] | None = None
    """Version of its server; of a northbound database, that of its schema."""


class ImagesBackup(Model):
    """Images of one Glance in a backup."""

    name: Name
    """Name of the Glance."""
    images: int | None = None
    """Number of files, unfinished uploads among them."""
    size: Size | None = None
    """Size of the files."""
    stored: Size | None = None
    """Size by which the repository grew."""


class PoolBackup(Model):
    """RBD images of one pool of Ceph in a backup."""

    name: Annotated[str, Field(max_length=253)]
    """Name of the CephStorage, and the use of the pool: images, volumes or vms."""
    images: int | None = None
    """Number of RBD images."""
    size: Size | None = None
    """Size of their data, snapshots among them."""
    stored: Size | None = None
    """Size by which the repository grew."""


class OpenStackBackupStatus(Model):
    """Status of an OpenStackBackup besides its conditions."""

    completed: Annotated[str, Field(max_length=32)] | None = None
    """Time at which the backup was complete (RFC 3339). Unset means that there is no backup yet."""
    duration: Annotated[str, Field(max_length=32)] | None = None
    """Time from the first look at the cloud to the complete backup: 45m12s."""
    size: Size | None = None
    """Size of all databases, images and pools."""
    verified: Annotated[str, Field(max_length=32)] | None = None
    """Time at which the backup was restored and used (RFC 3339)."""
    restore_duration: Annotated[str, Field(max_length=32)] | None = None
    """Time that this took: 1m12s."""
    snapshot: Annotated[str, Field(max_length=64)] | None = None
    """Snapshot of restic with the list of what belongs to the backup."""
    databases: Annotated[list[DatabaseBackup], Field(max_length=64)] = []
    """Databases in the backup."""
    images: Annotated[list[ImagesBackup], Field(max_length=64)] = []
    """Images on volumes in the backup."""
    pools: Annotated[list[PoolBackup], Field(max_length=64)] = []
    """Pools of Ceph in the backup."""
    objects: int | None = None
    """Number of resources and Secrets in the backup."""
    not_included: Annotated[list[Annotated[str, Field(max_length=400)]], Field(max_length=64)] = []
    """Parts of the cloud that the backup does not hold."""


class RestoredDatabase(Model):
    """A MariaDB that was restored."""

    name: Name
    """Name of the MariaDB."""
    gtid: Annotated[str, Field(max_length=1024)] | None = None
    """Last change that it has; unset without a binary log."""
    changes: int | None = None
    """Number of changes from the archive; unset for a restore of the backup alone."""


class RestoredSchema(Model):
    """A schema that was restored beside the others of a cloud."""

    name: Annotated[str, Field(max_length=64)]
    """Name of the schema."""
    tables: int | None = None
    """Number of its tables."""
    rows: int | None = None
    """Number of rows in these."""
    earlier: Annotated[str, Field(max_length=64)] | None = None
    """Schema with the data of before, until you drop it."""


class ImageList(Model):
    """Images whose rows and data do not fit."""

    count: int
    """Number of all of them."""
    images: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=5)] = []
    """IDs of the first ones."""
    command: Annotated[str, Field(max_length=1024)] | None = None
    """Command that removes those from the cloud."""


class RestoredImages(Model):
    """Images after a restore: data that were restored, and rows of Glance that were compared with them."""

    restored: int
    """Number of files that were restored."""
    size: Size | None = None
    """Size of these files."""
    elsewhere: int | None = None
    """Number of images in Ceph, Swift or S3. Their rows were not compared with files. `pools` has those in Ceph; of the
    others the backup has no data."""
    without_data: ImageList | None = None
    """Images that have a row and no data, or not all data: users see them, and cannot use them. Upload them again, or
    remove them with the command."""
    without_row: ImageList | None = None
    """Files that have no row: they take space, and Glance does not show them."""


class RestoredPool(Model):
    """RBD images of one pool of Ceph after a restore."""

    name: Annotated[str, Field(max_length=253)]
    """Name of the CephStorage, and the use of the pool: images, volumes or vms."""
    images: int | None = None
    """Number of RBD images that were restored."""
    existed: int | None = None
    """Number of RBD images of the backup that existed already. They stay as they are."""
    size: Size | None = None
    """Size of the restored data."""
    without_data: ImageList | None = None
    """RBD images of images, volumes or servers that users see, of which the backup has no data. Unset if something
    existed: its data are not compared."""
    without_row: ImageList | None = None
    """RBD images that were restored, and of which no service knows: they take space."""
    snapshots_without_data: ImageList | None = None
    """Snapshots of volumes that users see, of which the backup has no data: users removed other snapshots of the volume
    each time that the backup read it. `notIncluded` of the backup names these volumes."""


class ServerList(Model):
    """Servers whose rows in Nova and Placement do not fit."""

    count: int
    """Number of all of them."""
    servers: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=5)] = []
    """IDs of the first ones."""
    command: Annotated[str, Field(max_length=1024)] | None = None
    """Command that mends all of them, also those that are not named."""


class RestoredAllocations(Model):
    """Rows of Placement about resources of nodes, compared with Nova's servers in the restored data."""

    servers: int
    """Number of servers."""
    without_server: ServerList | None = None
    """Servers of which Placement has an allocation, and Nova no row: other servers do not get their resources."""
    without_allocation: ServerList | None = None
    """Servers on a node for which Placement has no allocation: their resources are given away twice."""


class NetworkList(Model):
    """Networks, routers and ports of which Neutron and OVN do not both know."""

    count: int
    """Number of all of them."""
    names: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=5)] = []
    """The first ones: `network-`, `router-` or `port-`, with the ID."""


class RestoredNetworks(Model):
    """Rows of Neutron, compared with OVN's northbound database in the backup. Neutron makes OVN follow them before its
    API starts.
    """

    rows: int
    """Number of networks, routers and ports of Neutron."""
    without_row: NetworkList | None = None
    """Those that OVN has, and Neutron has no row of. Neutron removes them from OVN."""
    without_ovn: Annotated[NetworkList | None, Field(alias="withoutOVN")] = None
    """Those that Neutron has, and OVN does not, as after a restore to a second after the backup. Neutron adds them to
    OVN."""


class OpenStackRestoreStatus(Model):
    """Status of an OpenStackRestore besides its conditions."""

    backup: Annotated[str, Field(max_length=253)] | None = None
    """Name of the restored backup."""
    backup_completed: Annotated[str, Field(max_length=32)] | None = None
    """Time at which the backup was complete (RFC 3339)."""
    completed: Annotated[str, Field(max_length=32)] | None = None
    """Time at which the restored cloud was Ready (RFC 3339)."""
    restored: Annotated[list[RestoredDatabase], Field(max_length=64)] = []
    """Databases that have their data again."""
    schemas: Annotated[list[RestoredSchema], Field(max_length=20)] = []
    """Schemas of `only` that have their data again."""
    images: RestoredImages | None = None
    """Images that were restored, and those whose rows and data do not fit."""
    pools: Annotated[list[RestoredPool], Field(max_length=64)] = []
    """Pools of Ceph that were restored."""
    allocations: RestoredAllocations | None = None
    """Resources of nodes, as Placement and Nova know them."""
    networks: RestoredNetworks | None = None
    """Networks, routers and ports, as Neutron and OVN know them."""
    duration: Annotated[str, Field(max_length=32)] | None = None
    """Time from the moment at which the operator had read the backup to the Ready cloud: 45m12s."""
