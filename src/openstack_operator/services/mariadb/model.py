"""What users write to get a MariaDB."""

from __future__ import annotations

from typing import ClassVar, Literal

from ...api import (
    PROVIDED,
    Column,
    ExternalServer,
    QuorumReplicas,
    Resource,
    Rule,
    RunSpec,
    Sections,
    UsesTLS,
    UsesVolume,
    rule,
)


class MariaDBSpec(RunSpec, UsesVolume, UsesTLS):
    """MariaDB: the SQL server every service keeps its state in."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.replicas) || !has(oldSelf.replicas) || self.replicas >= oldSelf.replicas",
            "members cannot be taken away, since the others would wait for them; keep the old number",
            ".replicas",
        ),
        *PROVIDED,
    )

    provider: Literal["auto", "builtin", "mariadb-operator", "external"] = "builtin"
    """Who runs it: this operator, mariadb-operator by its own MariaDB (k8s.mariadb.com), which makes databases and
    accounts, too, or somebody else. `auto` is mariadb-operator where the cluster has its kinds, and builtin otherwise.
    Data do not move, so it stays as it was at first. In a ControlPlane of c5c3.io unset is auto."""
    external: ExternalServer | None = None
    """Where it is, with provider external."""
    replicas: QuorumReplicas = 1
    """Members of the cluster. More may be added later, none taken away: after an outage those left would wait for
    them. Several are a Galera cluster; services reach one of them, and another as soon as that one fails."""
    config: Sections = {}
    """Extra options of my.cnf, merged over the operator's defaults: group (`mysqld`), option, value. An option the
    operator wires itself is refused."""


MARIADB = Resource(
    kind="MariaDB",
    plural="mariadbs",
    spec=MariaDBSpec,
    columns=(Column("Replicas", ".spec.replicas", "integer"), Column("Storage", ".spec.storageSize")),
)
