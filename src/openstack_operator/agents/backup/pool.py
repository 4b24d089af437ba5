"""Back up the RBD images of a pool, which another program of the pod reads: each as a snapshot of the repository, which
has what changed since an earlier one if there is one to go on from.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .rbd_door import STAY, answer_of, ask_rbd
from .rbd_stream import INDEX, ImageHeader
from .repository import Repository, open_repository
from .run import RunError, main, say, settings

_SHORTEST, _LONGEST = 14, 28
"""Streams of one RBD image. They differ from image to image: so no backup has to read all images whole."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A stream of an RBD image in the repository."""

    snapshot: str
    """Snapshot of the repository."""
    backup: str
    image: str
    state: str
    end: str
    """Snapshot of the RBD image to which it goes."""
    base: str
    """Snapshot of the repository that it goes on from."""
    size: int
    """Bytes."""

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Part | None:
        """Return what restic says of a snapshot; None for one that no backup made."""
        tags = dict(tag.split("=", 1) for tag in entry.get("tags") or () if "=" in tag)
        if not tags.keys() >= {"backup", "image", "state"}:
            return None
        return cls(
            snapshot=str(entry["id"]),
            backup=tags["backup"],
            image=tags["image"],
            state=tags["state"],
            end=tags.get("end", ""),
            base=tags.get("base", ""),
            size=(entry.get("summary") or {}).get("total_bytes_processed", 0),
        )


class Parts:
    """The streams of a pool in the repository, in order."""

    def __init__(self, entries: Sequence[Mapping[str, Any]]) -> None:
        self._parts, self._of_images = dict[str, Part](), dict[str, list[Part]]()
        for part in filter(None, map(Part.of, entries)):
            self.add(part)

    def add(self, part: Part) -> None:
        """Add the newest one."""
        self._parts[part.snapshot] = part
        self._of_images.setdefault(part.image, []).append(part)

    def of_backup(self, backup: str) -> dict[str, Part]:
        """Return the newest stream that a backup has of each RBD image, with all that it goes on from."""
        return {part.image: part for part in self._parts.values() if part.backup == backup and self.chain(part)}

    def ends(self, image: str) -> list[str]:
        """Return the snapshots with which streams of an RBD image end, the newest one last."""
        return [part.end for part in self._of_images.get(image, ()) if part.end]

    def newest_ends(self) -> list[str]:
        """Return the last one for each RBD image."""
        return [ends[-1] for image in self._of_images if (ends := self.ends(image))]

    def chain(self, part: Part) -> list[Part]:
        """Return a stream after those that it goes on from; nothing if one of these is missing."""
        chain = [part]
        while base := chain[0].base:
            before = self._parts.get(base)
            if before is None or before in chain:
                return []
            chain.insert(0, before)
        return chain

    def before(self, header: ImageHeader, ends: Mapping[str, int]) -> tuple[Part, ImageHeader] | None:
        """Return the stream from which that of an RBD image can go on, and the header with it; `ends` are snapshots of
        the image. Return None if it has to be read whole.
        """
        for part in reversed(self._of_images.get(header.name, [])):
            if not (chain := self.chain(part)):
                continue
            # An image of Glance has the data of its last snapshot, which never change.
            if not header.tail and chain[0].state == header.state:
                return chain[0], replace(header, base=header.end, since=len(header.snapshots))
            if part.end in ends and len(chain) < _length(header.name):
                return part, replace(header, base=part.end, since=ends[part.end])
        return None


def _length(name: str) -> int:
    """Return how many streams an RBD image has at most before it is read whole again."""
    return _SHORTEST + zlib.crc32(name.encode()) % (_LONGEST - _SHORTEST)


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
        parts = Parts(_entries(repository, run))
        stored = parts.of_backup(run["backup"])
        answer_of(folder, do="clean", ends=parts.newest_ends())
        added = 0
        for name in answer_of(folder, do="list")["names"]:
            answer = answer_of(folder, do="describe", name=name)
            header = ImageHeader.of(answer["header"]) if answer["header"] else None
            if header is None or (name in stored and stored[name].state == header.state):
                continue
            base, header = parts.before(header, answer["ends"]) or (None, header)
            if summary := store_image(repository, run, folder, header, base):
                stored[name] = part = _part(run, header, base, summary)
                parts.add(part)
                added += summary.get("data_added_packed", summary["data_added"])
                _release(run, folder, name, parts.ends(name)[:-1], answer["ends"])
        chains = [parts.chain(part) for _, part in sorted(stored.items())]
        _refuse_removed(repository, run, chains)
        entries = [_entry(chain) for chain in chains]
        index = repository.work / "index"
        index.mkdir()
        (index / INDEX).write_text(json.dumps(entries), encoding="utf-8")
        tags = ["kind=rbd-index", f"backup={run['backup']}", f"pool={run['pool']}"]
        summary = repository.store(tags, run["cloud"], INDEX, cwd=index)
    return {
        "snapshot": summary["snapshot_id"],
        "images": len(entries),
        "bytes": sum(entry["bytes"] for entry in entries),
        "stored": added,
        "seconds": round(time.monotonic() - began, 1),
    }


def _refuse_removed(repository: Repository, run: Mapping[str, Any], chains: Sequence[Sequence[Part]]) -> None:
    """Raise RunError if another program has removed a stream meanwhile; the next run stores what it lacks."""
    existing = {str(entry["id"]) for entry in _entries(repository, run)}
    if missing := [chain[-1].image for chain in chains if not existing.issuperset(part.snapshot for part in chain)]:
        raise RunError(f"data of {missing[0]} were removed from the repository while the backup ran")


def _entries(repository: Repository, run: Mapping[str, Any]) -> list[dict[str, Any]]:
    return repository.snapshots("kind=rbd", f"pool={run['pool']}", host=run["cloud"])


def _entry(chain: Sequence[Part]) -> dict[str, Any]:
    """Return the entry of an RBD image in the index."""
    newest, snapshots = chain[-1], [part.snapshot for part in chain]
    size = sum(part.size for part in chain)
    entry = {"name": newest.image, "snapshot": newest.snapshot, "state": newest.state, "bytes": size}
    return entry | ({"chain": snapshots} if len(snapshots) > 1 else {})


def _part(run: Mapping[str, Any], header: ImageHeader, base: Part | None, summary: Mapping[str, Any]) -> Part:
    return Part(
        snapshot=str(summary["snapshot_id"]),
        backup=run["backup"],
        image=header.name,
        state=header.state,
        end=_end(run, header),
        base=base.snapshot if base else "",
        size=summary["total_bytes_processed"],
    )


def _end(run: Mapping[str, Any], header: ImageHeader) -> str:
    """Return the snapshot that stays in the pool, so that a later stream can go on from it."""
    return header.tail if run["keeps"] else ""


def _release(run: Mapping[str, Any], folder: Path, name: str, ends: Sequence[str], existing: Mapping[str, int]) -> None:
    """Remove the snapshots from which no later stream will go on, once a newer one is in the repository."""
    if run["keeps"] and (former := [end for end in ends if end in existing]):
        answer_of(folder, do="release", name=name, snapshots=former)


def store_image(
    repository: Repository, run: Mapping[str, Any], folder: Path, header: ImageHeader, base: Part | None
) -> Mapping[str, Any] | None:
    """Store an RBD image, from a stream on if there is one; return restic's summary, None if the image was deleted
    meanwhile. Raise RunError.
    """
    tags = [
        "kind=rbd",
        f"backup={run['backup']}",
        f"pool={run['pool']}",
        f"image={header.name}",
        f"state={header.state}",
        *([f"end={end}"] if (end := _end(run, header)) else []),
        *([f"base={base.snapshot}"] if base else []),
    ]
    say(f"storing {run['pool']}/{header.name}{', what changed' if base else ''}")
    try:
        with ask_rbd(folder, do="export", header=vars(header), keeps=bool(run["keeps"])) as connection:
            return repository.store_stream(tags, run["cloud"], f"{header.name}.rbd", connection.receive())
    except RunError:
        # A user may delete a volume while it is read.
        if answer_of(folder, do="describe", name=header.name)["header"]:
            raise
        say(f"{header.name} was deleted meanwhile")
        return None


if __name__ == "__main__":
    main(back_up_pool)
