"""Stand-ins of Designate's objects."""

from types import SimpleNamespace
from typing import Any


class TsigKey(SimpleNamespace):
    @property
    def id(self) -> str:
        return f"id of {self.name}"


class Pool(dict[str, Any]):
    @property
    def id(self) -> str:
        return self["id"]

    @property
    def name(self) -> str:
        return self["name"]


class Zone(SimpleNamespace):
    pass


class ZoneMasterList:
    def from_list(self, masters: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return masters
