"""A stand-in of SQLAlchemy's sessions."""

from __future__ import annotations

from typing import Any


class Maker:
    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self) -> Any:
        from . import Session  # noqa: PLC0415

        return Session(self._url)

    def begin(self) -> Any:
        return self()


def sessionmaker(*, bind: str) -> Maker:
    return Maker(bind)
