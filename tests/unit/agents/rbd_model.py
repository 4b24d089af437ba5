"""A model of `rbd` for tests: a folder is a Ceph, with a folder for each pool, and in it a file for each RBD image."""

from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

HEADER = b"rbd diff v1\n"
SCRIPT = """#!{python} -SE
import sys
sys.path.insert(0, {folder!r})
from rbd_model import run
run({root!r}, sys.argv[1:])
"""


class Ceph:
    """Pools of the model."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, pool: str, name: str, data: str, **snapshots: str) -> None:
        """Make an RBD image with these data, and the data of each of its snapshots."""
        numbered = [
            {"id": number, "name": snap, "protected": "false", "data": text}
            for number, (snap, text) in enumerate(snapshots.items(), 4)
        ]
        image = {"id": os.urandom(6).hex(), "data": data, "snapshots": numbered, "meta": {}, "next": 4 + len(numbered)}
        self.write(pool, name, image)

    def write(self, pool: str, name: str, image: dict[str, Any]) -> None:
        """Write an RBD image as the model has it."""
        (self.root / pool).mkdir(parents=True, exist_ok=True)
        (self.root / pool / name).write_text(json.dumps(image), encoding="utf-8")

    def read(self, pool: str, name: str) -> dict[str, Any]:
        """Return an RBD image. Raise FileNotFoundError."""
        image: dict[str, Any] = json.loads((self.root / pool / name).read_text(encoding="utf-8"))
        return image

    def snapshots(self, pool: str, name: str) -> dict[str, str]:
        """Return the data of each snapshot."""
        return {each["name"]: each["data"] for each in self.read(pool, name)["snapshots"]}

    def names(self, pool: str) -> list[str]:
        """Return the RBD images of a pool."""
        return sorted(path.name for path in (self.root / pool).iterdir())


def script(root: Path) -> str:
    """Return a program that answers as `rbd` does, with this folder as its Ceph."""
    return SCRIPT.format(python=sys.executable, folder=str(Path(__file__).parent), root=str(root))


def difference(data: bytes, to: str, before: str = "", former: bytes = b"") -> bytes:
    """Return a difference from the data of a snapshot before, which writes what changed."""

    def name(tag: bytes, text: str) -> bytes:
        return tag + struct.pack("<I", len(text)) + text.encode() if text else b""

    changed = [at for at in range(len(data)) if data[at : at + 1] != former[at : at + 1]]
    whole = [(0, data)] if not former else [(at, data[at : at + 1]) for at in changed]
    extents = b"".join(b"w" + struct.pack("<QQ", at, len(piece)) + piece for at, piece in whole)
    return HEADER + name(b"f", before) + name(b"t", to) + b"s" + struct.pack("<Q", len(data)) + extents + b"e"


def run(root: str, words: list[str]) -> None:
    """Do what the words of a command say; exit as `rbd` does."""
    ceph = Ceph(Path(root))
    plain = [word for word in words if not word.startswith("--")]
    options = dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--") and "=" in word)
    with (ceph.root / "calls").open("a", encoding="utf-8") as calls:
        calls.write(f"{' '.join(words)}\n")
    try:
        command = _Command(ceph, options)
        verb = "_".join(plain[:2]) if plain[0] in ("snap", "image-meta") else plain[0]
        getattr(command, verb.replace("-", "_"))(*plain[2 if "_" in verb else 1 :])
    except FileNotFoundError as error:
        sys.exit(_failed(2, f"error opening image: {error}"))
    except ValueError as error:
        sys.exit(_failed(22, str(error)))


def _failed(status: int, text: str) -> int:
    print(f"rbd: {text}", file=sys.stderr)
    return status


class _Command:
    """Commands by their names."""

    def __init__(self, ceph: Ceph, options: dict[str, str]) -> None:
        self.ceph, self.options = ceph, options

    def _image(self, path: str) -> tuple[str, str, str, dict[str, Any]]:
        pool, _, rest = path.partition("/")
        name, _, snapshot = rest.partition("@")
        return pool, name, snapshot, self.ceph.read(pool, name)

    def ls(self, pool: str) -> None:
        print(json.dumps(self.ceph.names(pool)))

    def info(self, path: str) -> None:
        image = self._image(path)[3]
        print(json.dumps({"id": image["id"], "size": len(image["data"]), "object_size": 4194304}))

    def snap_ls(self, path: str) -> None:
        print(json.dumps([{**each, "data": ""} for each in self._image(path)[3]["snapshots"]]))

    def snap_create(self, path: str) -> None:
        pool, name, snapshot, image = self._image(path)
        if snapshot in {each["name"] for each in image["snapshots"]}:
            raise ValueError("File exists")
        # An identity is never used again.
        number = image["next"]
        image["next"] += 1
        image["snapshots"].append({"id": number, "name": snapshot, "protected": "false", "data": image["data"]})
        self.ceph.write(pool, name, image)

    def snap_rm(self, path: str) -> None:
        pool, name, snapshot, image = self._image(path)
        remaining = [each for each in image["snapshots"] if each["name"] != snapshot]
        if len(remaining) == len(image["snapshots"]):
            raise FileNotFoundError(path)
        self.ceph.write(pool, name, {**image, "snapshots": remaining})

    def snap_purge(self, path: str) -> None:
        pool, name, _, image = self._image(path)
        if any(each["protected"] == "true" for each in image["snapshots"]):
            raise ValueError("some snapshots are protected")
        self.ceph.write(pool, name, {**image, "snapshots": []})

    def snap_protect(self, path: str, *, value: str = "true") -> None:
        pool, name, snapshot, image = self._image(path)
        for each in image["snapshots"]:
            each["protected"] = value if each["name"] == snapshot else each["protected"]
        self.ceph.write(pool, name, image)

    def snap_unprotect(self, path: str) -> None:
        self.snap_protect(path, value="false")

    def rm(self, path: str) -> None:
        pool, name, _, image = self._image(path)
        if image["snapshots"]:
            raise ValueError("image has snapshots")
        (self.ceph.root / pool / name).unlink()

    def create(self, path: str) -> None:
        pool, _, name = path.partition("/")
        if name in self.ceph.names(pool):
            raise ValueError("File exists")
        self.ceph.put(pool, name, "")

    def rename(self, path: str, to: str) -> None:
        pool, name, _, image = self._image(path)
        if (self.ceph.root / to).exists():
            raise ValueError("File exists")
        self.ceph.write(pool, to.partition("/")[2], image)
        (self.ceph.root / pool / name).unlink()

    def image_meta_set(self, path: str, key: str, value: str) -> None:
        pool, name, _, image = self._image(path)
        self.ceph.write(pool, name, {**image, "meta": {**image["meta"], key: value}})

    def image_meta_get(self, path: str, key: str) -> None:
        value = self._image(path)[3]["meta"].get(key)
        if value is None:
            raise FileNotFoundError(key)
        print(value)

    def export_diff(self, path: str, _stdout: str) -> None:
        pool, name, snapshot, _ = self._image(path)
        data = self.ceph.snapshots(pool, name)
        if not {snapshot, self.options.get("from-snap", snapshot)} <= data.keys():
            raise FileNotFoundError(path)
        before = self.options.get("from-snap", "")
        whole = difference(data[snapshot].encode(), snapshot, before, data.get(before, "").encode())
        fault = self.ceph.root / "fault"
        text = fault.read_text(encoding="utf-8") if fault.exists() else ""
        sys.stdout.buffer.write(whole[:-3] if text else whole)
        if text == "gone":
            (self.ceph.root / pool / name).unlink()
        if text:
            raise ValueError("error reading an object")

    def import_diff(self, _stdin: str, path: str) -> None:
        pool, name, _, image = self._image(path)
        source = sys.stdin.buffer
        if source.read(len(HEADER)) != HEADER:
            raise ValueError("no difference")
        to, data = "", bytearray(image["data"].encode())
        while (tag := source.read(1)) != b"e":
            if tag in (b"f", b"t"):
                text = source.read(struct.unpack("<I", source.read(4))[0]).decode()
                if tag == b"f" and text not in {each["name"] for each in image["snapshots"]}:
                    raise ValueError(f"from snapshot {text} does not exist")
                to = text if tag == b"t" else to
            elif tag == b"s":
                size = struct.unpack("<Q", source.read(8))[0]
                data = data[:size].ljust(size, b"\0")
            elif tag == b"w":
                begin, length = struct.unpack("<QQ", source.read(16))
                data[begin : begin + length] = source.read(length)
            else:
                raise ValueError("an early end")
        self.ceph.write(pool, name, {**image, "data": data.decode()})
        self.snap_create(f"{path}@{to}")
