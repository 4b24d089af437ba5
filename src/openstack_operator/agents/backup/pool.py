"""Back up the RBD images of a pool, which another program of the pod reads: each as a snapshot of the repository, which
has what changed since an earlier one if the backup is incremental.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .rbd_door import STAY, answer_of, ask_rbd
from .rbd_stream import INDEX, ImageHeader
from .repository import Repository, open_repository
from .run import RunError, main, say, settings

_MAX_READINGS = 3
"""Readings of an RBD image whose snapshots are removed meanwhile, before it is read without them."""
_MAX_NAMED = 5
_REMOVED = "snapshots=removed"
"""Tag of a stream without the snapshots of its RBD image."""
_SHORTEST, _RANGE = 14, 14
"""Streams of one RBD image before it is read whole again: 14 to 27, by its name, so that no backup has to read all
images whole.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stream:
    """A stream of an RBD image in the repository."""

    snapshot: str
    """Snapshot of the repository."""
    backup: str
    image: str
    state: str
    end: str
    """Snapshot of the RBD image from which another stream can go on; empty if none can."""
    base: str
    """Snapshot of the repository with the stream that this one goes on from; empty if it has all data."""
    size: int
    """Bytes."""
    lacks_snapshots: bool = False
    """True if snapshots were removed each time that it was read, so that it has none."""

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Stream | None:
        """Return what restic says of a snapshot; None for one that no backup made."""
        tags = _tags(entry)
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
            lacks_snapshots=_REMOVED in entry["tags"],
        )


class Streams:
    """The streams of a pool in the repository, in order."""

    def __init__(self, entries: Sequence[Mapping[str, Any]], complete: Collection[str]) -> None:
        """Take what restic lists, and the names of the complete backups."""
        self._streams, self._of_images = dict[str, Stream](), dict[str, list[Stream]]()
        self._complete = complete
        for stream in filter(None, map(Stream.of, entries)):
            self.add(stream)

    def add(self, stream: Stream) -> None:
        """Add the newest one."""
        self._streams[stream.snapshot] = stream
        self._of_images.setdefault(stream.image, []).append(stream)

    def of_backup(self, backup: str) -> dict[str, Stream]:
        """Return the newest stream that a backup has of each RBD image, with all that it goes on from; none of another
        backup that had its name and was complete.
        """
        if backup in self._complete:
            return {}
        return {each.image: each for each in self._streams.values() if each.backup == backup and self.chain(each)}

    def ends(self, image: str) -> list[str]:
        """Return the snapshots with which streams of an RBD image end, the newest one last."""
        return [stream.end for stream in self._of_images.get(image, ()) if stream.end]

    def newest_ends(self) -> list[str]:
        """Return the last one for each RBD image."""
        return [ends[-1] for image in self._of_images if (ends := self.ends(image))]

    def chain(self, stream: Stream) -> list[Stream]:
        """Return a stream after those that it goes on from; nothing if one of these is missing."""
        chain = [stream]
        while base := chain[0].base:
            before = self._streams.get(base)
            if before is None or before in chain:
                return []
            chain.insert(0, before)
        return chain

    def choose_base(
        self, header: ImageHeader, ends: Mapping[str, int], backup: str
    ) -> tuple[Stream, ImageHeader] | None:
        """Return the stream from which that of an RBD image can go on, and the header with it; `ends` are snapshots of
        the image. Return None if it has to be read whole. No retention removes streams of complete backups that are the
        newest.
        """
        for stream in reversed(self._of_images.get(header.name, [])):
            if not stream.end or not (stream.backup == backup or stream.backup in self._complete):
                continue
            if not (chain := self.chain(stream)):
                continue
            # An image of Glance has the data of its last snapshot, which never change.
            if not header.tail and chain[0].state == header.state:
                return chain[0], replace(header, begin=header.end, stored_snapshots=len(header.snapshots))
            if stream.end in ends and len(chain) < _length(header.name):
                return stream, replace(header, begin=stream.end, stored_snapshots=ends[stream.end])
        return None


def _length(name: str) -> int:
    """Return how many streams an RBD image has at most before it is read whole again."""
    return _SHORTEST + zlib.crc32(name.encode()) % _RANGE


def back_up_pool(config: Path) -> dict[str, Any]:
    """Store the RBD images of a pool that this backup has not yet, or of which it lacks snapshots, and an index of all
    that it has. Return the index's `snapshot`, the number of `images`, their `bytes`, `stored` bytes that the
    repository did not have, `withoutSnapshots` (the `count` and the first few `images` whose snapshots are left out,
    since users removed some each time that they were read), and `seconds`. Raise RunError. A run that was killed is
    continued by the next one.
    """
    run, began = settings(config), time.monotonic()
    folder = Path(run["folder"])
    with ask_rbd(folder, do=STAY), open_repository(config) as repository:
        repository.create()
        repository.unlock()
        manifests = repository.snapshots("kind=manifest", host=run["cloud"])
        tags = [_tags(entry) for entry in manifests]
        complete = {each.get("backup", "") for each in tags if each.get("kind") == "manifest"}
        streams = Streams(_entries(repository, run), complete)
        stored = streams.of_backup(run["backup"])
        answer_of(folder, do="clean", ends=streams.newest_ends() if _is_incremental(run) else [])
        added = 0
        for name in answer_of(folder, do="list")["names"]:
            header, _ = _look(folder, "describe", name)
            if header is None or _is_stored(stored.get(name), header):
                continue
            if (result := _store(repository, run, folder, streams, name)) is None:
                continue
            stream, size = result
            stored[name] = stream
            streams.add(stream)
            added += size
        chains = [streams.chain(stream) for _, stream in sorted(stored.items())]
        _refuse_removed(repository, run, chains)
        entries = [_entry(chain) for chain in chains]
        index = repository.work / "index"
        index.mkdir()
        (index / INDEX).write_text(json.dumps(entries), encoding="utf-8")
        labels = ["kind=rbd-index", f"backup={run['backup']}", f"pool={run['pool']}"]
        summary = repository.store(labels, run["cloud"], INDEX, cwd=index)
    incomplete = [chain[-1].image for chain in chains if chain[-1].lacks_snapshots]
    return {
        "snapshot": summary["snapshot_id"],
        "images": len(entries),
        "bytes": sum(entry["bytes"] for entry in entries),
        "stored": added,
        "withoutSnapshots": {"count": len(incomplete), "images": incomplete[:_MAX_NAMED]},
        "seconds": round(time.monotonic() - began, 1),
    }


def _is_stored(stream: Stream | None, header: ImageHeader) -> bool:
    """Return True if the backup has an RBD image as it is. One whose snapshots users removed during each reading is
    not read again: that would take as long once more, and end as before.
    """
    if stream is None:
        return False
    return stream.state == (replace(header, snapshots=()) if stream.lacks_snapshots else header).state


def _is_incremental(run: Mapping[str, Any]) -> bool:
    """Return True if the backup goes on from earlier ones, and leaves what later ones go on from."""
    return bool(run.get("incremental"))


def _look(folder: Path, request: str, name: str) -> tuple[ImageHeader | None, Mapping[str, int]]:
    """Return the header of an RBD image, None if it is gone, and its snapshots from which a stream can go on."""
    answer = answer_of(folder, do=request, name=name)
    return (ImageHeader.of(answer["header"]) if answer["header"] else None), answer["ends"]


def _store(
    repository: Repository, run: Mapping[str, Any], folder: Path, streams: Streams, name: str
) -> tuple[Stream, int] | None:
    """Store an RBD image; return its stream, and the bytes that the repository did not have; None if the image was
    deleted meanwhile. Raise RunError.
    """
    for reading in range(_MAX_READINGS + 1):
        header, is_last = None, reading == _MAX_READINGS
        try:
            header, ends = _look(folder, "freeze", name)
            if header is None:
                return None
            plain = replace(header, snapshots=()) if is_last and header.tail else None
            return _read(repository, run, folder, streams, plain or header, ends, lacks_snapshots=bool(plain))
        except RunError as error:
            # A user may delete the image, or snapshots of it, while they are read. Cinder removes the snapshot of the
            # backup itself first when it deletes a volume.
            present, _ = _look(folder, "describe", name)
            if present is None:
                say(f"{name} was deleted meanwhile")
                return None
            has_all = header is not None and dict(header.snapshots).keys() <= dict(present.snapshots).keys()
            if is_last or has_all:
                raise
            say(f"{name} is read again, since a snapshot of it was removed: {error}")
    return None


def _read(
    repository: Repository,
    run: Mapping[str, Any],
    folder: Path,
    streams: Streams,
    header: ImageHeader,
    ends: Mapping[str, int],
    *,
    lacks_snapshots: bool,
) -> tuple[Stream, int]:
    """Read an RBD image once; return its stream, and the bytes that the repository did not have. Raise RunError."""
    # A later stream would go on from snapshots that one without them does not have.
    incremental = _is_incremental(run) and not lacks_snapshots
    chosen = streams.choose_base(header, ends, run["backup"]) if incremental else None
    base, header = chosen or (None, header)
    labels = [
        *([f"end={header.end}"] if incremental else []),
        *([f"base={base.snapshot}"] if base else []),
        *([_REMOVED] if lacks_snapshots else []),
    ]
    say(f"storing {run['pool']}/{header.name}{', what changed' if base else ''}")
    summary = store_image(repository, run, folder, header, labels, keeps=incremental)
    stream = Stream(
        snapshot=str(summary["snapshot_id"]),
        backup=run["backup"],
        image=header.name,
        state=header.state,
        end=header.end if incremental else "",
        base=base.snapshot if base else "",
        size=summary["total_bytes_processed"],
        lacks_snapshots=lacks_snapshots,
    )
    if incremental and (former := [end for end in streams.ends(header.name) if end in ends]):
        # No later stream goes on from them.
        answer_of(folder, do="release", name=header.name, snapshots=former)
    return stream, summary.get("data_added_packed", summary["data_added"])


def _refuse_removed(repository: Repository, run: Mapping[str, Any], chains: Sequence[Sequence[Stream]]) -> None:
    """Raise RunError if another program has removed a stream meanwhile; the next run stores what it lacks."""
    existing = {str(entry["id"]) for entry in _entries(repository, run)}
    if missing := [chain[-1].image for chain in chains if not existing.issuperset(each.snapshot for each in chain)]:
        raise RunError(f"data of {missing[0]} were removed from the repository while the backup ran")


def _entries(repository: Repository, run: Mapping[str, Any]) -> list[dict[str, Any]]:
    return repository.snapshots("kind=rbd", f"pool={run['pool']}", host=run["cloud"])


def _tags(entry: Mapping[str, Any]) -> dict[str, str]:
    return dict(tag.split("=", 1) for tag in entry.get("tags") or () if "=" in tag)


def _entry(chain: Sequence[Stream]) -> dict[str, Any]:
    """Return the entry of an RBD image in the index."""
    newest, snapshots = chain[-1], [each.snapshot for each in chain]
    size = sum(each.size for each in chain)
    entry = {"name": newest.image, "snapshot": newest.snapshot, "state": newest.state, "bytes": size}
    entry |= {"lacksSnapshots": True} if newest.lacks_snapshots else {}
    return entry | ({"chain": snapshots} if len(snapshots) > 1 else {})


def store_image(
    repository: Repository,
    run: Mapping[str, Any],
    folder: Path,
    header: ImageHeader,
    labels: Sequence[str],
    *,
    keeps: bool,
) -> Mapping[str, Any]:
    """Store a stream of an RBD image; return restic's summary. With `keeps`, the snapshot of its end stays. Raise
    RunError.
    """
    tags = [
        "kind=rbd",
        f"backup={run['backup']}",
        f"pool={run['pool']}",
        f"image={header.name}",
        f"state={header.state}",
        *labels,
    ]
    with ask_rbd(folder, do="export", header=vars(header), keeps=keeps) as connection:
        return repository.store_stream(tags, run["cloud"], f"{header.name}.rbd", connection.receive())


if __name__ == "__main__":
    main(back_up_pool)
