"""Restore images into the volume of a Glance, before it runs."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from .image_data import IMAGE_FOLDER, StoredImage, stored_images
from .repository import MIB, open_repository
from .run import RunError, main, settings

MARK = ".restored-images"
"""File of the volume that says which snapshots it is filled from, and at last that it is."""
_COMPLETE = "complete"
_LOST_AND_FOUND = "lost+found"
_MAX_NAMES = 5


def restore_images(config: Path) -> dict[str, Any]:
    """Write the images of snapshots to an empty volume. Return the number of `images`, their `bytes`, and `seconds`;
    the same, without a change, if they were written before. Raise RunError: the next run goes on with what is there.
    """
    run, began = settings(config), time.monotonic()
    volume, snapshots = Path(run["folder"]), [str(each) for each in run["snapshots"]]
    with claimed_volume(volume, snapshots) as mark, open_repository(config) as repository:
        stored = stored_images(repository, snapshots)
        if not is_complete(mark):
            refuse_small_volume(volume, stored)
            # The later one last: an upload that the earlier one has a part of had ended by then.
            for snapshot in snapshots:
                repository.restore(snapshot, volume)
            refuse_incomplete(volume / IMAGE_FOLDER, stored)
            # The data before the mark: a power cut in between must not leave half of them with it.
            os.sync()
            mark.write(f"{_COMPLETE}\n")
            mark.flush()
            os.fsync(mark.fileno())
    return {
        "images": len(stored),
        "bytes": sum(image.size for image in stored.values()),
        "seconds": round(time.monotonic() - began, 1),
    }


@contextmanager
def claimed_volume(volume: Path, snapshots: Sequence[str]) -> Generator[IO[str]]:
    """Yield the mark of a volume, which no other run has meanwhile, at its end. Raise RunError if the volume has
    anything but images of these snapshots that this program wrote.
    """
    path, first_line = volume / MARK, " ".join(snapshots)
    is_marked = path.exists()
    entries = sorted({each.name for each in volume.iterdir()} - {MARK, _LOST_AND_FOUND})
    # Glance makes further folders when it starts.
    if strangers := [name for name in entries if name != IMAGE_FOLDER or not is_marked]:
        raise RunError(
            f"the volume of the images is not empty ({', '.join(strangers[:_MAX_NAMES])}); delete the cloud's Glance"
            " and this volume, or restore into another namespace"
        )
    with path.open("a+", encoding="utf-8") as mark:
        try:
            # It ends with the file.
            fcntl.lockf(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise RunError("another run fills the volume of the images; wait until it has ended") from None
        mark.seek(0)
        lines = mark.read().splitlines()
        if entries and lines[:1] != [first_line]:
            raise RunError(
                f"the volume of the images has data of another restore (snapshots {lines[0] if lines else 'unknown'});"
                " delete this volume, or restore into another namespace"
            )
        if lines[:1] != [first_line]:
            mark.truncate(0)
            mark.write(f"{first_line}\n")
            mark.flush()
            os.fsync(mark.fileno())
        yield mark


def is_complete(mark: IO[str]) -> bool:
    """Return True if the volume was filled."""
    mark.seek(0)
    return mark.read().splitlines()[1:] == [_COMPLETE]


def refuse_small_volume(volume: Path, stored: Mapping[str, StoredImage]) -> None:
    """Raise RunError if the volume has not room for all images."""
    space, folder = os.statvfs(volume), volume / IMAGE_FOLDER
    existing = sum((folder / name).stat().st_size for name in stored if (folder / name).exists())
    needed, free = sum(image.size for image in stored.values()), space.f_bavail * space.f_frsize + existing
    if needed > free:
        raise RunError(
            f"the images take {needed // MIB} MiB, and their volume has room for {free // MIB} MiB; enlarge the claim"
        )


def refuse_incomplete(folder: Path, stored: Mapping[str, StoredImage]) -> None:
    """Raise RunError if a file is missing, or has another size than its snapshot says."""
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()} if stored else {}
    if lost := sorted(name for name, image in stored.items() if sizes.get(name) != image.size):
        raise RunError(f"{len(lost)} images were not written: {', '.join(lost[:_MAX_NAMES])}; see the log of the pod")


if __name__ == "__main__":
    main(restore_images)
