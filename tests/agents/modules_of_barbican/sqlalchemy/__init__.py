"""A stand-in of SQLAlchemy: one table in a file; $FAILS names a row whose change is lost, as by a rollback."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from . import orm as orm


def create_engine(url: str) -> str:
    return url


class Session:
    def __init__(self, url: str) -> None:
        self._path = Path(url)
        self._rows = [SimpleNamespace(**row) for row in json.loads(self._path.read_text())]

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        fails = os.environ.get("FAILS")
        stored = {row["id"]: row for row in json.loads(self._path.read_text())}
        rows = [stored[row.id] if row.id == fails else vars(row) for row in self._rows]
        self._path.write_text(json.dumps(rows))

    def query(self, _: Any) -> Session:
        return self

    def filter_by(self, *, plugin_name: str) -> list[SimpleNamespace]:
        return [row for row in self._rows if row.plugin_name == plugin_name]

    def get(self, _: Any, id_: str, *, with_for_update: bool) -> SimpleNamespace | None:
        assert with_for_update
        return next((row for row in self._rows if row.id == id_), None)
