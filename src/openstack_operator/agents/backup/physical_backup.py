"""Store the copy of a database that mariadb-operator wrote to a volume: a stream of mariadb-backup."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, BinaryIO

from .database import database_result, position
from .repository import open_repository
from .run import RunError, main, settings

_TARGET = "0-backup-target.txt"
"""File in which mariadb-operator says where the copy is in its pod (pkg/builder, batchBackupTargetFilePath)."""
_COPY = re.compile(r"physicalbackup-\d{14}\.xb")
"""Name of a copy that is not compressed (internal/controller, getBackupFileName)."""
_MAGIC = b"XBSTCK01"
_PAYLOAD, _END = b"P", b"E"
"""Types of a part of such a stream (extra/mariabackup/xbstream.h). Others have no data: they rename a file, remove
it, or say where its next part goes."""
_LONGEST_OTHER = 1 << 16
_DESCRIPTIONS = ("mariadb_backup_info", "xtrabackup_info")
_LONGEST_NAME, _LARGEST_INFO = 4096, 1 << 20
_PIECE = 1 << 20
_ADVICE = "create another OpenStackBackup"


def store_copy(config: Path) -> dict[str, Any]:
    """Store the copy. Return as the program does that reads a database itself. Raise RunError: there is no snapshot
    then.
    """
    run, began = settings(config), time.monotonic()
    name = run["database"]
    with open_repository(config) as repository, open_copy(Path(run["folder"])) as stream:
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
        return database_result(summary, info, began)


def open_copy(folder: Path) -> BinaryIO:
    """Return the copy that mariadb-operator made last in a folder. Raise RunError if there is none. Others may write to
    the volume: nothing outside it is read, and no words of it are repeated.
    """
    try:
        with _open(folder / _TARGET) as file:
            # A path in its pod.
            name = Path(file.read(_LONGEST_NAME).decode(errors="replace").strip()).name
        if _COPY.fullmatch(name):
            return _open(folder / name)
    except OSError as error:
        raise RunError(f"the copy of mariadb-operator cannot be read ({error.strerror}); {_ADVICE}") from None
    raise RunError(f"mariadb-operator left no copy without compression; {_ADVICE}")


def _open(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")


def pieces(stream: BinaryIO, info: Path) -> Generator[bytes]:
    """Yield the bytes of a stream that can be sought in, and write what mariadb-backup says of it into a folder. Raise
    RunError for a stream that is not whole.
    """
    while magic := stream.read(len(_MAGIC)):
        if magic != _MAGIC:
            raise RunError(f"the copy is no stream of mariadb-backup; {_ADVICE}")
        head = _exactly(stream, 6)
        kind, name_length = head[1:2], int.from_bytes(head[2:], "little")
        name = _exactly(stream, min(name_length, _LONGEST_NAME))
        yield magic + head + name
        if kind == _PAYLOAD:
            sizes = _exactly(stream, 20)
            yield sizes
            yield from _payload(stream, int.from_bytes(sizes[:8], "little"), _file(info, name))
        elif kind != _END:
            yield _until_next(stream)
    _, server = position(info)
    if not server:
        # Before restic makes a snapshot.
        raise RunError(f"the copy ends before its description; {_ADVICE}")


def _until_next(stream: BinaryIO) -> bytes:
    """Return the bytes before the next part. Raise RunError if there are many."""
    begin, window = stream.tell(), stream.read(_LONGEST_OTHER)
    size = window.find(_MAGIC)
    if size < 0 and len(window) == _LONGEST_OTHER:
        raise RunError(f"the copy has a part that no program of this operator knows; {_ADVICE}")
    size = size if size >= 0 else len(window)
    stream.seek(begin + size)
    return window[:size]


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
        raise RunError(f"the copy ends in the middle; {_ADVICE}")
    return data


if __name__ == "__main__":
    main(store_copy)
