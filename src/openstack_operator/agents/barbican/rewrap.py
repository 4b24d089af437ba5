"""Encrypts the keys of all projects with the first key-encryption key, and shows that this one alone can decrypt each.

`barbican-manage simple_crypto rewrap_pkek` reports success even if it could not change a row, and passes over keys of
projects that are gone. The operator removes the old key after this program, so it fails unless no row needs it.
"""

from __future__ import annotations

import sys
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet


def main() -> int:
    """Return 0 if each key of a project is encrypted with the first key; raises what a database raises."""
    from barbican.common import utils  # pyright: ignore[reportMissingImports]  # noqa: PLC0415
    from barbican.model import models  # pyright: ignore[reportMissingImports]  # noqa: PLC0415
    from barbican.plugin.crypto import simple_crypto  # pyright: ignore[reportMissingImports]  # noqa: PLC0415
    from sqlalchemy import create_engine, orm  # pyright: ignore[reportMissingImports]  # noqa: PLC0415

    plugin = simple_crypto.SimpleCryptoPlugin()
    name = utils.generate_fullname_for(plugin)
    make_session: Any = orm.sessionmaker(bind=create_engine(simple_crypto.CONF.database.connection))
    with make_session() as session:
        ids = [row.id for row in session.query(models.KEKDatum).filter_by(plugin_name=name)]
    # A transaction for each row: another program may read and write the others meanwhile.
    for id_ in ids:
        with make_session.begin() as session:
            row = session.get(models.KEKDatum, id_, with_for_update=True)
            if row is not None and row.plugin_meta:
                row.plugin_meta = rewrapped(row.plugin_meta, plugin.master_keys)
    with make_session() as session:
        rows = session.query(models.KEKDatum).filter_by(plugin_name=name)
        remaining = [row.id for row in rows if row.plugin_meta and not decrypts(plugin.master_keys[0], row.plugin_meta)]
    print(f"{len(ids)} keys of projects, {len(remaining)} not encrypted with the first key", flush=True)
    return 1 if remaining else 0


def rewrapped(token: str | bytes, keys: list[str]) -> str:
    """Return the same key, encrypted with the first one. Raises InvalidToken if none of the keys decrypts it."""
    return MultiFernet([Fernet(key) for key in keys]).rotate(_encoded(token)).decode()


def decrypts(key: str, token: str | bytes) -> bool:
    """Return True if this key decrypts the token."""
    try:
        Fernet(key).decrypt(_encoded(token))
    except InvalidToken:
        return False
    return True


def _encoded(token: str | bytes) -> bytes:
    return token.encode() if isinstance(token, str) else token


if __name__ == "__main__":
    sys.exit(main())
