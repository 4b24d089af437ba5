"""A stand-in of requests to central."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..context import DesignateContext
from ..exceptions import ZoneNotFound
from ..objects import TsigKey, Zone

FILE = Path(os.environ["CENTRAL"])


class CentralAPI:
    def __init__(self) -> None:
        known = json.loads(FILE.read_text())
        self._keys = [TsigKey(**each) for each in known["keys"]]
        self._zones = [Zone(**each) for each in known["zones"]]
        self._pool: dict[str, Any] = known["pool"]

    def find_tsigkeys(self, context: DesignateContext, criterion: dict[str, str]) -> list[TsigKey]:
        assert context.request_id == "pools"
        return [each for each in self._keys if criterion.items() <= vars(each).items()]

    def create_tsigkey(self, context: DesignateContext, key: TsigKey) -> None:
        self._keys.append(key)
        self.update_tsigkey(context, key)

    def update_tsigkey(self, _: DesignateContext, key: TsigKey) -> None:
        assert key in self._keys
        self._keep()

    def get_pool(self, _: DesignateContext, pool: str) -> dict[str, Any]:
        assert self._pool["id"] == pool
        return self._pool

    def update_pool(self, _: DesignateContext, pool: dict[str, Any]) -> None:
        if pool["name"] == "refused":
            raise ValueError("not a pool")
        self._pool = pool
        self._keep()

    def find_zones(self, context: DesignateContext, criterion: dict[str, str]) -> list[Zone]:
        assert context.all_tenants
        return [each for each in self._zones if criterion.items() <= vars(each).items()]

    def get_zone(self, _: DesignateContext, id_: str) -> Zone:
        [zone] = [each for each in self._zones if each.id == id_]
        if zone.name == "gone.":
            raise ZoneNotFound
        return zone

    def update_zone(self, _: DesignateContext, zone: Zone) -> None:
        zone.action = "UPDATE"
        self._keep()

    def _keep(self) -> None:
        known = {"keys": [vars(each) for each in self._keys], "zones": [vars(each) for each in self._zones]}
        FILE.write_text(json.dumps({**known, "pool": self._pool}))
