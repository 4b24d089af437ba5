"""A stand-in of Designate's broker."""

from typing import Any


def init(conf: Any) -> None:
    assert conf
