"""Servers that other operators run, against their real definitions; the operators themselves are played."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import pki
from openstack_operator.actuators import VHOST
from openstack_operator.api import ALLOWED_HOSTS
from openstack_operator.kube import conditions
from openstack_operator.registry import RESOURCES
from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, SECRET, STATEFUL_SET, Kind
from openstack_operator.services.controlplane.c5c3_model import C5C3_CONTROL_PLANE

from . import external_definitions
from .conftest import CRD, install
from .external_operators import KINDS, external_operators
from .harness import Cluster, eventually
from .test_controlplane import operator

RESOURCE = {resource.handle: resource for resource in RESOURCES}
MARIADB, RABBITMQ, MEMCACHED = (RESOURCE[kind] for kind in ("MariaDB", "RabbitMQ", "Memcached"))
NFS = {"name": "nfs", "type": "nfs", "nfs": {"shares": ["nfs.example.org:/volumes"]}}
THEIRS = {"provider": "mariadb-operator"}


async def made(cluster: Cluster, handle: str) -> dict[str, Any]:
    """Objects of a kind of others, by name."""
    found = json.loads(await cluster.client.page(KINDS[handle], cluster.namespace, {}))["items"]
    return {live["metadata"]["name"]: live for live in found}


async def test_a_cloud_on_servers_of_others_becomes_ready_and_goes(cluster: Cluster, root: Path) -> None:
    """The provider is not said: their kinds are there, so that they are taken."""
    async with operator(cluster, root), external_operators(cluster):
        await cluster.create(
            C5C3_CONTROL_PLANE,
            "cloud",
            infrastructure={"valkey": {"storageSize": "1Gi"}},
            services={"cinder": {"enabled": True, "backends": [NFS]}},
            **{"global": {"tls": {"enabled": False}}},
        )
        await cluster.ready(C5C3_CONTROL_PLANE, "cloud")
        for handle, name in (
            ("MariaDB.k8s.mariadb.com", "mariadb"),
            ("RabbitmqCluster.rabbitmq.com", "rabbitmq"),
            ("Memcached.memcached.c5c3.io", "memcached"),
            ("Valkey.cache.cs.sap.com", "valkey"),
        ):
            assert list(await made(cluster, handle)) == [name]
        for name in ("mariadb-server", "rabbitmq-server", "memcached-server", "valkey-server"):
            assert await cluster.get(STATEFUL_SET, name) is None
        for handle in ("Database", "User", "Grant"):
            assert {"keystone-db", "nova-api-db", "nova-cell1-db"} <= set(
                await made(cluster, f"{handle}.k8s.mariadb.com")
            )
        for handle in ("Vhost", "User", "Permission"):
            assert {"nova-messaging", "nova-cell1", "neutron-messaging"} <= set(
                await made(cluster, f"{handle}.rabbitmq.com")
            )
        # Limited accounts alone are made by us: theirs cannot be limited as much.
        for handle, name in (("MariaDBDatabase", "nova-cell1-db--console"), ("RabbitMQVhost", "nova-cell1--console")):
            assert [each["metadata"]["name"] for each in await ours(cluster, handle)] == [name]

        await cluster.delete(C5C3_CONTROL_PLANE, "cloud", "Background")

        async def gone() -> bool:
            accounts = [await ours(cluster, kind) for kind in ("MariaDBDatabase", "RabbitMQVhost")]
            return not any([*accounts, *[await made(cluster, handle) for handle in KINDS]])

        await eventually(gone)


async def ours(cluster: Cluster, handle: str) -> list[Any]:
    return json.loads(await cluster.client.page(Kind.of(RESOURCE[handle]), cluster.namespace, {}))["items"]


async def check_certificates(cluster: Cluster) -> None:
    """Servers of others have certificates of the whole cloud of test_doors.py."""
    (mariadb,), (broker,), (cache,) = [
        (await made(cluster, handle)).values()
        for handle in ("MariaDB.k8s.mariadb.com", "RabbitmqCluster.rabbitmq.com", "Memcached.memcached.c5c3.io")
    ]
    assert mariadb["spec"]["tls"]["serverCertSecretRef"] == {"name": "mariadb-tls"}
    assert broker["spec"]["tls"]["secretName"] == "rabbitmq-tls"
    assert cache["spec"]["security"]["tls"]["certificateSecretRef"] == {"name": "memcached-tls"}
    # The topology operator could not check a certificate by an authority of ours.
    assert not await made(cluster, "Vhost.rabbitmq.com")
    assert await ours(cluster, "RabbitMQVhost")


async def test_an_external_server_is_ready_when_its_operator_says_so(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        await cluster.create(MARIADB, "mariadb", **THEIRS)
        condition = await cluster.ready(MARIADB, "mariadb", "Progressing")
        assert "its operator has not reported yet; check that it runs" in condition["message"]
        async with external_operators(cluster):
            await cluster.ready(MARIADB, "mariadb")
        live = await cluster.get(MARIADB, "mariadb") or {}
        assert live["status"]["published"]["mariadbResource"] == "mariadb"
        assert "ServerReady" in conditions(live)


@pytest.mark.parametrize(
    ("resource", "first", "then"),
    [
        ("MariaDB", "mariadb-operator", "builtin"),
        ("MariaDB", "builtin", "mariadb-operator"),
        ("RabbitMQ", "rabbitmq-cluster-operator", "builtin"),
        ("Memcached", "builtin", "memcached-operator"),
        ("Valkey", "valkey-operator", "builtin"),
    ],
)
async def test_a_running_server_keeps_its_provider(
    cluster: Cluster, root: Path, resource: str, first: str, then: str
) -> None:
    kind, name = RESOURCE[resource], resource.lower()
    async with operator(cluster, root), external_operators(cluster):
        await cluster.create(kind, name, provider=first)
        await cluster.ready(kind, name)
        await cluster.change(kind, name, "/spec/provider", then)
        condition = await cluster.ready(kind, name, "InvalidSpec")
        assert f"spec.provider: {resource}/{name} is run by {first}" in condition["message"]
        assert f"set {first} again" in condition["message"]
        await cluster.change(kind, name, "/spec/provider", "auto")
        await cluster.ready(kind, name)


async def test_an_operator_that_is_not_there_is_named_and_may_come_later(cluster: Cluster, root: Path) -> None:
    valkey = RESOURCE["Valkey"]
    async with without(cluster, "valkeys.cache.cs.sap.com") as installed, operator(cluster, root):
        await cluster.create(valkey, "asked", provider="valkey-operator")
        condition = await cluster.ready(valkey, "asked", "InvalidSpec")
        what = "spec.provider: this cluster serves no valkeys.cache.cs.sap.com of version v1alpha1"
        assert f"{what}; install valkey-operator, or choose builtin" in condition["message"]
        # Nothing runs yet, so that there is a choice.
        await cluster.create(valkey, "chosen", provider="valkey-operator")
        await cluster.ready(valkey, "chosen", "InvalidSpec")
        await cluster.change(valkey, "chosen", "/spec/provider", "builtin")
        await cluster.ready(valkey, "chosen")
        await cluster.create(valkey, "open", provider="auto")
        await cluster.ready(valkey, "open")
        assert await cluster.get(STATEFUL_SET, "open-server")

        await installed()
        async with external_operators(cluster):
            await cluster.ready(valkey, "asked")
        await cluster.ready(valkey, "open")
        assert list(await made(cluster, "Valkey.cache.cs.sap.com")) == ["asked"]


@asynccontextmanager
async def without(
    cluster: Cluster, name: str, definitions: Callable[[], Iterable[dict[str, Any]]] = external_definitions.definitions
) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """The API serves no such kind until what this gives is called; at the end it does again."""
    live = await cluster.client.get(CRD, None, name)
    assert live
    await cluster.client.delete(CRD, "", name, live["metadata"]["uid"], "Background")

    async def gone() -> bool:
        return await cluster.client.get(CRD, None, name) is None

    async def installed() -> None:
        if await gone():
            await install(each for each in definitions() if each["metadata"]["name"] == name)

    await eventually(gone)
    try:
        yield installed
    finally:
        await installed()


async def test_a_provider_that_is_said_has_its_details(cluster: Cluster) -> None:
    for spec in ({"provider": "external"}, {"external": {"host": "db.example.org", "secretRef": {"name": "db"}}}):
        with pytest.raises(Exception, match="provider external"):
            await cluster.create(MARIADB, "mariadb", **spec)


async def test_a_database_of_others_has_our_accounts(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        await cluster.create(
            MARIADB, "mariadb", provider="external", external={"host": "db.example.org", "secretRef": {"name": "db"}}
        )
        condition = await cluster.ready(MARIADB, "mariadb", "MissingReference")
        assert "there is no Secret 'db'" in condition["message"]
        await login(cluster, "db", "db.example.org")
        await cluster.ready(MARIADB, "mariadb")
        for name in ("memcached", "keystone"):
            await cluster.create(RESOURCE[name.capitalize()], name)
        await eventually(lambda: cluster.get(DEPLOYMENT, "keystone-api"))
        assert await ours(cluster, "MariaDBDatabase")


async def login(cluster: Cluster, name: str, allowed: str = "") -> None:
    """A Secret that somebody else made."""
    meta = {**cluster.meta(name), "annotations": {ALLOWED_HOSTS: allowed} if allowed else {}}
    authority = base64.b64encode(pki.authority("seed", "theirs", datetime.now(UTC)).cert.encode()).decode()
    data = {"username": "YWRtaW4=", "password": "c2VjcmV0", "ca.crt": authority}
    await cluster.client.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})


def external(host: str, secret: str) -> dict[str, Any]:
    return {"provider": "external", "external": {"host": host, "secretRef": {"name": secret}}}


@pytest.mark.security
async def test_no_secret_goes_where_it_does_not_allow(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        await login(cluster, "theirs")
        await cluster.create(MARIADB, "mariadb", **external("evil.example.org", "theirs"))
        condition = await cluster.ready(MARIADB, "mariadb", "InvalidSpec")
        assert condition["message"].startswith("spec.external.secretRef: Secret 'theirs' may not be sent to")
        assert condition["message"].endswith(f"can add evil.example.org to the Secret's annotation {ALLOWED_HOSTS}")
        assert await cluster.get(SECRET, "mariadb-admin") is None
        await cluster.change(SECRET, "theirs", "/metadata/annotations", {ALLOWED_HOSTS: "evil.example.org"})
        await cluster.ready(MARIADB, "mariadb")
        assert await cluster.get(SECRET, "mariadb-admin")


@pytest.mark.security
async def test_no_password_becomes_an_accounts_where_it_does_not_allow(cluster: Cluster, root: Path) -> None:
    """Who may write a broker and a user of it reads no Secret of others by making it the user's password."""
    async with operator(cluster, root):
        await login(cluster, "mine", "evil.example.org")
        await login(cluster, "theirs")
        broker = external("evil.example.org", "mine")
        broker["external"]["managementURL"] = "https://evil.example.org:15671"
        await cluster.create(RABBITMQ, "rabbitmq", **broker)
        await cluster.ready(RABBITMQ, "rabbitmq")
        await cluster.create(VHOST, "stolen", vhost="a", user="a", passwordSecretRef={"name": "theirs"})
        condition = await cluster.ready(VHOST, "stolen", "InvalidSpec")
        assert condition["message"].startswith("spec.passwordSecretRef: Secret 'theirs' may not be sent to")
        await cluster.delete(VHOST, "stolen")

        async def gone() -> bool:
            return await cluster.get(VHOST, "stolen") is None

        await eventually(gone)


async def test_a_cache_goes_before_what_its_operator_would_make_anew(cluster: Cluster, root: Path) -> None:
    """Who deletes with Foreground has Kubernetes wait for what belongs to it first, down to what others made."""
    theirs = KINDS["Memcached.memcached.c5c3.io"]
    async with operator(cluster, root), external_operators(cluster):
        await cluster.create(MEMCACHED, "cache", provider="memcached-operator")
        await cluster.ready(MEMCACHED, "cache")
        live = await cluster.get(theirs, "cache")
        assert live
        owner = {"apiVersion": theirs.api_version, "kind": theirs.kind, "name": "cache", "uid": live["metadata"]["uid"]}
        anew = {
            **cluster.meta("anew"),
            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
            "finalizers": ["example.org/made-anew"],
        }
        await cluster.client.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": anew})
        await cluster.delete(theirs, "cache", "Foreground")
        await cluster.delete(MEMCACHED, "cache", "Foreground")

        async def gone() -> bool:
            return await cluster.get(theirs, "cache") is None

        await eventually(gone)
        await cluster.change(SECRET, "anew", "/metadata/finalizers", [])
        await eventually(lambda: _none(cluster))


async def _none(cluster: Cluster) -> bool:
    return await cluster.get(MEMCACHED, "cache") is None
