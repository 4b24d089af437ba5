"""Restore a backup into a scratch folder and use it: nothing of it reaches the cloud, nor a volume that stays."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

from .contents import read_backup, select, unpack
from .image_data import SAMPLE, ImageRows, check_images, image_rows, stored_images
from .rbd_stream import INDEX, MAX_INDEX, chain_of, read_image
from .repository import MIB, Repository, open_repository
from .restore import ask_server, gtid_of, refuse_older_server, served, unpack_stream
from .run import RunError, main, run_child, say, settings
from .schemas import REVISION_TABLE, revision, schemas_with
from .sealed_rows import count_decrypted

_REQUEST_FILE, _ANSWER_FILE, _END_FILE = "identity.json", "identity.answer", "ended"
_ANSWER_SECONDS = 600.0
_PAUSE = 0.2
_BROKEN = (
    "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables WHERE table_comment LIKE '%error%'"
)
_RECORD = re.compile(rb"OVSDB JSON (\d+) ([0-9a-f]{40})\n")
_MAX_HEADER = 100
_MAX_MISSING = 5
_READ_BYTES = 4 << 30
"""Bytes of RBD images from which on no further one is read: those of a large cloud are read over many days."""


def verify(config: Path) -> dict[str, Any]:
    """Restore the backup that run.json names, and use it. Return `seconds` that it took, `bytes` of databases,
    `revisions` of the schemas, and the numbers of `objects`, `users`, `projects` and `credentials`, of rows `decrypted`
    of Barbican and Heat, and with images in the backup of `images`, those `hashed` and `fleeting` ones, with pools that
    of `rbd` images. Raise RunError with the first part that cannot be used.
    """
    run, began = settings(config), time.monotonic()
    folder = Path(run["folder"])
    try:
        with open_repository(config) as repository:
            result = use(repository, run, folder)
    finally:
        # The other program of the pod waits no longer.
        (folder / _END_FILE).touch()
    return {**result, "seconds": round(time.monotonic() - began, 1)}


def use(repository: Repository, run: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the result of `verify` besides its time."""
    backup = read_backup(repository, select(repository.snapshots("kind=manifest"), run["backup"], run["cloud"]))
    body = json.loads(unpack(backup.body))
    manifest, objects = body["manifest"], body["contents"]["objects"]
    keys = write_keys(objects, folder / "keys") if run["identity"] else False
    result: dict[str, Any] = {"objects": len(objects), "bytes": 0, "revisions": {}, "decrypted": 0}
    snapshots = [snapshot for entry in manifest.get("images", ()) for snapshot in entry["snapshots"]]
    stored = stored_images(repository, snapshots)
    for entry in manifest["databases"]:
        size, facts, rows = use_database(repository, entry, objects, folder, asks_identity=keys)
        if rows and manifest.get("images"):
            began = datetime.fromisoformat(manifest["began"])
            result |= check_images(repository, rows, stored, run["backup"], began=began)
        result["bytes"] += size
        result["revisions"] |= facts.pop("revisions")
        facts["decrypted"] += result["decrypted"]
        result |= facts
    if keys and "users" not in result:
        raise RunError("no restored database has the tables of Keystone; the backup is of an empty database")
    for entry in manifest.get("networks", ()):
        with repository.dump(entry["snapshot"], f"{entry['name']}.ovsdb") as source:
            refuse_damaged(source.stdout, entry["name"])
            repository.check(source)
    for entry in manifest.get("pools", ()):
        result["rbd"] = result.get("rbd", 0) + check_pool(repository, entry, run["backup"])
    return result


def check_pool(repository: Repository, entry: Mapping[str, Any], seed: str, limit: int = _READ_BYTES) -> int:
    """Return the number of RBD images of a pool, all of which are in the repository, after a sample by the seed was
    read whole: SAMPLE at most, until `limit` bytes were. Raise RunError for one that is missing or damaged.
    """
    listed: list[dict[str, Any]] = json.loads(repository.read(entry["snapshot"], INDEX, MAX_INDEX))
    stored = {each["id"] for each in repository.snapshots("kind=rbd")}
    if missing := [each["name"] for each in listed if not stored.issuperset(chain_of(each))]:
        names = ", ".join(missing[:_MAX_MISSING])
        raise RunError(f"{len(missing)} RBD images of pool {entry['pool']} are not in the repository: {names}")
    sample, size = sorted(listed, key=lambda each: str(each["name"])), 0
    random.Random(seed).shuffle(sample)  # noqa: S311  (a choice, not a secret)
    for each in sample[:SAMPLE]:
        if size >= limit:
            break
        size += check_image(repository, str(each["name"]), chain_of(each))
    return len(listed)


def check_image(repository: Repository, name: str, chain: Sequence[str]) -> int:
    """Return the bytes of the streams of an RBD image. Raise RunError if they are not whole, or not one another's."""
    size, before, snapshots = 0, None, set[str]()
    for snapshot in chain:
        with repository.dump(snapshot, f"{name}.rbd") as source:
            try:
                header, length = read_image(source.stdout)
            except RunError:
                repository.check_ended(source)
                raise
            repository.check(source)
        if header.name != name:
            raise RunError(f"the data of the RBD image {name} are those of {header.name}; use another backup")
        header.require_after(before)
        size, before = size + length, header
        snapshots.update(header.differences)
        if missing := [each for each, _ in header.snapshots if each not in snapshots]:
            raise RunError(f"the data of the RBD image {name} lack its snapshot {missing[0]}; use another backup")
    return size


def write_keys(objects: Sequence[Mapping[str, Any]], folder: Path) -> bool:
    """Write the rings of keys of the one Keystone of a backup; return False if there are several. Raise RunError if
    it lacks those of stored credentials. Keys of tokens are new, as those of a restored cloud are.
    """
    rings = [
        each
        for each in objects
        if each["kind"] == "Secret" and str(each["metadata"]["name"]).endswith("-credential-keys")
    ]
    if not rings:
        raise RunError("the backup has no Secret with Keystone's credential keys; stored credentials are lost")
    if len(rings) > 1:
        say("the backup has several Secrets with credential keys: no login is tried")
        return False
    keys = {str(name): text for name, text in (rings[0].get("data") or {}).items() if str(name).isdecimal()}
    if not keys:
        raise RunError(f"Secret {rings[0]['metadata']['name']} of the backup has no keys")
    token_keys = {name: base64.urlsafe_b64encode(os.urandom(32)) for name in ("0", "1")}
    credential_keys = {name: base64.b64decode(text) for name, text in keys.items()}
    for ring, files in (("fernet", token_keys), ("credential", credential_keys)):
        (folder / ring).mkdir(parents=True, exist_ok=True)
        for name, key in files.items():
            (folder / ring / name).write_bytes(key)
    return True


def use_database(
    repository: Repository,
    entry: Mapping[str, Any],
    objects: Sequence[Mapping[str, Any]],
    folder: Path,
    *,
    asks_identity: bool,
) -> tuple[int, dict[str, Any], ImageRows | None]:
    """Return the bytes of a database, what its server and Keystone say, and its rows of images. Raise RunError, also
    for rows that no key in the objects of the backup decrypts.
    """
    data = repository.work / "data"
    data.mkdir()
    refuse_older_server(entry["server"], run_child("mariadbd", "--version"))
    size = unpack_stream(repository, {"database": entry["name"], "snapshot": entry["snapshot"]}, data)
    run_child("mariadb-backup", "--prepare", f"--target-dir={data}")
    if (gtid := gtid_of(data)) != entry["gtid"]:
        raise RunError(f"the data of {entry['name']} end at change {gtid!r}, the backup says {entry['gtid']!r}")
    with served(data, folder) as socket:
        facts: dict[str, Any] = {"revisions": revisions(socket)}
        if broken := ask_server(socket, _BROKEN).split():
            raise RunError(f"tables of {entry['name']} cannot be read: {', '.join(broken[:10])}")
        facts["decrypted"] = count_decrypted(partial(ask_server, socket), objects)
        schemas = schemas_with(partial(ask_server, socket), "local_user")
        if asks_identity and schemas:
            facts |= ask_identity(folder, schemas[0], socket)
        rows = image_rows(partial(ask_server, socket))
    shutil.rmtree(data)
    return size, facts, rows


def revisions(socket: Path) -> dict[str, str]:
    """Return the revision of each schema that has one. Raise RunError for a schema that lost its own."""
    ask = partial(ask_server, socket)
    result = {schema: revision(ask, schema) for schema in schemas_with(ask, REVISION_TABLE)}
    if empty := [schema for schema, text in result.items() if not text]:
        raise RunError(f"the restored schema {empty[0]} has no revision; the backup is of an empty database")
    return result


def ask_identity(folder: Path, schema: str, socket: Path) -> dict[str, Any]:
    """Return what Keystone found, in the other container of the pod. Raise RunError if it cannot use what it got."""
    question = {"schema": schema, "socket": str(socket), "keys": str(folder / "keys")}
    fresh = folder / f"{_REQUEST_FILE}.new"
    fresh.write_text(json.dumps(question), encoding="utf-8")
    fresh.rename(folder / _REQUEST_FILE)
    deadline = time.monotonic() + _ANSWER_SECONDS
    while not (folder / _ANSWER_FILE).exists():
        if time.monotonic() > deadline:
            raise RunError("Keystone did not answer within ten minutes; see the container 'identity' of this pod")
        time.sleep(_PAUSE)
    answer: dict[str, Any] = json.loads((folder / _ANSWER_FILE).read_text(encoding="utf-8"))
    if error := answer.get("error"):
        raise RunError(f"Keystone cannot use the restored database and keys: {error}")
    return {name: answer[name] for name in ("users", "projects", "credentials")}


def refuse_damaged(source: IO[bytes], name: str) -> None:
    """Raise RunError if a record of a database of OVN is not what its header says (ovsdb(5))."""
    count = 0
    while line := source.readline(_MAX_HEADER):
        header, digest = _RECORD.fullmatch(line), hashlib.sha1(usedforsecurity=False)
        remaining = int(header[1]) if header else 0
        while remaining and (piece := source.read(min(remaining, MIB))):
            digest.update(piece)
            remaining -= len(piece)
        count += 1
        if not header or remaining or digest.hexdigest().encode() != header[2]:
            raise RunError(f"record {count} of the northbound database of {name} is damaged; use another backup")
    if not count:
        raise RunError(f"the northbound database of {name} is empty; use another backup")


if __name__ == "__main__":
    main(verify)
