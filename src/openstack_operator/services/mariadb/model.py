"""What users write to get a MariaDB."""

from __future__ import annotations

from ...api import Column, QuorumReplicas, Resource, RunSpec, Sections, UsesVolume


class MariaDBSpec(RunSpec, UsesVolume):
    """MariaDB: the SQL server every service keeps its state in."""

    replicas: QuorumReplicas = 1
    """Members of the cluster. More than one is not built yet and answered with a condition."""
    config: Sections = {}
    """Extra options of my.cnf, merged over the operator's defaults: group (`mysqld`), option, value. An option the
    operator wires itself is refused."""


MARIADB = Resource(
    kind="MariaDB",
    plural="mariadbs",
    spec=MariaDBSpec,
    columns=(Column("Replicas", ".spec.replicas", "integer"), Column("Storage", ".spec.storageSize")),
)
