"""Rows of Glance, Cinder and Nova about RBD images, compared with those that a backup has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .image_data import listed_names
from .rbd_stream import INDEX, MAX_INDEX
from .repository import Repository
from .schemas import answer_lines, schemas_with

_SNAPSHOTS = "snapshots"
"""Rows about snapshots of volumes, beside those of each use."""
_SERVICE_TABLES = {
    "images": "image_locations",
    "volumes": "volume_attachment",
    _SNAPSHOTS: "volume_attachment",
    "vms": "instance_extra",
}
"""A table that the schema of the service of a use has, and no other."""
_RBD_ROWS = {
    # rbd://<cluster>/<pool>/<RBD image>/<snapshot>
    "images": (
        "SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(l.value, '/', -2), '/', 1), SUBSTRING_INDEX(l.value, '/', 4),"
        " i.status = 'active'"
        " FROM {schema}.images i JOIN {schema}.image_locations l ON l.image_id = i.id"
        " WHERE i.deleted = 0 AND l.deleted = 0 AND l.value LIKE 'rbd://%'"
    ),
    # The name of a volume that was migrated is that of another id.
    "volumes": (
        "SELECT CONCAT('volume-', IFNULL(NULLIF(_name_id, ''), id)), IFNULL(SUBSTRING_INDEX(host, '#', 1), ''),"
        " status IN ('available', 'in-use') FROM {schema}.volumes WHERE deleted = 0"
    ),
    _SNAPSHOTS: (
        "SELECT CONCAT('snapshot-', s.id), CONCAT('volume-', IFNULL(NULLIF(v._name_id, ''), v.id)),"
        " s.status = 'available'"
        " FROM {schema}.snapshots s JOIN {schema}.volumes v ON v.id = s.volume_id WHERE s.deleted = 0 AND v.deleted = 0"
    ),
    # One that boots from a volume has no image, and one that is shelved has no disk.
    "vms": (
        "SELECT CONCAT(uuid, '_disk'), IFNULL(host, ''), image_ref <> '' AND vm_state IN ('active', 'stopped')"
        " FROM {schema}.instances WHERE deleted = 0"
    ),
}


@dataclass(frozen=True)
class Row:
    """Row about an RBD image."""

    name: str
    place: str
    """Cluster and pool of an image, backend of a volume, node of a server, RBD image of a snapshot."""
    has_data: bool
    """True if it can be used, and so must have its data."""


def rbd_rows(ask: Callable[[str], str]) -> dict[str, list[Row]]:
    """Return the rows about RBD images, by their use, by a function from a statement to a server's lines; nothing for a
    service that has no schema there.
    """
    rows: dict[str, list[Row]] = {}
    for use, table in _SERVICE_TABLES.items():
        for schema in schemas_with(ask, table):
            rows.setdefault(use, []).extend(_rbd_rows_of(ask(_RBD_ROWS[use].format(schema=schema))))
    return rows


def rbd_reports(
    rows: Mapping[str, Sequence[Row]], repository: Repository, pools: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return what does not fit for each pool, by its `name`, of whose service there are rows: what `compare` returns,
    and of volumes also `snapshotsWithoutData`. Raise RunError.
    """
    reports: dict[str, dict[str, Any]] = {}
    for pool in pools:
        if pool["use"] not in rows:
            continue
        entries = json.loads(repository.read(pool["index"], INDEX, MAX_INDEX))
        report = compare(rows[pool["use"]], {str(entry["name"]) for entry in entries})
        if pool["use"] == "volumes":
            # Their users removed snapshots each time that they were read.
            incomplete = {str(entry["name"]) for entry in entries if entry.get("lacksSnapshots")}
            lost = [row.name for row in rows.get(_SNAPSHOTS, ()) if row.has_data and row.place in incomplete]
            report["snapshotsWithoutData"] = listed_names(sorted(lost))
        reports[pool["name"]] = report
    return reports


def compare(rows: Sequence[Row], stored: set[str]) -> dict[str, Any]:
    """Return what does not fit: names `withoutData` and `withoutRow`, each with its `count` and the first few. Rows of
    a pool, a backend or a node of which the backup has nothing are left out: its data are elsewhere.
    """
    places = {row.place for row in rows if row.name in stored}
    lost = sorted({row.name for row in rows if row.has_data and row.place in places} - stored)
    # A server may have several disks: `<uuid>_disk`, `<uuid>_disk.config`.
    names = {row.name for row in rows}
    orphans = sorted(name for name in stored if name.partition(".")[0] not in names)
    return {"withoutData": listed_names(lost), "withoutRow": listed_names(orphans)}


def _rbd_rows_of(text: str) -> Iterator[Row]:
    for line in answer_lines(text):
        name, place, has_data = line.split("\t")
        yield Row(name, place, has_data == "1")
