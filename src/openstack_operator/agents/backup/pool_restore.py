"""Restore the RBD images of a pool that do not exist, by another program of the pod."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .rbd_door import STAY, answer_of, ask_rbd
from .rbd_stream import INDEX, MAX_INDEX, ImageHeader, chain_of, read_difference
from .repository import Repository, open_repository
from .run import RunError, main, say, settings

_MAX_FAILURES = 5
"""RBD images that cannot be restored, after which a run ends: the repository itself may be gone."""


def restore_pool(config: Path) -> dict[str, Any]:
    """Write the RBD images of a backup that the pool has not, once it can be used. Return the number of `images` that
    were restored, of those that `existed`, the `bytes` of the restored ones, and `seconds`. An image has its name once
    it has all of its data. Raise RunError: the next run goes on with those that are missing.
    """
    run, began = settings(config), time.monotonic()
    folder = Path(run["folder"])
    with ask_rbd(folder, do=STAY), open_repository(config) as repository:
        answer_of(folder, do="wait")
        restored = existed = size = 0
        failures: list[str] = []
        for entry in json.loads(repository.read(run["index"], INDEX, MAX_INDEX)):
            try:
                if restore_image(repository, folder, entry):
                    restored, size = restored + 1, size + int(entry["bytes"])
                else:
                    existed += 1
            except RunError as error:
                # One that cannot be restored must not stop the others.
                failures.append(f"{entry['name']}: {error}")
                if len(failures) == _MAX_FAILURES:
                    break
        if failures:
            raise RunError("; ".join(failures))
    return {
        "images": restored,
        "existed": existed,
        "bytes": size,
        "seconds": round(time.monotonic() - began, 1),
    }


def restore_image(repository: Repository, folder: Path, entry: Mapping[str, Any]) -> bool:
    """Return True if an RBD image was restored, now or by an earlier run of this restore; False for one that existed
    before. Raise RunError.
    """
    name, before = str(entry["name"]), None
    for stream in chain_of(entry):
        with repository.dump(stream, f"{name}.rbd") as source:
            try:
                header = ImageHeader.read(source.stdout)
            except RunError:
                repository.check_ended(source)
                raise
            if header.name != name:
                raise RunError(f"the data of the RBD image {name!r} are those of {header.name!r}; use another backup")
            header.require_after(before)
            if before is None:
                beginning = answer_of(folder, do="begin", header=vars(header))
                if beginning["exists"]:
                    return bool(beginning["restored"])
                say(f"restoring {name}")
            for snapshot in header.differences:
                if before:
                    answer_of(folder, do="replace", name=name, snapshot=snapshot)
                with ask_rbd(folder, do="write", name=name) as connection:
                    connection.send(read_difference(source.stdout))
                    connection.hear()
            repository.check(source)
            before = header
    assert before, "an entry has a stream"
    answer_of(folder, do="finish", header=vars(before))
    return True


if __name__ == "__main__":
    main(restore_pool)
