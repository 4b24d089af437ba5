"""Rows that services encrypt with keys outside of the database: those of Barbican and of Heat."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from .run import RunError
from .schemas import schemas_with

_MAX_KEYS = 100
_HEAT_KEY_LENGTH = 32
"""Characters of a key that Heat uses (heat.common.crypt)."""


@dataclass(frozen=True)
class Sealing:
    """Rows that a service encrypts, and the keys for them."""

    service: str
    tables: tuple[str, str]
    """Two tables that the schema of this service alone has."""
    rows: str
    """Statement that returns encrypted values of `{schema}`."""
    secret: str
    """End of the name of the Secret with the keys."""
    entry: re.Pattern[str]
    """Names of its entries that are keys."""
    key: Callable[[bytes], bytes]
    """Function from an entry to a key of Fernet."""


SEALINGS = (
    Sealing(
        "Barbican",
        ("kek_data", "secret_store_metadata"),
        # Other plug-ins have their keys in a Vault or a module.
        "SELECT plugin_meta FROM {schema}.kek_data WHERE deleted = 0 AND plugin_name LIKE '%SimpleCrypto%'"
        " AND plugin_meta IS NOT NULL",
        "-kek",
        re.compile(r"kek\.\d+"),
        bytes.strip,
    ),
    Sealing(
        "Heat",
        ("user_creds", "raw_template"),
        "SELECT COALESCE(trust_id, password) FROM {schema}.user_creds"
        " WHERE decrypt_method = 'cryptography_decrypt_v1' AND COALESCE(trust_id, password) IS NOT NULL",
        "-encryption",
        re.compile("auth_encryption_key"),
        # Heat doubles a shorter one.
        lambda entry: base64.b64encode((entry.strip() * 2)[:_HEAT_KEY_LENGTH]),
    ),
)


def count_decrypted(ask: Callable[[str], str], objects: Sequence[Mapping[str, Any]]) -> int:
    """Return how many rows of a server were decrypted with the keys in the Secrets of a backup, by a function from a
    statement to the server's lines. Raise RunError if a row needs another key.
    """
    return sum(
        _decrypt(sealing, ask, schema, objects)
        for sealing in SEALINGS
        for schema in set.intersection(*(set(schemas_with(ask, table)) for table in sealing.tables))
    )


def _decrypt(sealing: Sealing, ask: Callable[[str], str], schema: str, objects: Sequence[Mapping[str, Any]]) -> int:
    rows = ask(sealing.rows.format(schema=schema)).split()
    if not rows:
        return 0
    keys = _keys(sealing, objects)
    if not keys:
        text = f"{sealing.service} encrypts rows of {schema}, and the backup has no Secret with its key"
        raise RunError(f"{text}; see that the cloud has one whose name ends in {sealing.secret}, and back up again")
    if len(keys) > _MAX_KEYS:
        raise RunError(
            f"the backup has {len(keys)} keys of {sealing.service}, and at most {_MAX_KEYS} are tried; remove old ones"
        )
    ring = MultiFernet(keys)
    if unread := sum(not _opens(ring, row) for row in rows):
        text = f"{sealing.service} cannot read {unread} of {len(rows)} rows of {schema} with the keys of the backup"
        raise RunError(f"{text}; put its key back into the Secret whose name ends in {sealing.secret}")
    return len(rows)


def _keys(sealing: Sealing, objects: Sequence[Mapping[str, Any]]) -> list[Fernet]:
    """Return the keys in the Secrets that the service will have: those of others are not read after a restore."""
    texts: set[str] = {
        str(text)
        for obj in objects
        if obj["kind"] == "Secret" and str(obj["metadata"]["name"]).endswith(sealing.secret)
        for name, text in (obj.get("data") or {}).items()
        if sealing.entry.fullmatch(str(name))
    }
    keys: list[Fernet] = []
    for text in sorted(texts):
        # What is no key may be another Secret's with such a name.
        with suppress(ValueError):
            keys.append(Fernet(sealing.key(base64.b64decode(text))))
    return keys


def _opens(keys: MultiFernet, row: str) -> bool:
    try:
        keys.decrypt(row.encode())
    except InvalidToken:
        return False
    return True
