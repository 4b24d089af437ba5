"""A stand-in of simple_crypto, with the keys of $KEKS."""

import os
from types import SimpleNamespace

CONF = SimpleNamespace(database=SimpleNamespace(connection=os.environ["ROWS"]))


class SimpleCryptoPlugin:
    def __init__(self) -> None:
        self.master_keys = os.environ["KEKS"].split()
