"""Images in files: the data that snapshots have of them, and what Glance's rows say of these."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from .repository import MIB, Repository
from .run import RunError, say
from .schemas import answer_lines, schemas_with

IMAGE_FOLDER = "images"
"""Folder of the volume with a file for each image, called by its id."""
_FILE_SCHEME = "file://"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][-_.A-Za-z0-9]{0,63}")
"""Names that a report may have: they become words of commands."""
_MAX_LISTED = 5
_HASHED_BYTES = 4 << 30
"""Bytes of images from which on no further one is read for its hash: those of a large cloud are read over many days."""
SAMPLE = 200
"""Images of which a verification reads data at most: a user can have very many small ones."""
_IMAGE_TABLE = "image_locations"
_IMAGE_ROWS = (
    "SELECT i.id, IFNULL(i.size, -1), IFNULL(i.os_hash_algo, ''), IFNULL(i.os_hash_value, ''), l.value,"
    " DATE_FORMAT(IFNULL(i.updated_at, i.created_at), '%Y-%m-%dT%H:%i:%sZ')"
    " FROM {schema}.images i JOIN {schema}.image_locations l ON l.image_id = i.id"
    " WHERE i.status IN ('active', 'deactivated') AND i.deleted = 0 AND l.deleted = 0"
)
_SKEW = timedelta(minutes=5)
"""Time by which the clocks of Glance and of the operator differ at most."""


@dataclass(frozen=True)
class StoredImage:
    """A file of a snapshot."""

    snapshot: str
    size: int


@dataclass(frozen=True)
class ImageRow:
    """Row of an image in a file."""

    identifier: str
    file: str
    """Name of its file."""
    size: int
    algorithm: str
    digest: str
    """Hash of its data; empty if Glance has none."""
    changed: datetime
    """Time of the last change of the row."""

    def is_older(self, began: datetime) -> bool:
        """Return True if a backup that began then has its data for sure: a user may upload an image after the first
        reading of the images, and delete it before the second.
        """
        return self.changed < began - _SKEW


@dataclass(frozen=True)
class ImageRows:
    """Images that users can use, by the rows of a database."""

    files: Sequence[ImageRow]
    elsewhere: int
    """Number of images that are in no file."""


def stored_images(repository: Repository, snapshots: Iterable[str]) -> dict[str, StoredImage]:
    """Return the files of snapshots by their names; of two with one name, that of the later one. Raise RunError."""
    stored: dict[str, StoredImage] = {}
    for snapshot in snapshots:
        for line in repository.ask("ls", "--no-lock", snapshot).splitlines():
            entry: dict[str, Any] = json.loads(line)
            folder, _, name = str(entry.get("path", "")).rpartition("/")
            if entry.get("type") == "file" and folder == f"/{IMAGE_FOLDER}":
                stored[name] = StoredImage(snapshot, int(entry.get("size", 0)))
    return stored


def image_rows(ask: Callable[[str], str]) -> ImageRows | None:
    """Return the rows of images, by a function from a statement to a server's lines; None if it has no Glance."""
    files: dict[str, ImageRow] = {}
    identifiers: set[str] = set()
    schemas = schemas_with(ask, _IMAGE_TABLE)
    for schema in schemas:
        for line in answer_lines(ask(_IMAGE_ROWS.format(schema=schema))):
            identifier, size, algorithm, digest, location, changed = line.split("\t")
            identifiers.add(identifier)
            if location.startswith(_FILE_SCHEME):
                name = location.rpartition("/")[2]
                at = datetime.fromisoformat(changed)
                files[identifier] = ImageRow(identifier, name, int(size), algorithm, digest, at)
    return ImageRows([*files.values()], len(identifiers - files.keys())) if schemas else None


def without_data(rows: Iterable[ImageRow], stored: Mapping[str, StoredImage]) -> list[str]:
    """Return the images of which there is no file, or one of another size."""
    return sorted(row.identifier for row in rows if row.file not in stored or stored[row.file].size != row.size)


def image_report(rows: ImageRows, stored: Mapping[str, StoredImage]) -> dict[str, Any]:
    """Return what does not fit: images `withoutData` and files `withoutRow`, each with its `count` and the first few
    `images`; and the numbers of `rows` about files, and of images `elsewhere`.
    """
    names = {row.file for row in rows.files}
    return {
        "rows": len(rows.files),
        "elsewhere": rows.elsewhere,
        "withoutData": listed_names(without_data(rows.files, stored)),
        "withoutRow": listed_names(sorted(stored.keys() - names)),
    }


def listed_names(names: Sequence[str]) -> dict[str, Any]:
    plain_names = [name for name in names if _PLAIN_NAME.fullmatch(name)]
    return {"count": len(names), "images": plain_names[:_MAX_LISTED]}


def check_images(
    repository: Repository,
    rows: ImageRows,
    stored: Mapping[str, StoredImage],
    seed: str,
    *,
    began: datetime,
    limit: int = _HASHED_BYTES,
) -> dict[str, int]:
    """Return the number of `images` in files, that of `fleeting` ones, and of those whose hash was compared: a sample
    by the seed, SAMPLE at most, until `limit` bytes were read. A user changed a fleeting one while the backup ran, from
    the time `began` on, and the backup lacks its data; all others have theirs. Raise RunError with the images whose
    data are missing or wrong.
    """
    unchanged_rows = [row for row in rows.files if row.is_older(began)]
    if missing := without_data(unchanged_rows, stored):
        listed = ", ".join(missing[:_MAX_LISTED])
        raise RunError(
            f"{len(missing)} images have a row and not all of their data in the backup: {listed}; if the cloud has no"
            " data of them either, delete them there (openstack image delete), and make another backup"
        )
    fleeting = {*without_data(rows.files, stored)}
    present = [row for row in rows.files if row.digest and row.identifier not in fleeting]
    sample = sorted(present, key=lambda row: row.identifier)
    random.Random(seed).shuffle(sample)  # noqa: S311  (a choice, not a secret)
    size = hashed = 0
    for row in sample[:SAMPLE]:
        if size >= limit:
            break
        if row.algorithm not in hashlib.algorithms_available:
            say(f"image {row.identifier} has a hash by {row.algorithm!r}, which is not known here")
            continue
        if image_digest(repository, stored[row.file], row) != row.digest:
            if not row.is_older(began):
                fleeting.add(row.identifier)
                continue
            raise RunError(
                f"the data of image {row.identifier} in the backup are not those of its row (os_hash_value); compare it"
                " with `openstack image save`, and make another backup"
            )
        size, hashed = size + row.size, hashed + 1
    if fleeting:
        listed = ", ".join(sorted(fleeting)[:_MAX_LISTED])
        say(f"{len(fleeting)} images were changed while the backup ran, and were not compared: {listed}")
    return {"images": len(rows.files), "fleeting": len(fleeting), "hashed": hashed}


def image_digest(repository: Repository, image: StoredImage, row: ImageRow) -> str:
    """Return the hash of stored data, by the algorithm of a row. Raise RunError."""
    digest = hashlib.new(row.algorithm)
    with repository.dump(image.snapshot, f"{IMAGE_FOLDER}/{row.file}") as source:
        while piece := source.stdout.read(MIB):
            digest.update(piece)
        repository.check(source)
    return digest.hexdigest()
