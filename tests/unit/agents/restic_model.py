"""A model of `restic` for tests: a folder is a repository, with a file of JSON for each snapshot."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SCRIPT = """#!{python} -SE
import sys
sys.path.insert(0, {folder!r})
from restic_model import run
run({root!r}, sys.argv[1:])
"""


class Repository:
    """Snapshots of the model, each with one file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.root.mkdir(exist_ok=True)

    def entries(self) -> list[dict[str, Any]]:
        """Return the snapshots in order, as restic lists them."""
        paths = sorted(self.root.glob("*.snapshot"))
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths]

    def add(self, tags: list[str], host: str, name: str, data: bytes) -> dict[str, Any]:
        """Add a snapshot; return it."""
        number = len(list(self.root.iterdir())) // 2
        identifier = f"{number:064x}"
        summary = {"total_bytes_processed": len(data), "data_added": len(data)}
        entry = {"id": identifier, "time": f"{number:09}", "hostname": host, "tags": tags, "summary": summary}
        (self.root / f"{identifier}.{name}").write_bytes(data)
        (self.root / f"{identifier}.snapshot").write_text(json.dumps(entry), encoding="utf-8")
        return entry

    def forget(self, identifier: str) -> None:
        """Remove a snapshot, and leave its data, so that the next one has a number of its own."""
        (self.root / f"{identifier}.snapshot").rename(self.root / f"{identifier}.forgotten")

    def file(self, identifier: str, name: str) -> bytes:
        """Return the file of a snapshot. Raise FileNotFoundError."""
        if not (self.root / f"{identifier}.snapshot").exists():
            raise FileNotFoundError(identifier)
        return (self.root / f"{identifier}.{name}").read_bytes()


def script(root: Path) -> str:
    """Return a program that answers as `restic` does, with this folder as its repository."""
    return SCRIPT.format(python=sys.executable, folder=str(Path(__file__).parent), root=str(root))


def run(root: str, words: list[str]) -> None:
    """Do what the words of a command say; exit as `restic` does."""
    repository = Repository(Path(root))
    plain = [word for word in words if not word.startswith("-")]
    options = [word.removeprefix("--").partition("=") for word in words if word.startswith("--")]
    tags = [value for name, _, value in options if name == "tag"]
    host = next((value for name, _, value in options if name == "host"), "")
    match plain:
        case ["snapshots"]:
            wanted = {tag for each in tags for tag in each.split(",")}
            entries = [each for each in repository.entries() if wanted <= {*each["tags"]}]
            print(json.dumps([each for each in entries if host in ("", each["hostname"])]))
        case ["backup", *paths]:
            name = next((value for key, _, value in options if key == "stdin-filename"), "") or paths[0]
            data = Path(paths[0]).read_bytes() if paths else sys.stdin.buffer.read()
            entry = repository.add(tags, host, name, data)
            print(json.dumps({"message_type": "summary", "snapshot_id": entry["id"], **entry["summary"]}))
        case ["dump", identifier, name]:
            try:
                sys.stdout.buffer.write(repository.file(identifier, name))
            except FileNotFoundError:
                print("Fatal: failed to find snapshot", file=sys.stderr)
                sys.exit(1)
        case _:
            pass
