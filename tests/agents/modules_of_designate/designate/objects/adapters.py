"""A stand-in of what reads a pool."""

from typing import Any


class DesignateAdapter:
    @staticmethod
    def parse(form: str, fields: dict[str, Any], pool: dict[str, Any]) -> dict[str, Any]:
        assert form == "YAML"
        return {**pool, **fields}
