"""A stand-in of requests to central."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..context import DesignateContext
from ..exceptions import PoolNotFound, ZoneNotFound
from ..objects import Pool, TsigKey, Zone

FILE = Path(os.environ["CENTRAL"])


class CentralAPI:
    def __init__(self) -> None:
        known = json.loads(FILE.read_text())
        self._keys = [TsigKey(**each) for each in known["keys"]]
        self._zones = [Zone(**each) for each in known["zones"]]
        self._pools = [Pool(each) for each in known["pools"]]

    def find_tsigkeys(self, context: DesignateContext, criterion: dict[str, str]) -> list[TsigKey]:
        assert context.request_id == "pools"
        return [each for each in self._keys if criterion.items() <= vars(each).items()]

    def create_tsigkey(self, context: DesignateContext, key: TsigKey) -> None:
        self._keys.append(key)
        self.update_tsigkey(context, key)

    def update_tsigkey(self, _: DesignateContext, key: TsigKey) -> None:
        assert key in self._keys
        self._keep()

    def delete_tsigkey(self, _: DesignateContext, id_: str) -> None:
        self._keys = [each for each in self._keys if each.id != id_]
        self._keep()

    def find_pools(self, _: DesignateContext) -> list[Pool]:
        return self._pools

    def get_pool(self, _: DesignateContext, pool: str) -> Pool:
        for each in self._pools:
            if each.id == pool:
                return each
        raise PoolNotFound

    def update_pool(self, _: DesignateContext, pool: dict[str, Any]) -> None:
        if pool["name"] == "refused":
            raise ValueError("not a pool")
        self._pools = [Pool(pool) if each.id == pool["id"] else each for each in self._pools]
        self._keep()

    def create_pool(self, _: DesignateContext, pool: dict[str, Any]) -> None:
        assert pool["id"] not in {each.id for each in self._pools}
        self._pools.append(Pool(pool))
        self._keep()

    def delete_pool(self, _: DesignateContext, pool: str) -> None:
        assert pool not in {each.pool_id for each in self._zones}
        self._pools = [each for each in self._pools if each.id != pool]
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
        FILE.write_text(json.dumps({**known, "pools": self._pools}))
