"""Rows of Barbican and Heat are decrypted with the keys of a backup."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from cryptography.fernet import Fernet

from openstack_operator.agents.backup.run import RunError
from openstack_operator.agents.backup.sealed_rows import count_decrypted

OLD, NEW, OTHER = (Fernet.generate_key() for _ in range(3))
HEAT = "k" * 32


def secret(**entries: bytes) -> dict[str, Any]:
    data = {name.replace("_", ".", 1): base64.b64encode(value).decode() for name, value in entries.items()}
    return {"kind": "Secret", "metadata": {"name": "barbican-kek"}, "data": data}


HEAT_SECRET = {
    "kind": "Secret",
    "metadata": {"name": "heat-encryption"},
    "data": {"auth_encryption_key": base64.b64encode(HEAT.encode()).decode()},
}


def sealed(key: bytes) -> str:
    return Fernet(key).encrypt(b"content").decode()


def server(rows: Mapping[str, Sequence[str]]) -> Callable[[str], str]:
    """A server with the rows of `kek_data` and `user_creds`."""

    def ask(statement: str) -> str:
        tables = [table for table in rows if table in statement]
        if "information_schema" in statement:
            return "".join(f"schema_of_{table}\n" for table in tables)
        return "\n".join(row for table in tables for row in rows[table])

    return ask


def test_each_row_is_decrypted() -> None:
    heat_key = base64.b64encode(HEAT.encode())
    rows = {"kek_data": [sealed(OLD), sealed(NEW)], "user_creds": [sealed(heat_key)]}
    assert count_decrypted(server(rows), [secret(kek_1=OLD, kek_2=NEW), HEAT_SECRET]) == 3
    assert count_decrypted(server({}), []) == 0
    # A service that nobody has used yet needs no key.
    assert count_decrypted(server({"kek_data": []}), []) == 0


@pytest.mark.parametrize(
    ("objects", "error"),
    [
        ([secret(kek_1=OTHER)], "Barbican cannot read 1 of 2 rows of schema_of_kek_data with the keys of the backup"),
        ([secret(kek_1=b"no key")], "Barbican encrypts rows of schema_of_kek_data, and the backup has no Secret"),
        ([secret(other_1=NEW)], "the backup has no Secret with its key"),
        ([], "the backup has no Secret with its key"),
    ],
)
def test_a_missing_key_is_named_with_its_service(objects: Sequence[Mapping[str, Any]], error: str) -> None:
    with pytest.raises(RunError, match=error):
        count_decrypted(server({"kek_data": [sealed(OTHER), sealed(NEW)]}), objects)


def test_the_key_of_heat_is_tried() -> None:
    with pytest.raises(RunError, match="Heat cannot read 1 of 1 rows"):
        count_decrypted(server({"user_creds": [sealed(OTHER)]}), [HEAT_SECRET])
