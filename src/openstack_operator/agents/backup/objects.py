"""Objects of an archive in a folder or a bucket: written once, whole or not at all, and listed by name."""

from __future__ import annotations

import bisect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from .bucket import Bucket, DeletionRefusedError
from .run import RunError

_FOLDER_MODE = 0o700


class Objects(Protocol):
    """Objects below a folder."""

    def put_new(self, name: str, body: bytes) -> bool:
        """Write an object; return False if there is one. Raise RunError: it is perhaps there then, never in part."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return an object; None if there is none. Raise RunError."""
        ...

    def remove(self, name: str) -> None:
        """Remove an object, if it is there. Raise RunError: DeletionRefusedError if the account may not."""
        ...

    def names(self, folder: str, after: str = "", limit: int = 1000) -> Sequence[str]:
        """Return at most `limit` names of a folder that come after a name, in their order. Raise RunError."""
        ...

    def folders(self, folder: str) -> Sequence[str]:
        """Return the names of the folders in a folder, in their order. Raise RunError."""
        ...


class FolderObjects:
    """Objects in a folder of a volume."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lists: dict[str, tuple[int, list[str]]] = {}
        """Names in each folder, and the time of its last change then: a chain has a million after some weeks."""

    def put_new(self, name: str, body: bytes) -> bool:
        """Write an object, and wait until it is on the disk."""
        path = self._root / name
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=_FOLDER_MODE)
            with part.open("wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(part, path)
            except FileExistsError:
                return False
            finally:
                part.unlink()
            self._sync(path.parent)
            self._lists.clear()
        except OSError as error:
            part.unlink(missing_ok=True)
            raise RunError(f"the archive in {self._root} cannot be written: {error.strerror}") from None
        return True

    def _sync(self, folder: Path) -> None:
        """Write the names of new files and folders to the disk."""
        for path in (folder, *folder.parents):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if path == self._root:
                return

    def read(self, name: str) -> bytes | None:
        """Return an object; None if there is none."""
        path = self._root / name
        try:
            # Not a pipe, which would never end.
            return path.read_bytes() if path.is_file() else None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RunError(f"the archive in {self._root} cannot be read: {error.strerror}") from None

    def remove(self, name: str) -> None:
        """Remove an object."""
        try:
            (self._root / name).unlink(missing_ok=True)
            # The time of a folder alone may be that of an earlier change.
            self._lists.clear()
        except PermissionError as error:
            raise DeletionRefusedError(f"the archive in {self._root} cannot be deleted: {error.strerror}") from None
        except OSError as error:
            raise RunError(f"the archive in {self._root} cannot be deleted: {error.strerror}") from None

    def names(self, folder: str, after: str = "", limit: int = 1000) -> Sequence[str]:
        """Return names of a folder."""
        try:
            changed_at = (self._root / folder).stat().st_mtime_ns
        except OSError:
            changed_at = 0
        known_at, names = self._lists.get(folder, (-1, []))
        if known_at != changed_at:
            names = sorted(name for name in self._entries(folder) if not name.startswith("."))
            self._lists[folder] = (changed_at, names)
        begin = bisect.bisect_right(names, after)
        return names[begin : begin + limit]

    def folders(self, folder: str) -> Sequence[str]:
        """Return the names of the folders in a folder."""
        return sorted(name for name in self._entries(folder) if (self._root / folder / name).is_dir())

    def _entries(self, folder: str) -> Sequence[str]:
        try:
            return [entry.name for entry in os.scandir(self._root / folder)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RunError(f"the archive in {self._root} cannot be read: {error.strerror}") from None


class BucketObjects:
    """Objects below a prefix of a bucket."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def put_new(self, name: str, body: bytes) -> bool:
        """Write an object."""
        return self._bucket.put_new(name, body)

    def read(self, name: str) -> bytes | None:
        """Return an object; None if there is none."""
        return self._bucket.read(name)

    def remove(self, name: str) -> None:
        """Remove an object."""
        self._bucket.remove(name)

    def names(self, folder: str, after: str = "", limit: int = 1000) -> Sequence[str]:
        """Return names of a folder."""
        return self._bucket.names(f"{folder}/", f"{folder}/{after}" if after else "", limit)

    def folders(self, folder: str) -> Sequence[str]:
        """Return the names of the folders in a folder."""
        return self._bucket.folders(f"{folder}/")
