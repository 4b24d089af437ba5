"""Spec of a MariaDB."""

from datetime import timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ...api import (
    DURATION,
    PROVIDED,
    Column,
    ExternalServer,
    Model,
    QuorumReplicas,
    Resource,
    Rule,
    RunSpec,
    Sections,
    UsesMonitoring,
    UsesTLS,
    UsesVolume,
    lasts,
    rule,
    seconds,
)


class BinaryLog(Model):
    """Log of all changes, the base of a restore to any second after a backup."""

    enabled: bool | None = None
    """Write the log, and give each change the same global identifier on all members. If unset, new servers do, but for
    MariaDB 10.11, images of Kolla, and a `config` that sets options of the log; servers from before this field do not.
    Each commit writes to the disk twice then. A change replaces the server's pods, one by one in a cluster."""
    keep_for: Annotated[str, DURATION, lasts("1h", "365d")] = "2d"
    """Time for which a file of the log stays on the volume of the server, such as 36h. MariaDB 11.4 and later remove
    files earlier if all take more than a tenth of `storageSize` or 1 GiB (`max_binlog_total_size` in `config`)."""

    @property
    def lifetime(self) -> timedelta:
        """Value of `keepFor`."""
        return seconds(self.keep_for)


class MariaDBSpec(RunSpec, UsesVolume, UsesTLS, UsesMonitoring):
    """MariaDB: the SQL server in which every service keeps its state."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.replicas) || !has(oldSelf.replicas) || self.replicas >= oldSelf.replicas",
            "members cannot be removed, since the others would wait for them; keep the old number",
            ".replicas",
        ),
        rule("!has(self.version) || !has(self.image)", "image and version exclude each other; remove one", ".version"),
        *PROVIDED,
    )

    version: Annotated[str, Field(max_length=7, pattern=r"^\d{1,3}\.\d{1,3}$")] | None = None
    """Major version of MariaDB, that of the release if unset. It must be one that the release offers. A later version
    replaces members one by one; going back needs a backup."""
    provider: Literal["auto", "builtin", "mariadb-operator", "external"] = "builtin"
    """Operator that runs the server: this one (`builtin`), mariadb-operator by its own MariaDB (k8s.mariadb.com), which
    makes databases and accounts, too, or none for an `external` server. `auto` is mariadb-operator if the cluster has
    its kinds, else builtin. The first choice cannot change, since data do not move. In a ControlPlane of c5c3.io unset
    is auto."""
    external: ExternalServer | None = None
    """Address of the server, with provider external."""
    replicas: QuorumReplicas = 1
    """Number of members of the cluster. You can add members later, but not remove any: after an outage the others would
    wait for it. Several members form a Galera cluster; services use one of them, and switch if it fails."""
    binary_log: BinaryLog = BinaryLog()
    """Log of all changes, the base of a restore to any second after a backup."""
    config: Sections = {}
    """Extra options of my.cnf, merged over the operator's defaults: group (`mysqld`), option, value. An option that
    the operator sets itself is refused."""


MARIADB = Resource(
    kind="MariaDB",
    plural="mariadbs",
    spec=MariaDBSpec,
    columns=(Column("Replicas", ".spec.replicas", "integer"), Column("Storage", ".spec.storageSize")),
)
