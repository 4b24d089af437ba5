"""Barbican of the image with HashiCorp's Vault: what a small Vault of a test cannot show."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from urllib.error import HTTPError

import pytest
from barbican_stand import WORKS, Stand, standing
from barbican_vaults import RealVault, Server, real_vault
from patience import until

from openstack_operator.plan import Release
from tests.vault import MOUNT, Administrator, certificate


@pytest.fixture(name="vault", scope="module")
def _vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealVault, Server]]:
    with real_vault(tmp_path_factory.mktemp("vault")) as vault:
        yield vault


@pytest.fixture(name="stand")
def _stand(release: Release, vault: tuple[RealVault, Server]) -> Iterator[Stand]:
    with standing(release, vault[1]) as stand:
        stand.configure({})
        yield stand


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
    stand: Stand, administrator: Administrator
) -> None:
    assert stand.check() == WORKS
    for lacking in ("create", "read", "delete"):
        rest = [each for each in ("create", "read", "update", "delete") if each != lacking]
        server = role(administrator, stand.vault, f"no-{lacking}", path(f"{MOUNT}/data/*", *rest))
        stand.configure({}, server)
        assert "it refuses: check roleIdRef" in stand.check(), lacking


def test_a_mount_without_an_engine_loses_no_secret(stand: Stand, administrator: Administrator) -> None:
    """castellan takes the answer 404 for success."""
    server = role(administrator, stand.vault, "no-engine", path("no-engine/data/*", "create", "update", "read"))
    stand.configure({}, replace(server, mount="no-engine"))
    assert "is not there: check that the mount" in stand.check()


def test_a_vault_with_a_certificate_of_another_authority_gets_no_login(stand: Stand) -> None:
    stand.configure({}, replace(stand.vault, authorities=certificate("127.0.0.1")["ca.crt"]))
    assert "cannot be reached" in stand.check()


def accessors(administrator: Administrator) -> set[str]:
    """Of all tokens that have not ended."""
    return set(json.loads(administrator.run("list", "-format=json", "auth/token/accessors")))


def test_barbican_logs_in_again_when_its_token_ends(stand: Stand, administrator: Administrator) -> None:
    policy = path(f"{MOUNT}/data/*", "create", "update", "read", "delete")
    stand.configure({}, role(administrator, stand.vault, "short", policy, "token_ttl=20s", "token_max_ttl=20s"))
    with stand.api():
        before = accessors(administrator)
        id_ = stand.store(b"payload")
        until("the token to end", lambda: not accessors(administrator) - before)
        assert stand.read(id_) == b"payload"


def fails(call: Callable[[], object]) -> None:
    """Barbican tells its user that it failed."""
    with pytest.raises(HTTPError) as caught:
        call()
    with caught.value as error:
        assert error.code == 500


def test_a_vault_that_is_sealed_or_was_killed_fails_requests_until_it_is_unsealed(
    stand: Stand, vault: tuple[RealVault, Server], administrator: Administrator
) -> None:
    def restart() -> None:
        vault[0].kill()
        vault[0].start()

    with stand.api():
        id_ = stand.store(b"payload")
        for stop in (administrator.seal, restart):
            stop()
            try:
                fails(lambda: stand.read(id_))
                fails(lambda: stand.store(b"another payload"))
                assert "is sealed" in stand.check()
            finally:
                administrator.unseal()
            assert stand.read(id_) == b"payload"
    assert stand.check() == WORKS


def test_a_secret_that_vault_refuses_is_not_said_to_be_stored(stand: Stand, administrator: Administrator) -> None:
    """castellan takes the answer 429 of a quota for success."""
    quota = "sys/quotas/rate-limit/barbican"
    ids = list[str]()

    def store() -> None:
        for _ in range(5):
            ids.append(stand.store(b"payload"))

    with stand.api():
        administrator.run("write", quota, f"path={MOUNT}/", "rate=1", "interval=1h")
        try:
            fails(store)
        finally:
            administrator.run("delete", quota)
        assert [stand.read(id_) for id_ in ids] == [b"payload"] * len(ids)
