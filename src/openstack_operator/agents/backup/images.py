"""Back up images in files: those that the repository has not yet."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .image_data import IMAGE_FOLDER, StoredImage, stored_images
from .repository import open_repository
from .run import RunError, main, settings

_MAX_UNREAD = 5


def back_up_images(config: Path) -> dict[str, Any]:
    """Store the images of a volume. Return `snapshot`, the number of `images`, their `bytes`, `stored` bytes that the
    repository did not have, and `seconds`; the snapshot is empty if there is no folder of images. Raise RunError, also
    if a file was left out that is still there: a user may delete an image meanwhile.
    """
    run, began = settings(config), time.monotonic()
    volume = Path(run["folder"])
    folder = volume / IMAGE_FOLDER
    if not folder.exists():
        # Glance makes it at its start. The volume itself must be there.
        next(volume.iterdir(), None)
        return {"snapshot": "", "images": 0, "bytes": 0, "stored": 0, "seconds": 0}
    before = files_in(folder)
    with open_repository(config) as repository:
        repository.create()
        repository.unlock()
        tags = ["kind=images", f"glance={run['name']}"]
        # By itself, restic would take the newest one of this folder, which another Glance may have, too.
        earlier = [str(entry["id"]) for entry in repository.snapshots(*tags, host=run["cloud"])]
        parent = [f"--parent={earlier[-1]}"] if earlier else []
        tags = [*tags, f"backup={run['backup']}"]
        words = [*parent, IMAGE_FOLDER]
        summary = repository.store(tags, run["cloud"], *words, cwd=volume, accepts_gaps=True)
        snapshot = str(summary["snapshot_id"])
        stored = stored_images(repository, [snapshot])
    refuse_gaps(folder, before, stored)
    return {
        "snapshot": snapshot,
        "images": len(stored),
        "bytes": sum(image.size for image in stored.values()),
        "stored": summary.get("data_added_packed", summary["data_added"]),
        "seconds": round(time.monotonic() - began, 1),
    }


def files_in(folder: Path) -> dict[str, int]:
    """Return the number (inode) of each file of a folder by its name."""
    numbers: dict[str, int] = {}
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            if path.is_file():
                numbers[path.name] = path.stat().st_ino
    return numbers


def refuse_gaps(folder: Path, before: Mapping[str, int], stored: Mapping[str, StoredImage]) -> None:
    """Raise RunError if a file that was there `before`, and still is, was not stored. An upload that broke off is
    removed, and a new one of the same image makes another file.
    """
    after = files_in(folder)
    if unread := sorted(name for name in before.keys() - stored.keys() if after.get(name) == before[name]):
        listed = ", ".join(unread[:_MAX_UNREAD])
        raise RunError(f"{len(unread)} images cannot be read: {listed}; see the log of the pod, and check the volume")


if __name__ == "__main__":
    main(back_up_images)
