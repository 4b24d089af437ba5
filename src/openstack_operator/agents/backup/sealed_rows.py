"""Rows that services encrypt with keys outside of the database: those of Barbican and of Heat."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from .run import RunError
from .schemas import schemas_with

_HEAT_KEY_LENGTH = 32
"""Characters of a key that Heat uses (heat.common.crypt)."""


@dataclass(frozen=True)
class Sealing:
    """Rows that a service encrypts, and the keys for them."""

    service: str
    table: str
    """Table that the schema of this service alone has."""
    rows: str
    """Statement that returns encrypted values of `{schema}`."""
    entry: re.Pattern[str]
    """Names of the entries of Secrets that have the keys."""
    key: Callable[[bytes], bytes]
    """Function from an entry to a key of Fernet."""


SEALINGS = (
    Sealing(
        "Barbican",
        "kek_data",
        # Other plug-ins have their keys in a Vault or a module.
        "SELECT plugin_meta FROM {schema}.kek_data WHERE deleted = 0 AND plugin_name LIKE '%SimpleCrypto%'"
        " AND plugin_meta IS NOT NULL",
        re.compile(r"kek\.\d+"),
        bytes.strip,
    ),
    Sealing(
        "Heat",
        "user_creds",
        "SELECT COALESCE(trust_id, password) FROM {schema}.user_creds"
        " WHERE decrypt_method = 'cryptography_decrypt_v1' AND COALESCE(trust_id, password) IS NOT NULL",
        re.compile("auth_encryption_key"),
        lambda entry: base64.b64encode(entry.strip()[:_HEAT_KEY_LENGTH]),
    ),
)


def count_decrypted(ask: Callable[[str], str], objects: Sequence[Mapping[str, Any]]) -> int:
    """Return how many rows of a server were decrypted with the keys in the Secrets of a backup, by a function from a
    statement to the server's lines. Raise RunError if a row needs another key.
    """
    return sum(
        _decrypt(sealing, ask, schema, objects) for sealing in SEALINGS for schema in schemas_with(ask, sealing.table)
    )


def _decrypt(sealing: Sealing, ask: Callable[[str], str], schema: str, objects: Sequence[Mapping[str, Any]]) -> int:
    rows = ask(sealing.rows.format(schema=schema)).split()
    keys = _keys(sealing, objects)
    if rows and not keys:
        raise RunError(f"{sealing.service} encrypts rows of {schema}, and the backup has no Secret with its key")
    unread = sum(not _opens(keys, row) for row in rows)
    if unread:
        raise RunError(
            f"{sealing.service} cannot read {unread} of {len(rows)} rows of {schema} with the keys of the backup"
        )
    return len(rows)


def _keys(sealing: Sealing, objects: Sequence[Mapping[str, Any]]) -> list[Fernet]:
    entries: list[tuple[str, str]] = [
        (str(name), str(text))
        for obj in objects
        if obj["kind"] == "Secret"
        for name, text in (obj.get("data") or {}).items()
    ]
    keys: list[Fernet] = []
    for name, text in entries:
        if not sealing.entry.fullmatch(name):
            continue
        try:
            keys.append(Fernet(sealing.key(base64.b64decode(text))))
        except ValueError:
            # An entry of that name may be of somebody else.
            continue
    return keys


def _opens(keys: Sequence[Fernet], row: str) -> bool:
    try:
        MultiFernet(keys).decrypt(row.encode())
    except InvalidToken:
        return False
    return True
