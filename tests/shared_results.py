"""Results that take seconds, and that several processes of one run of pytest need: the first one makes each."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


class SharedResults:
    """Results of one run, by name. Without pytest-xdist they stay in this process."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._results: dict[str, Any] = {}

    def __call__(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what `make` returned for this name in whichever process came first, as JSON carries it."""
        if name not in self._results:
            self._results[name] = self._shared(name, make)
        return self._results[name]

    def _shared(self, name: str, make: Callable[[], Any]) -> Any:
        if self._folder is None:
            return make()
        file = self._folder / f"{name}.json"
        with file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not file.exists():
                partial = file.with_suffix(".partial")
                partial.write_text(json.dumps(make()), "utf-8")
                partial.rename(file)
        return json.loads(file.read_text("utf-8"))
