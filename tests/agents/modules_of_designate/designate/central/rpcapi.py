"""A stand-in of requests to central."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ..objects import TsigKey

FILE = Path(os.environ["KEYS"])


class CentralAPI:
    def __init__(self) -> None:
        self._keys = [TsigKey(**each) for each in json.loads(FILE.read_text())]

    def find_tsigkeys(self, context: str, criterion: dict[str, str]) -> list[TsigKey]:
        assert context == "administrator of pools"
        return [each for each in self._keys if criterion.items() <= vars(each).items()]

    def create_tsigkey(self, context: str, key: TsigKey) -> None:
        self._keys.append(key)
        self.update_tsigkey(context, key)

    def update_tsigkey(self, _: str, key: TsigKey) -> None:
        assert key in self._keys
        FILE.write_text(json.dumps([vars(each) for each in self._keys]))
