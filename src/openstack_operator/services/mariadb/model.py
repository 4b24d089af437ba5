"""What users write to get a MariaDB."""

from __future__ import annotations

from typing import ClassVar

from ...api import Column, QuorumReplicas, Resource, Rule, RunSpec, Sections, UsesTLS, UsesVolume, rule


class MariaDBSpec(RunSpec, UsesVolume, UsesTLS):
    """MariaDB: the SQL server every service keeps its state in."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.replicas) || !has(oldSelf.replicas) || self.replicas >= oldSelf.replicas",
            "members cannot be taken away, since the others would wait for them; keep the old number",
            ".replicas",
        ),
    )

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
