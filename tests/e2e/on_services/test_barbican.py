"""Barbican: secrets of users, keys that it generates, its key-encryption key replaced under load, and a Vault.

The tests of the Vault are the last ones: a Barbican does not give up its Vault.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
import yaml
from openstack.connection import Connection
from openstack.exceptions import HttpException

from tests import vault
from tools.cloud import view
from tools.cloud.session import Cloud, Session
from tools.cloud.view import conditions
from tools.localcluster import faults
from tools.localcluster.kubernetes import Kubernetes
from tools.localcluster.layout import Cluster

from .. import documented
from ..facts import ready_again
from ..load import called
from ..waiting import until
from . import vault_pod

BARBICAN = "barbicans.openstack.k8s.io"
OLD = {"before": "a secret from before the replacement \u00e9\u4e16"}


@dataclass
class Secrets:
    """Stores secrets and reads them."""

    conn: Connection
    payloads: dict[str, str] = field(default_factory=dict[str, str])
    """By the id of the secret."""
    failures: list[str] = field(default_factory=list[str])

    def store(self, name: str, payload: str) -> str:
        manager: Any = self.conn.key_manager
        secret = manager.create_secret(name=name, payload=payload, payload_content_type="text/plain")
        id_ = str(secret.secret_ref).rpartition("/")[2]
        self.payloads[id_] = payload
        return id_

    def read(self, id_: str) -> str:
        answer = self.conn.key_manager.get(f"/secrets/{id_}/payload", headers={"Accept": "text/plain"})
        assert answer.status_code == 200, f"{answer.status_code} {answer.text}"
        return answer.content.decode()

    def wrong(self) -> list[str]:
        """Ids of secrets that do not come back as they were stored."""
        return [id_ for id_, payload in self.payloads.items() if self.read(id_) != payload]


@contextmanager
def used(conn: Connection) -> Generator[Secrets]:
    """A user who stores a secret and reads an old and a new one all the time."""
    secrets, numbers = Secrets(conn), count(1)
    first = secrets.store("first", "first")

    def store_and_read() -> None:
        number = next(numbers)
        for id_ in (first, secrets.store(f"n{number}", f"payload {number}")):
            assert secrets.read(id_) == secrets.payloads[id_], f"{id_}: another payload"

    with called(store_and_read) as load:
        yield secrets
    secrets.failures += load.failures


def change(cluster: Kubernetes, cloud: Cloud, **barbican: Any) -> None:
    """Change fields of the Barbican in the spec of the cloud."""
    patch = json.dumps({"spec": {"barbican": barbican}})
    cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", cloud.namespace, "--type=merge", "-p", patch)


def generations(cluster: Kubernetes, cloud: Cloud) -> set[str]:
    """Names of the keys in the Secret."""
    data = cluster.get("secret", "barbican-kek", "-n", cloud.namespace)["data"]
    return {name for name in data if name.startswith("kek.")}


@pytest.fixture(scope="module")
def old() -> dict[str, str]:
    """Ids of secrets by name, for later tests."""
    return {}


def test_a_secret_comes_back_byte_for_byte(conn: Connection, old: dict[str, str]) -> None:
    secrets = Secrets(conn)
    for name, payload in OLD.items():
        old[name] = secrets.store(name, payload)
    assert secrets.wrong() == []


def test_a_key_is_generated_by_order(conn: Connection) -> None:
    """The worker carries it out."""
    manager: Any = conn.key_manager
    meta = {"name": "volume", "algorithm": "aes", "bit_length": 256, "mode": "cbc"}
    order = manager.create_order(type="key", meta=meta)
    id_ = str(order.order_ref).rpartition("/")[2]

    def active() -> Any:
        found = manager.get_order(id_)
        assert found.status != "ERROR", found
        return found if found.status == "ACTIVE" else None

    secret = until("the order to be carried out", active, 60, 1).secret_ref
    answer = conn.key_manager.get(f"/secrets/{secret.rpartition('/')[2]}/payload", headers={"Accept": "*/*"})
    assert len(answer.content) == 32


def test_the_key_is_replaced_while_users_store_and_read(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, old: dict[str, str]
) -> None:
    assert generations(cluster, cloud) == {"kek.1"}
    with used(conn) as secrets:
        change(cluster, cloud, kekGeneration=2)
        until("the old key to be removed", lambda: generations(cluster, cloud) == {"kek.2"}, 300, 2)
        cluster.kubectl("rollout", "restart", "deployment/barbican-api", "-n", cloud.namespace)
        cluster.kubectl("rollout", "status", "deployment/barbican-api", "-n", cloud.namespace, "--timeout=120s")
    assert secrets.failures == []
    assert len(secrets.payloads) > 20
    assert secrets.wrong() == []
    assert {name: secrets.read(id_) for name, id_ in old.items()} == OLD


def test_a_barbican_that_comes_back_reads_the_old_secrets(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, old: dict[str, str]
) -> None:
    """Its schema and its key outlive it."""
    for enabled in (False, True):
        change(cluster, cloud, enabled=enabled)
        if not enabled:
            until("it to be gone", lambda: not cluster.items(BARBICAN, "-n", cloud.namespace), 120, 1)
            until("its pods to be gone", lambda: not pods(cluster, cloud), 120, 1)
            assert generations(cluster, cloud) == {"kek.2"}
    until("it to be Ready again", lambda: ready(cluster, cloud), 180, 1)
    secrets = Secrets(conn)
    assert {name: secrets.read(id_) for name, id_ in old.items()} == OLD


def pods(cluster: Kubernetes, cloud: Cloud) -> list[Any]:
    return list(cluster.items("pods", "-n", cloud.namespace, "-l", "openstack.k8s.io/kind=barbican"))


def ready(cluster: Kubernetes, cloud: Cloud) -> bool:
    found = cluster.items(BARBICAN, "-n", cloud.namespace)
    return bool(found) and view.ready(found[0])


@pytest.fixture(scope="module")
def administrator(stood: tuple[Session, Cloud], tmp_path_factory: pytest.TempPathFactory) -> vault.Administrator:
    """Of a Vault that was made ready for Barbican by the commands of the documentation."""
    cluster, home = stood[0].cluster, tmp_path_factory.mktemp("vault")
    administrator = vault_pod.start(cluster, home)
    text = documented.script(vault.PAGE, ("vault-engine", "vault-login", "vault-secrets"))
    documented.run(cluster, text.replace(vault.HOST, vault_pod.HOST), home, cwd=home)
    return administrator


def in_vault(**changes: Any) -> dict[str, Any]:
    """The field `vault` of the documentation, with changes."""
    [text] = [text for mark, _, text in documented.blocks(vault.PAGE) if mark == "vault-spec"]
    return {**yaml.safe_load(text.replace(vault.HOST, vault_pod.HOST))["barbican"]["vault"], **changes}


def test_secrets_go_to_a_vault_while_users_store_and_read(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, administrator: vault.Administrator, old: dict[str, str]
) -> None:
    """In the two steps of the documentation."""
    with used(conn) as secrets:
        for new_secrets in ("database", None):
            change(cluster, cloud, vault=in_vault(newSecrets=new_secrets))
            ready_again(cluster, cloud, 400)
    assert secrets.failures == []
    last = secrets.store("last", "the last payload \u00e9\u4e16")
    assert secrets.wrong() == []
    assert administrator.has(secrets.payloads[last].encode())
    assert not administrator.has(b"first")
    assert {name: secrets.read(id_) for name, id_ in old.items()} == OLD


def test_a_killed_vault_returns_sealed_and_fails_only_its_secrets(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, administrator: vault.Administrator, old: dict[str, str]
) -> None:
    secrets = Secrets(conn)
    id_ = secrets.store("before", "before the Vault was killed")
    faults.kill_pod(Cluster(), vault_pod.NAMESPACE, "vault")
    until("the Vault to come back", lambda: administrator.health() == vault.SEALED, 120, 1)
    try:
        answer = conn.key_manager.get(f"/secrets/{id_}/payload", headers={"Accept": "text/plain"})
        assert answer.status_code == 500
        with pytest.raises(HttpException):
            secrets.store("sealed", "while the Vault was sealed")
        assert {name: secrets.read(each) for name, each in old.items()} == OLD
    finally:
        administrator.unseal()
    assert secrets.wrong() == []
    assert ready(cluster, cloud)


def test_a_wrong_secret_id_fails_the_job_until_it_is_replaced(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, administrator: vault.Administrator
) -> None:
    login = administrator.run("write", "-f", "-field=secret_id", "auth/approle/role/barbican/secret-id")

    def write(secret_id: str) -> None:
        metadata = {"name": "barbican-vault", "namespace": cloud.namespace}
        cluster.apply(
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"secret-id": secret_id}}
        )

    def complaint() -> str:
        barbican = cluster.get(BARBICAN, "barbican", "-n", cloud.namespace)
        return str(conditions(barbican).get("VaultReady", {}).get("message", ""))

    with used(conn) as secrets:
        write("wrong")
        until("the job to say why", lambda: "refuses the login" in complaint(), 240, 1)
        write(login)
        ready_again(cluster, cloud, 400)
    assert secrets.failures == []
    assert secrets.wrong() == []
