"""Restore a northbound database of OVN into the volume of its first member; in the image of OVN."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .run import RunError, main, run_child, settings

_SCHEMAS = Path("/usr/share/ovn")
_ELECTION_TIMER = 5000
"""Milliseconds: shorter ones lose the leader whenever the processor is busy."""
_ADDRESS = "tcp:127.0.0.1:6643"
"""Address of the new member; it takes its own at its first start, as one that is alone can."""
_MARK = "restored"
"""File with the snapshot that the data directory was made of."""


def restore(config: Path, schemas: Path = _SCHEMAS) -> dict[str, Any]:
    """Make a cluster of one member of a database that was stored; return `cluster`, its identity. Rows have the
    identities that they had. Raise RunError: the data directory has no database then, or the one that it had.
    """
    run = settings(config)
    source, data = Path(run["folder"]) / run["file"], Path(run["datadir"])
    path, mark = data / "ovnnb_db.db", data / _MARK
    if path.exists() and not (mark.exists() and mark.read_text(encoding="utf-8") == run["snapshot"]):
        raise RunError(f"there is a database in {data}; restore into a new volume")
    if not path.exists():
        copy = Path(run["folder"]) / "converted.ovsdb"
        shutil.copyfile(source, copy)
        convert(copy, schemas / "ovn-nb.ovsschema", run)
        fresh = data / "ovnnb_db.db.new"
        fresh.unlink(missing_ok=True)
        run_child(
            "ovsdb-tool", f"--election-timer={_ELECTION_TIMER}", "create-cluster", str(fresh), str(copy), _ADDRESS
        )
        mark.write_text(run["snapshot"], encoding="utf-8")
        os.sync()
        fresh.rename(path)
        os.sync()
    return {"cluster": run_child("ovsdb-tool", "db-cid", str(path)).strip()}


def convert(database: Path, schema: Path, run: Mapping[str, Any]) -> None:
    """Give a database the schema of this image. Raise RunError if that is older: rows would lose what it lacks."""
    before = run_child("ovsdb-tool", "db-version", str(database)).strip()
    if before != run["schema"]:
        raise RunError(f"the database has schema {before}, the backup says {run['schema']}; use another backup")
    now = run_child("ovsdb-tool", "schema-version", str(schema)).strip()
    if parts(now) < parts(before):
        raise RunError(
            f"the backup has schema {before} of OVN's northbound database, and this OVN has {now};"
            " choose a release with a newer OVN"
        )
    if now != before:
        run_child("ovsdb-tool", "convert", str(database), str(schema))


def parts(version: str) -> tuple[int, ...]:
    """Return a version of a schema as numbers. Raise ValueError for what is none."""
    return tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    main(restore)
