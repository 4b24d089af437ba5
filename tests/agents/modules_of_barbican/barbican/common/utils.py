"""A stand-in of Barbican's helpers."""

from typing import Any


def generate_fullname_for(instance: Any) -> str:
    return type(instance).__name__
