"""Write a file of a snapshot for the next program of the pod."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from .repository import open_repository
from .run import RunError, main, settings

_READABLE = 0o644
"""The next program runs as another user."""


def fetch(config: Path) -> dict[str, Any]:
    """Write the file that run.json names; return its `bytes`. Raise RunError: there is no such file then."""
    run = settings(config)
    folder = Path(run["folder"])
    path, fresh = folder / run["file"], folder / f"{run['file']}.new"
    with open_repository(config) as repository:
        size = repository.size(run["snapshot"], run["file"])
        with repository.dump(run["snapshot"], run["file"]) as source, fresh.open("wb") as file:
            shutil.copyfileobj(source.stdout, file)
            repository.check(source)
    if (written := fresh.stat().st_size) != size:
        raise RunError(f"{run['file']} of snapshot {run['snapshot']} has {size} bytes, and {written} came")
    fresh.chmod(_READABLE)
    fresh.rename(path)
    return {"bytes": size}


if __name__ == "__main__":
    main(fetch)
