"""Specs of OpenStackBackup and OpenStackRestore."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from ...api import (
    AuthoritySecretRef,
    Column,
    Destination,
    Model,
    Name,
    Resource,
    Rule,
    RunSpec,
    Schedule,
    SecretKeyRef,
    TimeMetric,
    rule,
    sent,
)
from ...api.units import DURATION, lasts
from .status_model import OpenStackBackupStatus, OpenStackRestoreStatus

Folder = Annotated[str, Field(max_length=255, pattern=r"^[A-Za-z0-9][-._A-Za-z0-9]*(/[A-Za-z0-9][-._A-Za-z0-9]*)*$")]
Rate = Annotated[int, Field(ge=1, le=100_000_000)]


Schema = Annotated[str, Field(max_length=40, pattern=r"^[a-z][a-z0-9_]*$")]
_NO_SERVICES = ["information_schema", "mysql", "openstack_operator", "performance_schema", "sys"]
Second = Annotated[str, Field(max_length=20, pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
"""A time in UTC (RFC 3339)."""


class Bucket(Model):
    """A folder of a bucket behind the S3 API."""

    endpoint: Annotated[str, Field(max_length=255, pattern=r"^https?://[^/\s?#]+$")]
    """URL of the server, without a path."""
    bucket: Annotated[str, Field(min_length=3, max_length=63, pattern=r"^[a-z0-9][-.a-z0-9]*[a-z0-9]$")]
    """Name of the bucket, which must exist."""
    folder: Folder | None = None
    """Folder in the bucket, the whole bucket if unset."""
    region: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[-a-z0-9]+$")] = "us-east-1"
    """Region that signatures name. Most servers other than Amazon's take any."""
    path_style: bool = True
    """Write the name of the bucket in the path of the URL. With false it is the first part of the host name."""
    access_key_ref: SecretKeyRef
    """Secret with the access key."""
    secret_key_ref: SecretKeyRef
    """Secret with the secret key. For backups it needs the rights to read, list and create objects, and to delete those
    in `locks/`."""
    ca_ref: AuthoritySecretRef | None = None
    """Secret with the authority of the server's certificate (`ca.crt`), if the image does not trust it."""

    def destinations(self) -> Sequence[Destination]:
        """Return the server."""
        return sent({"accessKeyRef": self.access_key_ref, "secretKeyRef": self.secret_key_ref}, self.endpoint)


class VolumeClaim(Model):
    """A volume in the same namespace."""

    claim_name: Name
    """Name of the PersistentVolumeClaim. Pods on several nodes mount it, if databases run on several nodes."""


class Repository(Model):
    """Storage of backups: a repository of restic, which encrypts all data before they leave the cluster, and stores
    what is equal once.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "[has(self.s3), has(self.nfs), has(self.volume)].filter(each, each).size() == 1",
            "set exactly one of s3, nfs and volume",
        ),
        rule("self == oldSelf", "the repository cannot be changed; create another resource"),
    )

    s3: Bucket | None = None
    """Bucket behind the S3 API."""
    nfs: Annotated[str, Field(max_length=512, pattern=r"^[A-Za-z0-9][^:/ ]*:/[^ ]*$")] | None = None
    """Folder of an NFS server, as `server:/path`. Kubernetes mounts it."""
    volume: VolumeClaim | None = None
    """Volume in the same namespace. Backups on it are lost together with the cluster."""
    password_ref: SecretKeyRef
    """Secret with the password that encrypts the repository. Keep a copy outside the cluster: without it no backup can
    be read."""
    upload_limit: Rate | None = None
    """Maximum rate of uploads in KiB a second, no limit if unset."""
    download_limit: Rate | None = None
    """Maximum rate of downloads in KiB a second, no limit if unset."""


class Include(Model):
    """Data in a backup besides databases, Secrets and resources."""

    images: bool = True
    """Store images that Glance has in files on a volume, or in a pool of a CephStorage. The first backup uploads all of
    them, before it reads the databases; later ones upload new images alone. Images in Swift and S3 are never in a
    backup."""
    volumes: bool = False
    """Store volumes in a pool of a CephStorage, with their snapshots. The backup takes a snapshot of each before it
    reads the databases. Unless `incremental` is set, each backup reads all data of all volumes, and uploads what
    changed."""
    incremental: bool = False
    """Read only what changed in images and volumes in Ceph since the last backup in the same repository that has this
    field. For this, a backup leaves a snapshot on each volume until the next one: Ceph stores data that change
    meanwhile twice. Such backups need one another: let only retention remove them."""
    disks: bool = False
    """Store disks of servers in a pool of a CephStorage. Each backup reads all their data, and uploads what changed.
    Nova cannot remove the disk of a server that is deleted while the backup reads this disk."""


class OpenStackBackupSpec(Model):
    """OpenStackBackup: one backup of the cloud in its namespace. It holds the data of each MariaDB, OVN's northbound
    database, images, the Secrets that cannot be made again, the Secrets that specs name, and the resources that you
    wrote; if you say so, also volumes and disks of servers in Ceph. The operator takes it once; deleting this resource
    keeps the backup. A user who may create it can read all Secrets of the cloud, from a
    repository of their own.
    """

    repository: Repository
    """Storage of the backup. Cannot be changed."""
    include: Include = Include()
    """Data in the backup besides databases, Secrets and resources. A backup that has begun does not change."""
    verify: bool = False
    """Restore the backup once it is complete, on the disk of a node, log in with the restored Keystone, decrypt rows of
    Barbican and Heat, and compare images with their rows. Nothing of it reaches the cloud. The node needs free disk
    space for the largest database."""


OF_SCHEDULE = "openstack.k8s.io/of-schedule"
"""Annotation of a backup that names the schedule which made it. Only the operator may write it."""

BACKUP = Resource(
    kind="OpenStackBackup",
    plural="openstackbackups",
    spec=OpenStackBackupSpec,
    status=OpenStackBackupStatus,
    short_names=("osbackup",),
    privileged=True,
    columns=(
        Column("Completed", ".status.completed", "date"),
        Column("Verified", ".status.verified", "date"),
        Column("Duration", ".status.duration"),
        Column("Size", ".status.size"),
    ),
)


class OpenStackRestoreSpec(RunSpec):
    """OpenStackRestore: makes the cloud of a backup again, in an empty namespace of this or another cluster; or with
    `only`, gives single schemas to a cloud that runs. For a whole cloud, the operator first fills the volumes of
    databases and images, then writes the Secrets, then the resources that you wrote, and fills the pools of Ceph while
    these start; what exists in a pool stays. A user who may create it can have the operator create any Secret and any
    of its kinds in the namespace.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "(has(self.backup) ? self.backup : '') == (has(oldSelf.backup) ? oldSelf.backup : '')"
            " && (has(self.cloud) ? self.cloud : '') == (has(oldSelf.cloud) ? oldSelf.cloud : '')"
            " && (has(self.pointInTime) ? self.pointInTime : '')"
            " == (has(oldSelf.pointInTime) ? oldSelf.pointInTime : '')",
            "a restore keeps its backup and its time; create another resource",
            ".backup",
        ),
        rule(
            "self.only == oldSelf.only"
            " && (has(self.database) ? self.database : '') == (has(oldSelf.database) ? oldSelf.database : '')",
            "a restore keeps its schemas; create another resource",
            ".only",
        ),
        rule(
            "self.only.size() > 0 || !(has(self.database) || has(self.confirm))",
            "database and confirm are about single schemas; set only, or remove them",
        ),
        rule(
            f"!self.only.exists(name, name in {_NO_SERVICES})",
            "this schema is of the server itself, or of the archive; name schemas of services",
            ".only",
        ),
        rule(
            "self.only.size() == 0 || !has(self.cloud)",
            "single schemas return to the cloud that the backup is of; remove cloud",
            ".cloud",
        ),
    )

    # It runs jobs alone.
    on_change = ""

    repository: Repository
    """Storage of the backup. Cannot be changed."""
    backup: Name | None = None
    """Name of the OpenStackBackup, the newest one of the cloud if unset."""
    cloud: Name | None = None
    """Namespace that the cloud had, if it was another one than this."""
    point_in_time: Second | None = None
    """Restore the databases to the end of this second, in UTC: 2026-11-30T08:15:00Z. It takes a backup of before, by
    default the newest, and the changes since from the archive, which must have them all."""
    only: Annotated[list[Schema], Field(max_length=20, json_schema_extra={"x-kubernetes-list-type": "set"})] = []
    """Schemas of a MariaDB, such as `keystone` or `nova_api`, that take the places of those of the cloud in this
    namespace, which runs on; all other parts stay as they are. All of them change at one moment, and the data of before
    stay in schemas beside them. Empty restores a whole cloud."""
    database: Name | None = None
    """Name of the MariaDB that has the schemas of `only`, if the backup has several."""
    confirm: Name | None = None
    """Name of this namespace, which confirms that `only` may change its cloud."""
    deadline: Annotated[str, DURATION, lasts("1m", "60d")] = "24h"
    """Time after which a restore that has not ended fails with the reason TooLate, and names what is not done. It goes
    on all the same; delete this resource to end it."""


RESTORE = Resource(
    kind="OpenStackRestore",
    plural="openstackrestores",
    spec=OpenStackRestoreSpec,
    status=OpenStackRestoreStatus,
    short_names=("osrestore",),
    privileged=True,
    columns=(
        Column("Backup", ".status.backup"),
        Column("Of", ".status.backupCompleted", "date"),
        Column("Completed", ".status.completed", "date"),
        Column("Duration", ".status.duration", priority=1),
    ),
)


Count = Annotated[int, Field(ge=1, le=10_000)]
History = Annotated[int, Field(ge=0, le=100)]


class Retention(Model):
    """Backups of a schedule that stay, with the meanings of restic: one stays if any of these counts keeps it. Hours,
    days, weeks and months are those of the times in the backups' names, which are in UTC.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "has(self.keepLast) || has(self.hourly) || has(self.daily) || has(self.weekly) || has(self.monthly)",
            "set at least one of keepLast, hourly, daily, weekly and monthly",
        ),
        rule(
            "has(self.accessKeyRef) == has(self.secretKeyRef)",
            "accessKeyRef and secretKeyRef go together; set both, or neither",
            ".accessKeyRef",
        ),
    )

    keep_last: Count | None = None
    """Number of newest backups that stay."""
    hourly: Count | None = None
    """Number of hours of which the newest backup stays; hours without a backup do not count."""
    daily: Count | None = None
    """Number of days of which the newest backup stays."""
    weekly: Count | None = None
    """Number of weeks of which the newest backup stays. A week begins on Monday."""
    monthly: Count | None = None
    """Number of months of which the newest backup stays."""
    access_key_ref: SecretKeyRef | None = None
    """Secret with the access key of another login to the bucket, which may delete objects. Unset takes that of the
    repository. With two logins, the one of the backups needs no right to delete them."""
    secret_key_ref: SecretKeyRef | None = None
    """Secret with the secret key of that login."""


class OpenStackBackupScheduleSpec(Model):
    """OpenStackBackupSchedule: creates an OpenStackBackup at the times of a schedule, and removes old backups. It does
    not start a backup while an earlier one of it runs. Deleting this resource, or one that it created, keeps the
    backups. A user who may create it can read all Secrets of the cloud, from a repository of their own.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.retention) || !has(self.retention.accessKeyRef) || has(self.repository.s3)",
            "only a bucket has logins; remove accessKeyRef and secretKeyRef, or set repository.s3",
            ".retention",
        ),
    )

    schedule: Schedule
    """Times of the backups, as a cron expression in `timeZone`."""
    time_zone: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$")] = "UTC"
    """Name of a time zone, as `Europe/Berlin`."""
    suspend: bool = False
    """Start no backup, and remove none. A backup that runs continues. Times that pass meanwhile are not made up for."""
    starting_deadline_seconds: Annotated[int, Field(ge=60, le=31_536_000)] | None = None
    """Seconds within which a missed time is made up for, as after an outage of the operator; without a limit if unset.
    Of several missed times the newest alone is."""
    deadline: Annotated[str, DURATION, lasts("1m", "60d")] = "6h"
    """Time that a backup may take, from its time in the schedule to its end. If it takes longer, and no later one is
    complete, it is late, and the resource is not Ready. A late backup continues."""
    repository: Repository
    """Storage of the backups. Cannot be changed."""
    include: Include = Include()
    """Data in later backups besides databases, Secrets and resources: `include` of an OpenStackBackup."""
    verify: bool = False
    """Verify each backup once it is complete: `verify` of an OpenStackBackup."""
    archive: bool = False
    """Store all changes of each MariaDB some seconds after their commit, beside the backups, so that a restore can go
    to any second since the first backup. Each MariaDB must write a binary log (`binaryLog`). A program writes a row
    into schema `openstack_operator` each second, and an object into the repository every two seconds."""
    retention: Retention | None = None
    """Backups of this schedule that stay; all if unset. The operator removes others after each backup, together with
    parts of backups that did not become complete within two days. Other backups in the repository stay, such as those
    of an OpenStackBackup that you created, and those of other clouds. The newest backup always stays."""
    successful_backups_history_limit: History = 3
    """Number of OpenStackBackups of this schedule that stay as resources once they are complete."""
    failed_backups_history_limit: History = 1
    """Number of OpenStackBackups of this schedule that stay as resources after they failed."""
    password_kept_outside: bool = False
    """Confirm that a copy of the repository's password is outside this cluster. Until then the condition
    PasswordKeptOutside is False, which does not concern Ready."""

    def destinations(self) -> Sequence[Destination]:
        """Return the server of the bucket for the other login."""
        if not self.retention or not self.repository.s3:
            return ()
        refs = {
            "retention.accessKeyRef": self.retention.access_key_ref,
            "retention.secretKeyRef": self.retention.secret_key_ref,
        }
        return sent(refs, self.repository.s3.endpoint)


class OpenStackBackupScheduleStatus(Model):
    """Status of an OpenStackBackupSchedule besides its conditions."""

    last_schedule_time: Annotated[str, Field(max_length=32)] | None = None
    """Time of the schedule at which a backup was last started or left out (RFC 3339)."""
    next_schedule_time: Annotated[str, Field(max_length=32)] | None = None
    """Next time of the schedule (RFC 3339); unset while it is suspended."""
    last_successful_time: Annotated[str, Field(max_length=32)] | None = None
    """Time at which the newest backup was complete (RFC 3339)."""
    last_backup: Annotated[str, Field(max_length=63)] | None = None
    """Name of the newest complete backup of this schedule."""
    active: Annotated[str, Field(max_length=63)] | None = None
    """Name of the backup that runs."""
    first_recoverable_time: Annotated[str, Field(max_length=32)] | None = None
    """First second to which a restore can go by the archive (RFC 3339)."""
    last_recoverable_time: Annotated[str, Field(max_length=32)] | None = None
    """Last second to which a restore can go by the archive (RFC 3339): a row of that second was found in what is
    stored. While the archive works, this is a full minute, and the archive is some seconds behind now."""
    backups: int | None = None
    """Number of complete backups of this cloud in the repository, as of the last removal of old ones."""


SCHEDULE = Resource(
    kind="OpenStackBackupSchedule",
    plural="openstackbackupschedules",
    spec=OpenStackBackupScheduleSpec,
    status=OpenStackBackupScheduleStatus,
    short_names=("osbackupschedule",),
    privileged=True,
    columns=(
        Column("Schedule", ".spec.schedule"),
        Column("Suspend", ".spec.suspend", "boolean"),
        Column("Last success", ".status.lastSuccessfulTime", "date"),
        Column("Recoverable until", ".status.lastRecoverableTime", "date"),
        Column("Next", ".status.nextScheduleTime", priority=1),
        Column("Backup", ".status.lastBackup", priority=1),
    ),
    times=(
        TimeMetric("backup_last_success", "When the newest backup of a schedule was complete", "lastSuccessfulTime"),
        TimeMetric(
            "backup_last_recoverable",
            "Last second to which a restore can go with the archive of a schedule",
            "lastRecoverableTime",
        ),
    ),
)
