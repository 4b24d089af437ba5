"""Stream of one RBD image: a line of JSON about it, then a difference for each of its snapshots, as `rbd export-diff`
writes it (rbd-diff version 1: doc/dev/rbd-diff.rst of Ceph). A stream may go on from the end of another one.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from .run import RunError

INDEX = "rbd-images.json"
"""File of the index of a pool: name, snapshot of the repository, state and bytes of each RBD image; if it has several
streams, `chain` are their snapshots, the whole one first.
"""
MAX_INDEX = 64 << 20
_WHOLE, _CONTINUED = 1, 2
"""Formats of streams: one that has all data, and one that goes on from another."""
_DIFF_HEADER = b"rbd diff v1\n"
_MAX_HEADER_LINE = 1 << 20
_MAX_NAME = 4096
_PIECE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ImageHeader:
    """An RBD image, as its stream begins with it."""

    name: str
    size: int
    """Bytes."""
    object_size: int
    """Bytes of an object."""
    snapshots: tuple[tuple[str, bool], ...]
    """Name of each snapshot, the oldest first, and whether it is protected."""
    tail: str
    """Snapshot of the backup itself, to which the last difference goes; empty if the last of `snapshots` has all."""
    begin: str = ""
    """Snapshot from which the first difference goes, the `end` of another stream; empty if this one has all data."""
    stored_snapshots: int = 0
    """Number of the first `snapshots`, which the other stream has."""
    id: str = ""
    """Identity of the image in Ceph: another image of the same name has another one."""

    @property
    def differences(self) -> list[str]:
        """Snapshots to which the differences go, each from the one before it."""
        return [*(name for name, _ in self.snapshots[self.stored_snapshots :]), *([self.tail] if self.tail else [])]

    @property
    def end(self) -> str:
        """Snapshot to which the last difference goes, of this stream or of the one that it goes on from."""
        return [self.begin, *self.differences][-1]

    @property
    def state(self) -> str:
        """Digest of all but the snapshot of the backup itself: images with one state have the same snapshots."""
        text = json.dumps([self.name, self.id, self.size, self.object_size, self.snapshots])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def dump(self) -> bytes:
        """Return its line."""
        return json.dumps({"format": _CONTINUED if self.begin else _WHOLE, **vars(self)}).encode() + b"\n"

    @classmethod
    def read(cls, source: IO[bytes]) -> ImageHeader:
        """Read the line. Raise RunError."""
        line = source.readline(_MAX_HEADER_LINE)
        try:
            values: Mapping[str, Any] = json.loads(line)
            if values["format"] not in (_WHOLE, _CONTINUED):
                raise RunError(f"the data of an RBD image have format {values['format']!r}, which is not known here")
            return cls.of(values)
        except (ValueError, LookupError, TypeError):
            raise RunError(
                "the data of an RBD image do not begin as a backup writes them; use another backup"
            ) from None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ImageHeader:
        """Return what JSON of it says. Raise ValueError, LookupError or TypeError for something else."""
        return cls(
            name=str(values["name"]),
            size=int(values["size"]),
            object_size=int(values["object_size"]),
            snapshots=tuple((str(name), bool(is_protected)) for name, is_protected in values["snapshots"]),
            tail=str(values["tail"]),
            begin=str(values.get("begin", "")),
            stored_snapshots=int(values.get("stored_snapshots", 0)),
            id=str(values.get("id", "")),
        )

    def require_after(self, before: ImageHeader | None) -> None:
        """Raise RunError if this stream does not go on from the other one, or without one lacks data."""
        if self.begin != (before.end if before else "") or (before and before.name != self.name):
            text = f"the data of the RBD image {self.name!r} do not go on from those before them"
            raise RunError(f"{text}; use another backup")


def chain_of(entry: Mapping[str, Any]) -> list[str]:
    """Return the snapshots of the repository with the streams of an entry of the index, in order. Raise RunError for
    what would be an option of restic.
    """
    chain = [str(snapshot) for snapshot in entry.get("chain") or [entry["snapshot"]]]
    if wrong := [snapshot for snapshot in chain if snapshot.startswith("-")]:
        raise RunError(f"the index of the pool has a snapshot {wrong[0]!r}; use another backup")
    return chain


def read_difference(source: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of one difference, to its end and not further. Raise RunError if it ends before."""
    yield _exact(source, len(_DIFF_HEADER), expected=_DIFF_HEADER)
    while True:
        tag = _exact(source, 1)
        match tag:
            case b"e":
                yield tag
                return
            case b"f" | b"t":
                length = _exact(source, 4)
                size = struct.unpack("<I", length)[0]
                if size > _MAX_NAME:
                    raise _damaged(f"a name of {size} bytes")
                yield tag + length + _exact(source, size)
            case b"s":
                yield tag + _exact(source, 8)
            case b"z":
                yield tag + _exact(source, 16)
            case b"w":
                extent = _exact(source, 16)
                yield tag + extent
                rest = struct.unpack("<QQ", extent)[1]
                while rest:
                    piece = _exact(source, min(rest, _PIECE))
                    rest -= len(piece)
                    yield piece
            case _:
                raise _damaged(f"a record {tag!r}")


def read_image(source: IO[bytes]) -> tuple[ImageHeader, int]:
    """Read a whole stream; return its header and its bytes. Raise RunError if it is not whole."""
    header = ImageHeader.read(source)
    size = len(header.dump())
    for _ in header.differences:
        size += sum(map(len, read_difference(source)))
    if source.read(1):
        raise _damaged("data after its end")
    return header, size


def _exact(source: IO[bytes], size: int, *, expected: bytes = b"") -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise _damaged("an early end")
    if expected and data != expected:
        raise _damaged(f"{data!r} in the place of a difference")
    return data


def _damaged(text: str) -> RunError:
    return RunError(f"the data of an RBD image are not whole: they have {text}; use another backup")
