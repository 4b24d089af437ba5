"""Store the copy of a database that mariadb-operator wrote to a volume: a stream of mariadb-backup."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, BinaryIO

from .database import position
from .repository import open_repository
from .run import RunError, main, settings

_TARGET = "0-backup-target.txt"
"""File in which mariadb-operator says where the copy is in its pod (pkg/builder, batchBackupTargetFilePath)."""
_ENDING = ".xb"
"""Ending of the name of a copy that is not compressed."""
_MAGIC = b"XBSTCK01"
_PAYLOAD, _END, _REMOVAL, _RENAMING = b"P", b"E", b"R", b"N"
"""Types of a chunk of such a stream (extra/mariabackup/xbstream.h)."""
_DESCRIPTIONS = ("mariadb_backup_info", "xtrabackup_info")
_LONGEST_NAME, _LARGEST_INFO = 4096, 1 << 20
_PIECE = 1 << 20


def store_copy(config: Path) -> dict[str, Any]:
    """Store the copy. Return as the program does that reads a database itself. Raise RunError: there is no snapshot
    then.
    """
    run, began = settings(config), time.monotonic()
    name = run["database"]
    with open_repository(config) as repository, copy_in(Path(run["folder"])).open("rb") as stream:
        repository.create()
        repository.unlock()
        info = repository.work / "info"
        info.mkdir()
        summary = repository.store_stream(
            ["kind=database", f"backup={run['backup']}", f"database={name}"],
            run["cloud"],
            f"{name}.mbstream",
            pieces(stream, info),
        )
        gtid, server = position(info)
    return {
        "snapshot": summary["snapshot_id"],
        "bytes": summary["total_bytes_processed"],
        "stored": summary.get("data_added_packed", summary["data_added"]),
        "gtid": gtid,
        "server": server,
        "seconds": round(time.monotonic() - began, 1),
    }


def copy_in(folder: Path) -> Path:
    """Return the copy that mariadb-operator made last in a folder. Raise RunError if there is none."""
    try:
        # Another folder in its pod.
        name = Path((folder / _TARGET).read_text(encoding="utf-8").strip()).name
    except OSError as error:
        raise RunError(f"mariadb-operator left no copy: {error}") from None
    if not name.endswith(_ENDING) or not (folder / name).is_file():
        raise RunError(f"mariadb-operator left no copy {name!r}; remove the PhysicalBackup, and it makes another one")
    return folder / name


def pieces(stream: BinaryIO, info: Path) -> Generator[bytes]:
    """Yield the bytes of a stream, and write what mariadb-backup says of it into a folder. Raise RunError for a stream
    that is not whole.
    """
    while magic := stream.read(len(_MAGIC)):
        if magic != _MAGIC:
            raise RunError("the copy is no stream of mariadb-backup; use an image with mariadb-backup of the server")
        head = _exactly(stream, 6)
        kind, name_length = head[1:2], int.from_bytes(head[2:], "little")
        name = _exactly(stream, min(name_length, _LONGEST_NAME))
        yield magic + head + name
        if kind == _PAYLOAD:
            sizes = _exactly(stream, 20)
            yield sizes
            yield from _payload(stream, int.from_bytes(sizes[:8], "little"), _file(info, name))
        elif kind == _RENAMING:
            length = _exactly(stream, 4)
            yield length + _exactly(stream, min(int.from_bytes(length, "little"), _LONGEST_NAME))
        elif kind not in (_END, _REMOVAL):
            raise RunError(f"the copy has a part of type {kind!r}, which this operator does not know")


def _file(info: Path, name: bytes) -> Path | None:
    """Return the file to write content of this name to; None for data."""
    text = name.decode(errors="replace")
    return info / text if text in _DESCRIPTIONS else None


def _payload(stream: BinaryIO, size: int, path: Path | None) -> Generator[bytes]:
    while size > 0:
        piece = _exactly(stream, min(size, _PIECE))
        if path and (path.stat().st_size if path.exists() else 0) < _LARGEST_INFO:
            with path.open("ab") as file:
                file.write(piece)
        size -= len(piece)
        yield piece


def _exactly(stream: BinaryIO, size: int) -> bytes:
    """Return that many bytes. Raise RunError if the stream ends before."""
    data = stream.read(size)
    if len(data) < size:
        raise RunError("the copy ends in the middle; remove the PhysicalBackup, and mariadb-operator makes another one")
    return data


if __name__ == "__main__":
    main(store_copy)
