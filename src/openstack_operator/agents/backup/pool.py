"""Back up the RBD images of a pool, which another program of the pod reads: each as a snapshot of the repository."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .rbd_door import STAY, answer_of, ask_rbd
from .rbd_stream import INDEX, ImageHeader
from .repository import Repository, open_repository
from .run import RunError, main, say, settings


def back_up_pool(config: Path) -> dict[str, Any]:
    """Store the RBD images of a pool that this backup has not yet, or of which it lacks snapshots, and an index of all
    that it has. Return the index's `snapshot`, the number of `images`, their `bytes`, `stored` bytes that the
    repository did not have, and `seconds`. Raise RunError. A run that was killed is continued by the next one.
    """
    run, began = settings(config), time.monotonic()
    folder = Path(run["folder"])
    with ask_rbd(folder, do=STAY), open_repository(config) as repository:
        repository.create()
        repository.unlock()
        tags = [f"backup={run['backup']}", f"pool={run['pool']}"]
        stored = stored_rbd_images(repository.snapshots("kind=rbd", *tags, host=run["cloud"]))
        answer_of(folder, do="clean")
        added = 0
        for name in answer_of(folder, do="list")["names"]:
            values = answer_of(folder, do="describe", name=name)["header"]
            header = ImageHeader.of(values) if values else None
            if header is None or stored.get(name, {}).get("state") == header.state:
                continue
            if summary := store_image(repository, run, folder, header):
                size = summary["total_bytes_processed"]
                stored[name] = {"snapshot": summary["snapshot_id"], "state": header.state, "bytes": size}
                added += summary.get("data_added_packed", summary["data_added"])
        entries: list[dict[str, Any]] = [{"name": name, **stored[name]} for name in sorted(stored)]
        index = repository.work / "index"
        index.mkdir()
        (index / INDEX).write_text(json.dumps(entries), encoding="utf-8")
        summary = repository.store(["kind=rbd-index", *tags], run["cloud"], INDEX, cwd=index)
    return {
        "snapshot": summary["snapshot_id"],
        "images": len(entries),
        "bytes": sum(entry["bytes"] for entry in entries),
        "stored": added,
        "seconds": round(time.monotonic() - began, 1),
    }


def stored_rbd_images(entries: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the `snapshot`, the `state` and the `bytes` of each RBD image that a backup has, the newest ones, from its
    snapshots in order.
    """
    stored: dict[str, dict[str, Any]] = {}
    for entry in entries:
        tags = dict(tag.split("=", 1) for tag in entry.get("tags") or () if "=" in tag)
        size = (entry.get("summary") or {}).get("total_bytes_processed", 0)
        stored[tags["image"]] = {"snapshot": str(entry["id"]), "state": tags["state"], "bytes": size}
    return stored


def store_image(
    repository: Repository, run: Mapping[str, Any], folder: Path, header: ImageHeader
) -> Mapping[str, Any] | None:
    """Store an RBD image; return restic's summary, None if the image was deleted meanwhile. Raise RunError."""
    tags = [
        "kind=rbd",
        f"backup={run['backup']}",
        f"pool={run['pool']}",
        f"image={header.name}",
        f"state={header.state}",
    ]
    say(f"storing {run['pool']}/{header.name}")
    try:
        with ask_rbd(folder, do="export", header=vars(header)) as connection:
            return repository.store_stream(tags, run["cloud"], f"{header.name}.rbd", connection.receive())
    except RunError:
        # A user may delete a volume while it is read.
        if answer_of(folder, do="describe", name=header.name)["header"]:
            raise
        say(f"{header.name} was deleted meanwhile")
        return None


if __name__ == "__main__":
    main(back_up_pool)
