"""Stand-ins of Designate's objects."""

from types import SimpleNamespace
from typing import Any


class TsigKey(SimpleNamespace):
    pass


class Zone(SimpleNamespace):
    pass


class ZoneMasterList:
    def from_list(self, masters: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return masters
