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
BESIDE = {"kek_data": "secret_store_metadata", "user_creds": "raw_template"}


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
        if "information_schema" in statement:
            found = [table for table in rows if any(f"'{name}'" in statement for name in (table, BESIDE[table]))]
            return "".join(f"schema_of_{table}\n" for table in found)
        tables = [table for table in rows if table in statement]
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


def test_a_short_key_of_heat_is_doubled() -> None:
    rows = {"user_creds": [sealed(base64.b64encode(b"k" * 32))]}
    data = {"auth_encryption_key": base64.b64encode(b"k" * 16).decode()}
    assert count_decrypted(server(rows), [{**HEAT_SECRET, "data": data}]) == 1


def test_a_copy_of_a_key_is_not_the_key() -> None:
    """After a restore, Barbican reads the Secret of its own name."""
    copy = {**secret(kek_1=NEW), "metadata": {"name": "copies"}}
    with pytest.raises(RunError, match="the backup has no Secret with its key"):
        count_decrypted(server({"kek_data": [sealed(NEW)]}), [copy])


def test_a_table_of_another_program_is_not_read() -> None:
    def ask(statement: str) -> str:
        assert "information_schema" in statement
        return "another\n" if "'user_creds'" in statement else ""

    assert count_decrypted(ask, []) == 0


def test_keys_without_end_are_refused() -> None:
    many = secret(**{f"kek_{number}": Fernet.generate_key() for number in range(101)})
    with pytest.raises(RunError, match="has 101 keys of Barbican"):
        count_decrypted(server({"kek_data": [sealed(NEW)]}), [many])
