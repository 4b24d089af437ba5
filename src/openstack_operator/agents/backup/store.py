"""Store a file that the program before it in the pod has written, as a snapshot of the repository."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from .repository import open_repository
from .run import RunError, main, settings


def store(config: Path) -> dict[str, Any]:
    """Store the file that run.json names. Return `snapshot`, `bytes`, `stored` bytes that the repository did not have,
    `seconds`, and what facts.json says of the file. Raise RunError: there is no snapshot then.
    """
    run, began = settings(config), time.monotonic()
    folder = Path(run["folder"])
    try:
        facts: dict[str, Any] = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        size = (folder / run["file"]).stat().st_size
    except (OSError, ValueError) as error:
        raise RunError(f"the program before this one left no file to store: {error}") from None
    with open_repository(config) as repository:
        repository.create()
        repository.unlock()
        tags = [f"kind={run['kind']}", f"backup={run['backup']}", f"database={run['name']}"]
        summary = repository.store(tags, run["cloud"], run["file"], cwd=folder)
    return {
        **facts,
        "snapshot": summary["snapshot_id"],
        "bytes": size,
        "stored": summary.get("data_added_packed", summary["data_added"]),
        "seconds": round(time.monotonic() - began, 1),
    }


if __name__ == "__main__":
    main(store)
