"""Barbican of the image with HashiCorp's Vault: what a small Vault of a test cannot show."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from urllib.error import HTTPError

import pytest

from openstack_operator.plan import Release
from tests.unit.barbican_vaults import RealVault, Server, real_vault
from tests.unit.barbican_with_vault import WORKS, BarbicanWithVault, barbican_with_vault
from tests.unit.polling import until
from tests.vault import MOUNT, Administrator, certificate


@pytest.fixture(name="vault", scope="module")
def _vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealVault, Server]]:
    with real_vault(tmp_path_factory.mktemp("vault")) as vault:
        yield vault


@pytest.fixture(name="barbican")
def _barbican(release: Release, vault: tuple[RealVault, Server]) -> Iterator[BarbicanWithVault]:
    with barbican_with_vault(release, vault[1]) as barbican:
        barbican.configure({})
        yield barbican


@pytest.fixture(name="administrator")
def _administrator(vault: tuple[RealVault, Server]) -> Administrator:
    return vault[0].administrator


def role(administrator: Administrator, server: Server, name: str, policy: str, *options: str) -> Server:
    """The server with the login of another role, which may do what a policy says."""
    administrator.run("policy", "write", name, "-", stdin=policy)
    administrator.run("write", f"auth/approle/role/{name}", f"token_policies={name}", *options)
    role_id = administrator.run("read", "-field=role_id", f"auth/approle/role/{name}/role-id")
    secret_id = administrator.run("write", "-f", "-field=secret_id", f"auth/approle/role/{name}/secret-id")
    return replace(server, role=role_id, secret=secret_id)


def path(where: str, *capabilities: str) -> str:
    """The policy for a path."""
    return f'path "{where}" {{ capabilities = {json.dumps(capabilities)} }}'


def test_the_documented_policy_is_enough_and_each_part_of_it_is_needed(
    barbican: BarbicanWithVault, administrator: Administrator
) -> None:
    assert barbican.check() == WORKS
    for lacking in ("create", "read", "delete"):
        rest = [each for each in ("create", "read", "update", "delete") if each != lacking]
        server = role(administrator, barbican.vault, f"no-{lacking}", path(f"{MOUNT}/data/*", *rest))
        barbican.configure({}, server)
        assert "Vault denies access: check roleIdRef" in barbican.check(), lacking


def test_a_mount_without_an_engine_loses_no_secret(barbican: BarbicanWithVault, administrator: Administrator) -> None:
    """castellan takes the answer 404 for success."""
    server = role(administrator, barbican.vault, "no-engine", path("no-engine/data/*", "create", "update", "read"))
    barbican.configure({}, replace(server, mount="no-engine"))
    assert "is missing: check that the mount" in barbican.check()


def test_a_vault_with_a_certificate_of_another_authority_gets_no_login(barbican: BarbicanWithVault) -> None:
    barbican.configure({}, replace(barbican.vault, authorities=certificate("127.0.0.1")["ca.crt"]))
    assert "cannot be reached" in barbican.check()


def accessors(administrator: Administrator) -> set[str]:
    """Of all tokens that have not ended."""
    return set(json.loads(administrator.run("list", "-format=json", "auth/token/accessors")))


def test_barbican_logs_in_again_when_its_token_ends(barbican: BarbicanWithVault, administrator: Administrator) -> None:
    policy = path(f"{MOUNT}/data/*", "create", "update", "read", "delete")
    barbican.configure({}, role(administrator, barbican.vault, "short", policy, "token_ttl=20s", "token_max_ttl=20s"))
    with barbican.api():
        before = accessors(administrator)
        id_ = barbican.store(b"payload")
        until("the token to end", lambda: not accessors(administrator) - before)
        assert barbican.read(id_) == b"payload"


def fails(call: Callable[[], object]) -> None:
    """Barbican tells its user that it failed."""
    with pytest.raises(HTTPError) as caught:
        call()
    with caught.value as error:
        assert error.code == 500


def test_a_sealed_or_killed_vault_fails_requests_until_unsealed(
    barbican: BarbicanWithVault, vault: tuple[RealVault, Server], administrator: Administrator
) -> None:
    def restart() -> None:
        vault[0].kill()
        vault[0].start()

    with barbican.api():
        id_ = barbican.store(b"payload")
        for stop in (administrator.seal, restart):
            stop()
            try:
                fails(lambda: barbican.read(id_))
                fails(lambda: barbican.store(b"another payload"))
                assert "is sealed" in barbican.check()
            finally:
                administrator.unseal()
            assert barbican.read(id_) == b"payload"
    assert barbican.check() == WORKS


def test_a_secret_that_vault_refuses_is_not_said_to_be_stored(
    barbican: BarbicanWithVault, administrator: Administrator
) -> None:
    """castellan takes the answer 429 of a quota for success."""
    quota = "sys/quotas/rate-limit/barbican"
    ids = list[str]()

    def store() -> None:
        for _ in range(5):
            ids.append(barbican.store(b"payload"))

    with barbican.api():
        administrator.run("write", quota, f"path={MOUNT}/", "rate=1", "interval=1h")
        try:
            fails(store)
        finally:
            administrator.run("delete", quota)
        assert [barbican.read(id_) for id_ in ids] == [b"payload"] * len(ids)
