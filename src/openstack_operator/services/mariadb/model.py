"""Spec of a MariaDB."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ...api import (
    PROVIDED,
    Column,
    ExternalServer,
    QuorumReplicas,
    Resource,
    Rule,
    RunSpec,
    Sections,
    UsesMonitoring,
    UsesTLS,
    UsesVolume,
    rule,
)


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
    config: Sections = {}
    """Extra options of my.cnf, merged over the operator's defaults: group (`mysqld`), option, value. An option that
    the operator sets itself is refused."""


MARIADB = Resource(
    kind="MariaDB",
    plural="mariadbs",
    spec=MariaDBSpec,
    columns=(Column("Replicas", ".spec.replicas", "integer"), Column("Storage", ".spec.storageSize")),
)
