"""Make a backup whole: a backup exists once the repository has its manifest."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .repository import open_repository, rfc3339
from .run import RunError, main, settings

MANIFEST, CONTENTS = "manifest.json", "contents.json.gz"
_KINDS = ("database", "northbound", "images", "rbd-index")


def store(config: Path) -> dict[str, Any]:
    """Store the manifest, with the SHA-256 of the contents, and the contents as one snapshot. Return `snapshot` and
    `taken`, its time. Raise RunError, also if the snapshot of a database is missing: there is no backup then.
    """
    run, contents = settings(config), config / "contents" / CONTENTS
    # No schedule has the name of a dash.
    tags = ["kind=manifest", f"backup={run['backup']}", f"schedule={run['schedule'] or '-'}"]
    with open_repository(config) as repository:
        repository.unlock()
        stored = {entry["id"] for kind in _KINDS for entry in repository.snapshots(f"kind={kind}")}
        if missing := [each for each in part_snapshots(run["manifest"]) if each not in stored]:
            text = ", ".join(missing)
            raise RunError(f"the repository has no snapshot {text}; back up its data again, then the manifest")
        folder = repository.work / "files"
        folder.mkdir()
        shutil.copyfile(contents, folder / CONTENTS)
        digest = hashlib.sha256((folder / CONTENTS).read_bytes()).hexdigest()
        (folder / MANIFEST).write_text(json.dumps({**run["manifest"], "sha256": digest}), encoding="utf-8")
        summary = repository.store(tags, run["cloud"], MANIFEST, CONTENTS, cwd=folder)
        snapshot = summary["snapshot_id"]
        # Read it as a restore does: whether a program can is not certain before.
        [snapshot_time] = [
            entry["time"] for entry in repository.snapshots(*tags, host=run["cloud"]) if entry["id"] == snapshot
        ]
    return {"snapshot": snapshot, "taken": rfc3339(snapshot_time)}


def part_snapshots(manifest: Mapping[str, Any]) -> Iterable[str]:
    """Return the snapshots of the databases, networks, pools and images of a manifest, in which they are lists, or
    maps by name.
    """
    parts = (manifest.get(field, ()) for field in ("databases", "networks", "pools"))
    entries = [entry for part in parts for entry in (part.values() if isinstance(part, dict) else part)]
    images = [snapshot for entry in manifest.get("images", ()) for snapshot in entry["snapshots"]]
    return [*(str(entry["snapshot"]) for entry in entries), *images]


if __name__ == "__main__":
    main(store)
