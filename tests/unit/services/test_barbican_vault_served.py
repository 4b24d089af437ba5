"""Barbican of the image with secrets in Vaults, over TLS."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from openstack_operator.plan import Release
from tests.unit.barbican_vaults import Server, real_vault, small_vault
from tests.unit.barbican_with_vault import WORKS, BarbicanWithVault, barbican_with_vault


@pytest.fixture(name="real", scope="module")
def _real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with real_vault(tmp_path_factory.mktemp("vault")) as (_, server):
        yield server


@pytest.fixture(name="barbican", params=["small", "real"])
def _barbican(
    release: Release, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BarbicanWithVault]:
    with ExitStack() as stack:
        if request.param == "real":
            vault = request.getfixturevalue("real")
        else:
            vault = stack.enter_context(small_vault(tmp_path_factory.mktemp("vault")))
        yield stack.enter_context(barbican_with_vault(release, vault))


def test_secrets_move_to_a_vault_and_old_ones_stay_readable(barbican: BarbicanWithVault) -> None:
    with barbican.api():
        ids = {b"old payload": barbican.store(b"old payload")}
    barbican.configure({})
    assert barbican.check() == WORKS
    new = bytes(range(256))
    with barbican.api():
        ids[new] = barbican.store(new)
        assert {payload: barbican.read(id_) for payload, id_ in ids.items()} == {each: each for each in ids}
        assert barbican.vault.has(new)
        assert not barbican.vault.has(b"old payload")
    assert new not in (barbican.root / "tmp/barbican.sqlite").read_bytes()
    # Back to the database, with the Vault for what is there.
    barbican.configure({"newSecrets": "database"})
    with barbican.api():
        ids[b"last payload"] = barbican.store(b"last payload")
        assert {payload: barbican.read(id_) for payload, id_ in ids.items()} == {each: each for each in ids}
        assert not barbican.vault.has(b"last payload")
        barbican.delete(ids[new])
        assert not barbican.vault.has(new)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        # The policy of a real Vault speaks before its mounts do.
        ({"mount": "no-engine"}, "secret is missing|allows create"),
        ({"secret": "wrong"}, "refuses the login"),
        ({"role": "wrong"}, "refuses the login"),
        ({"url": "https://127.0.0.1:9"}, "cannot be reached"),
    ],
)
def test_a_vault_that_cannot_be_used_is_not_used(
    barbican: BarbicanWithVault, change: dict[str, Any], text: str
) -> None:
    barbican.configure({}, replace(barbican.vault, **change))
    said = barbican.check()
    assert re.search(text, said), said
    assert change.get("secret", "-") not in said
