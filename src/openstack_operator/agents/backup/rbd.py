"""Serve the RBD images of a pool to the program of the repository in the same pod; in an image with Ceph's programs."""

from __future__ import annotations

import json
import re
import socketserver
import subprocess
import threading
import time
from collections import deque
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from .rbd_door import SOCKET, Connection
from .rbd_stream import ImageHeader
from .run import Child, RunError, main, say, settings

_UUID_END = "-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_UUID = f"[0-9a-f]{{8}}{_UUID_END}"
_NAMES: Mapping[str, re.Pattern[str]] = {
    # A user may choose the identifier of an image, with capitals, too.
    "images": re.compile(_UUID, re.IGNORECASE),
    "volumes": re.compile(f"volume-{_UUID}"),
    "vms": re.compile(f"{_UUID}_disk[.a-z0-9]*"),
}
"""Names that Glance, Cinder and Nova give to their RBD images. Others in a pool belong to other clouds and programs."""
_GLANCE_SNAPSHOT = "snap"
"""Snapshot that Glance makes of an image once it has all of its data, which never change then."""
_OWN_ID = "0b5bac00"
"""Begin of the UUID in snapshots of ours, in the place of that of one of Cinder's backups."""
_OWN_SNAPSHOT = re.compile(rf"backup\.(?P<id>{_OWN_ID}{_UUID_END})\.snap\.(?P<time>\d+)(\.\d+)?")
_CINDER_SNAPSHOT = re.compile(r"backup\.[-a-z0-9]+\.snap\..+")
"""Snapshots by which Cinder's backups go on. It deletes all snapshots of such names together with their volume."""
_DAY = 86400
_LIVES: Mapping[str, int] = {"volumes": 10 * _DAY}
"""Seconds after which a snapshot of ours belongs to no schedule that has another repository. In other pools none stays
for a later backup: after two days it belongs to none that runs, as these end within one.
"""
_RESTORE = "openstack-restore"
"""Metadata of an RBD image: the identity of the restore that made it."""
_NO_ENTRY = 2
"""Status of `rbd` for something that does not exist."""
_AWAIT_SECONDS, _AWAIT_PAUSE = 3600.0, 3.0
_FIRST_SECONDS = 3600.0
"""Time in which the other program of the pod begins: its image may have to be pulled."""
_MIB = 1 << 20
_PIECE_BYTES = 1 << 18


class GoneError(RunError):
    """An RBD image, or a snapshot of it, that does not exist."""


class Pool:
    """A pool, as a client of Ceph that may write RBD images in it."""

    def __init__(self, config: Path, run: Mapping[str, Any]) -> None:
        """`run` has the name of the `pool`, its `use`, the `user`, and the UUID of the backup or restore, `id`."""
        self.name, self._pattern = str(run["pool"]), _NAMES[run["use"]]
        self._is_fixed, self._life = run["use"] == "images", _LIVES.get(run["use"], 2 * _DAY)
        files = config / "ceph"
        self._login = [f"--conf={files / 'ceph.conf'}", f"--keyring={files / 'keyring'}", f"--name={run['user']}"]
        self._id = str(run["id"])
        self._own = f"{_OWN_ID}{self._id[len(_OWN_ID) :]}"

    def ask(self, *words: str) -> str:
        """Return the output of `rbd`. Raise RunError, and GoneError for something that does not exist."""
        with Child("rbd", *words, *self._login) as child:
            output = child.output()
            check(child)
            return output.decode(errors="replace")

    def _path(self, name: str, snapshot: str = "") -> str:
        """Return an RBD image of this cloud, or a snapshot of it, as `rbd` names it. Raise RunError for another one."""
        if not self._pattern.fullmatch(name):
            raise RunError(f"{name!r} is no name of an image of the pool {self.name} that a backup holds")
        return f"{self.name}/{name}@{snapshot}" if snapshot else f"{self.name}/{name}"

    def _new_path(self, name: str, snapshot: str = "") -> str:
        """Return the same for an image that has not all of its data yet."""
        return self._path(name, snapshot).replace("/", f"/restoring.{self._id}.", 1)

    def wait(self) -> None:
        """Return once the pool can be used. Raise RunError after an hour."""
        deadline = time.monotonic() + _AWAIT_SECONDS
        while True:
            try:
                self.ask("ls", self.name)
            except RunError as error:
                if time.monotonic() > deadline:
                    raise
                say(f"waiting for the pool {self.name}: {error}")
                time.sleep(_AWAIT_PAUSE)
            else:
                return

    def names(self) -> list[str]:
        """Return the names of the RBD images of this cloud."""
        names: list[str] = json.loads(self.ask("ls", self.name, "--format=json"))
        return sorted(name for name in names if self._pattern.fullmatch(name))

    def freeze(self, name: str) -> tuple[ImageHeader, dict[str, int]] | None:
        """Take the snapshot with which a stream ends; return what `describe` returns for it. Raise RunError."""
        if self._is_fixed:
            return self.describe(name)
        tail = f"backup.{self._own}.snap.{time.time():.6f}"
        try:
            self.ask("snap", "create", self._path(name, tail), "--no-progress")
        except GoneError:
            return None
        return self.describe(name, tail)

    def describe(self, name: str, tail: str = "") -> tuple[ImageHeader, dict[str, int]] | None:
        """Return what a backup has of an RBD image until this snapshot, and snapshots from which a stream can go on,
        each with the number of others before it; None for an image that is gone, or that Glance has not stored yet.
        Raise RunError.
        """
        try:
            info = json.loads(self.ask("info", self._path(name), "--format=json"))
            listed = self._snapshots(name)
        except GoneError:
            return None
        names = [each for each, _ in listed]
        if tail:
            if tail not in names:
                raise RunError(f"{name} has lost its snapshot {tail}")
            # One that a user makes later is in no difference of this stream.
            listed = listed[: names.index(tail)]
        ends = {each: _count(listed[:at]) for at, (each, _) in enumerate(listed) if _OWN_SNAPSHOT.fullmatch(each)}
        snapshots = [each for each in listed if not _CINDER_SNAPSHOT.fullmatch(each[0])]
        if self._is_fixed:
            names = [each for each, _ in snapshots]
            if _GLANCE_SNAPSHOT not in names:
                return None
            snapshots = snapshots[: names.index(_GLANCE_SNAPSHOT) + 1]
        header = ImageHeader(
            name=name,
            size=int(info["size"]),
            object_size=int(info["object_size"]),
            snapshots=tuple(snapshots),
            tail=tail,
            id=str(info.get("id", "")),
        )
        return header, ends

    def _snapshots(self, name: str) -> list[tuple[str, bool]]:
        """Return the snapshots of an RBD image, the oldest first, and which are protected. Raise RunError."""
        entries: Sequence[Mapping[str, Any]] = json.loads(self.ask("snap", "ls", self._path(name), "--format=json"))
        ordered = sorted(entries, key=lambda each: int(each["id"]))
        return [(str(each["name"]), str(each.get("protected")).lower() == "true") for each in ordered]

    def clean(self, ends: Collection[str]) -> None:
        """Remove snapshots that an earlier run of this backup, or an old backup, left behind, but for those with which
        streams of the repository end. Raise RunError.
        """
        for name in () if self._is_fixed else self.names():
            with suppress(GoneError):
                for snapshot, _ in self._snapshots(name):
                    ours = _OWN_SNAPSHOT.fullmatch(snapshot)
                    is_old = ours and (ours["id"] == self._own or int(ours["time"]) < time.time() - self._life)
                    if is_old and snapshot not in ends:
                        self._remove(name, snapshot)

    def release(self, name: str, snapshots: Collection[str]) -> None:
        """Remove snapshots of ours from which no stream will go on. Raise RunError."""
        for snapshot in snapshots:
            if not _OWN_SNAPSHOT.fullmatch(snapshot):
                raise RunError(f"{snapshot!r} is no snapshot of a backup")
            self._remove(name, snapshot)

    def _remove(self, name: str, snapshot: str) -> None:
        # Cinder may have deleted it together with the volume.
        with suppress(GoneError):
            self.ask("snap", "rm", self._path(name, snapshot), "--no-progress")

    def export(self, header: ImageHeader, *, keeps: bool) -> Generator[bytes]:
        """Yield the stream of an RBD image; with `keeps`, the snapshot of its end stays. Raise RunError, also if the
        image was deleted meanwhile.
        """
        is_whole = False
        try:
            identities = self._identities(header)
            yield header.dump()
            before = [f"--from-snap={header.begin}"] if header.begin else []
            for snapshot in header.differences:
                path = self._path(header.name, snapshot)
                words = ["export-diff", "--no-progress", *before, path, "-"]
                with Child("rbd", *words, *self._login) as child:
                    while piece := child.stdout.read(_PIECE_BYTES):
                        yield piece
                    check(child)
                before = [f"--from-snap={snapshot}"]
            # Without one of them, Ceph names no data that were discarded since, and `rbd` does not fail.
            if self._identities(header) != identities:
                raise RunError(f"snapshots of {header.name} were removed while it was read")
            is_whole = True
        finally:
            if header.tail and not (keeps and is_whole):
                self._remove(header.name, header.tail)

    def _identities(self, header: ImageHeader) -> list[int]:
        """Return the identities of the snapshots that a stream reads. Raise RunError if one is missing."""
        entries = json.loads(self.ask("snap", "ls", self._path(header.name), "--format=json"))
        identities = {str(entry["name"]): int(entry["id"]) for entry in entries}
        try:
            return [identities[name] for name in (header.begin, *header.differences) if name]
        except KeyError as error:
            raise RunError(f"{header.name} has no snapshot {error} any more") from None

    def begin(self, header: ImageHeader) -> dict[str, Any]:
        """Make an RBD image for data that follow. Return `exists`, and if so `restored`, which is True if this restore
        made it: an image that exists is not touched. Raise RunError.
        """
        if header.name in self.names():
            return {"exists": True, "restored": self._restore_of(header.name) == self._id}
        path = self._new_path(header.name)
        with suppress(GoneError):
            for snapshot in json.loads(self.ask("snap", "ls", path, "--format=json")):
                if str(snapshot.get("protected")).lower() == "true":
                    self.ask("snap", "unprotect", f"{path}@{snapshot['name']}")
            self.ask("snap", "purge", path, "--no-progress")
            self.ask("rm", path, "--no-progress")
        # The first difference sets the size to the byte.
        size = -(-header.size // _MIB)
        self.ask("create", path, f"--size={size}M", f"--object-size={header.object_size}B")
        return {"exists": False}

    def _restore_of(self, name: str) -> str:
        with suppress(GoneError):
            return self.ask("image-meta", "get", self._path(name), _RESTORE).strip()
        return ""

    def replace(self, name: str, snapshot: str) -> None:
        """Remove a snapshot of an RBD image that was begun: a later one has its name. Raise RunError."""
        with suppress(GoneError):
            self.ask("snap", "rm", self._new_path(name, snapshot), "--no-progress")

    def write(self, name: str, pieces: Iterator[bytes]) -> None:
        """Write one difference to an RBD image that was begun. Raise RunError."""
        words = ["import-diff", "--no-progress", "-", self._new_path(name)]
        with Child("rbd", *words, *self._login, stdin=subprocess.PIPE) as child:
            child.feed(pieces)
            # After a failure, the other program hears why once all was read.
            deque(pieces, maxlen=0)
            check(child)

    def finish(self, header: ImageHeader) -> None:
        """Give an RBD image that has its data its name and its snapshots, without those of backups and those that were
        deleted before its last stream. Raise RunError.
        """
        path, names = self._new_path(header.name), {name for name, _ in header.snapshots}
        existing = {str(each["name"]) for each in json.loads(self.ask("snap", "ls", path, "--format=json"))}
        if missing := sorted(names - existing):
            raise RunError(f"the backup of {header.name} lacks its snapshot {missing[0]}; use another backup")
        for snapshot in sorted(existing - names):
            self.ask("snap", "rm", f"{path}@{snapshot}", "--no-progress")
        for snapshot, is_protected in header.snapshots:
            if is_protected:
                self.ask("snap", "protect", self._new_path(header.name, snapshot))
        self.ask("image-meta", "set", self._new_path(header.name), _RESTORE, self._id)
        self.ask("rename", self._new_path(header.name), self._path(header.name))


def _count(snapshots: Sequence[tuple[str, bool]]) -> int:
    """Return how many of these are in a backup."""
    return sum(not _CINDER_SNAPSHOT.fullmatch(name) for name, _ in snapshots)


def check(child: Child) -> None:
    """Wait until `rbd` has ended. Raise RunError if it failed."""
    if status := child.wait():
        error = GoneError if status == _NO_ENTRY else RunError
        raise error(f"rbd failed: {child.reason()}")


class _Handler(socketserver.BaseRequestHandler):
    """Answers one request."""

    def handle(self) -> None:
        """Answer, if the other program still listens."""
        assert isinstance(self.server, _Server)
        self.server.answer(Connection(self.request))


class _Server(socketserver.ThreadingUnixStreamServer):
    """Answers requests; `has_begun` and `has_ended` are about the other program of the pod."""

    daemon_threads = True

    def __init__(self, path: Path, pool: Pool) -> None:
        self.pool, self.has_begun, self.has_ended = pool, threading.Event(), threading.Event()
        super().__init__(str(path), _Handler)

    def answer(self, connection: Connection) -> None:
        """Answer one request, if the other program still listens."""
        with suppress(BrokenPipeError, ConnectionResetError):
            try:
                request = connection.hear()
                match request["do"]:
                    case "stay":
                        self.has_begun.set()
                        connection.reader.read()
                        self.has_ended.set()
                    case "export":
                        self._export(connection, ImageHeader.of(request["header"]), keeps=bool(request["keeps"]))
                    case _:
                        connection.say(self._result(connection, request))
            except (RunError, ValueError, LookupError, TypeError) as error:
                say(f"refused: {error}")
                connection.say({"error": str(error) or type(error).__name__})

    def _result(self, connection: Connection, request: Mapping[str, Any]) -> Mapping[str, Any]:
        match request["do"]:
            case "wait":
                self.pool.wait()
            case "clean":
                self.pool.clean(request["ends"])
            case "list":
                return {"names": self.pool.names()}
            case "describe" | "freeze":
                look = self.pool.describe if request["do"] == "describe" else self.pool.freeze
                header, ends = look(request["name"]) or (None, {})
                return {"header": vars(header) if header else None, "ends": ends}
            case "release":
                self.pool.release(request["name"], request["snapshots"])
            case "begin":
                return self.pool.begin(ImageHeader.of(request["header"]))
            case "replace":
                self.pool.replace(request["name"], request["snapshot"])
            case "write":
                self.pool.write(request["name"], connection.receive())
            case "finish":
                self.pool.finish(ImageHeader.of(request["header"]))
            case unknown:
                raise RunError(f"there is no request {unknown!r}")
        return {}

    def _export(self, connection: Connection, header: ImageHeader, *, keeps: bool) -> None:
        try:
            # Also if the other program ends: the snapshot of half an export must not stay.
            with closing(self.pool.export(header, keeps=keeps)) as pieces:
                connection.send(pieces)
        except RunError as error:
            say(f"the export failed: {error}")
            connection.fail(error)


def serve(config: Path) -> dict[str, Any]:
    """Answer the other program of the pod until its connection for the request `stay` ends. Return nothing. Raise
    RunError if it does not begin within an hour.
    """
    run = settings(config)
    path = Path(run["folder"]) / SOCKET
    path.unlink(missing_ok=True)
    with _Server(path, Pool(config, run)) as server:
        threading.Thread(target=server.serve_forever, args=[0.1], daemon=True).start()
        if not server.has_begun.wait(_FIRST_SECONDS):
            raise RunError("the other program of this pod did not begin within an hour; see its state")
        server.has_ended.wait()
        server.shutdown()
    return {}


if __name__ == "__main__":
    main(serve)
