"""What a run of Tempest uses of subunit; a line of JSON for each state of a test takes the place of its protocol."""

from __future__ import annotations

import json
from typing import IO, Any


class ByteStreamToStreamResult:
    """Reader of a stream."""

    def __init__(self, source: IO[bytes], non_subunit_name: str) -> None:
        self._source, self._other_name = source, non_subunit_name

    def run(self, result: Any) -> None:
        for line in self._source:
            if line.startswith(b"{"):
                result.add(json.loads(line))
            else:
                result.add({"id": self._other_name, "status": "exists"})
