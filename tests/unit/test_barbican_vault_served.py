"""Barbican of the image with secrets in Vaults, over TLS."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from barbican_stand import WORKS, Stand, standing
from barbican_vaults import Server, real_vault, small_vault

from openstack_operator.plan import Release


@pytest.fixture(name="real", scope="module")
def _real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with real_vault(tmp_path_factory.mktemp("vault")) as (_, server):
        yield server


@pytest.fixture(name="stand", params=["small", "real"])
def _stand(
    release: Release, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stand]:
    with ExitStack() as stack:
        if request.param == "real":
            vault = request.getfixturevalue("real")
        else:
            vault = stack.enter_context(small_vault(tmp_path_factory.mktemp("vault")))
        yield stack.enter_context(standing(release, vault))


def test_secrets_move_to_a_vault_and_old_ones_stay_readable(stand: Stand) -> None:
    with stand.api():
        ids = {b"old payload": stand.store(b"old payload")}
    stand.configure({})
    assert stand.check() == WORKS
    new = bytes(range(256))
    with stand.api():
        ids[new] = stand.store(new)
        assert {payload: stand.read(id_) for payload, id_ in ids.items()} == {each: each for each in ids}
        assert stand.vault.has(new)
        assert not stand.vault.has(b"old payload")
    assert new not in (stand.root / "tmp/barbican.sqlite").read_bytes()
    # Back to the database, with the Vault for what is there.
    stand.configure({"newSecrets": "database"})
    with stand.api():
        ids[b"last payload"] = stand.store(b"last payload")
        assert {payload: stand.read(id_) for payload, id_ in ids.items()} == {each: each for each in ids}
        assert not stand.vault.has(b"last payload")
        stand.delete(ids[new])
        assert not stand.vault.has(new)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        # The policy of a real Vault speaks before its mounts do.
        ({"mount": "no-engine"}, "is not there|allows create"),
        ({"secret": "wrong"}, "refuses the login"),
        ({"role": "wrong"}, "refuses the login"),
        ({"url": "https://127.0.0.1:9"}, "cannot be reached"),
    ],
)
def test_a_vault_that_cannot_be_used_is_not_used(stand: Stand, change: dict[str, Any], text: str) -> None:
    stand.configure({}, replace(stand.vault, **change))
    said = stand.check()
    assert re.search(text, said), said
    assert change.get("secret", "-") not in said
