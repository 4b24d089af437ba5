"""Credentials that are replaced, and keys that are collected, on a real API server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.actuators.models import DATABASE
from openstack_operator.kube import conditions, secret_data
from openstack_operator.plan import ALLOWED_RESOURCES
from openstack_operator.runtime.kubernetes.kinds import POD, SECRET, Kind
from openstack_operator.services.credentialrotation.model import CREDENTIAL_ROTATION
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.memcached.model import MEMCACHED
from openstack_operator.services.placement.model import PLACEMENT
from openstack_operator.services.secretaggregate.model import SECRET_AGGREGATE

from .harness import Cluster, eventually
from .test_controlplane import operator

ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")


async def holds(cluster: Cluster, name: str, **data: str) -> dict[str, Any]:
    """A Secret of the user's."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": cluster.meta(name), "stringData": data}
    return await cluster.client.create(SECRET, secret)


async def data(cluster: Cluster, name: str) -> dict[str, str]:
    return secret_data(await cluster.get(SECRET, name))


async def running(cluster: Cluster, secret: str) -> None:
    """A pod that reads a Secret."""
    await cluster.client.create(
        ACCOUNT, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": cluster.meta("default")}
    )
    volumes = [{"name": "files", "secret": {"secretName": secret}}]
    spec = {"containers": [{"name": "main", "image": "x"}], "volumes": volumes}
    await cluster.client.create(
        POD, {"apiVersion": "v1", "kind": "Pod", "metadata": cluster.meta("late"), "spec": spec}
    )


async def test_an_account_is_replaced_though_the_operator_ends_in_between(cluster: Cluster, root: Path) -> None:
    async def phase(wanted: str, said: str = "") -> bool:
        live = await cluster.get(CREDENTIAL_ROTATION, "now") or {}
        told = conditions(live).get("RotationReady", {}).get("message", "")
        return (live.get("status") or {}).get("phase") == wanted and said in told

    async def waiting() -> bool:
        return await phase("Moving", "waits for Pod/late")

    async def done() -> bool:
        return await phase("Idle")

    async with operator(cluster, root):
        for resource, name in ((MARIADB, "mariadb"), (MEMCACHED, "memcached"), (KEYSTONE, "keystone")):
            await cluster.create(resource, name)
        await cluster.create(PLACEMENT, "placement")
        await cluster.ready(PLACEMENT, "placement")
        before = (await data(cluster, "placement-credentials"))["database"]
        await running(cluster, "placement-config")
        whose = {"kind": "Placement", "name": "placement"}
        await cluster.create(CREDENTIAL_ROTATION, "now", target="database", serviceRef=whose, replaceNow=True)
        await eventually(waiting)
    held = await data(cluster, "placement-credentials")
    assert (held["database.a"], held["database.b"]) == (before, held["database"])
    assert "placement_B:" in (await data(cluster, "placement-config"))["placement.conf"]
    for name, user in (("placement-db", "placement"), ("placement-db--b", "placement_B")):
        assert ((await cluster.get(DATABASE, name)) or {})["spec"]["user"] == user
    live = await cluster.get(POD, "late") or {}
    await cluster.client.delete(
        POD,
        cluster.namespace,
        "late",
        live["metadata"]["uid"],
        "Background",
    )
    async with operator(cluster, root):
        await eventually(done)

        async def gone() -> bool:
            return await cluster.get(DATABASE, "placement-db") is None

        await eventually(gone)
        await cluster.ready(PLACEMENT, "placement")
    held = await data(cluster, "placement-credentials")
    assert before not in held.values()
    assert "database.a" not in held
    live = await cluster.get(CREDENTIAL_ROTATION, "now") or {}
    assert live["status"]["lastTriggeredGeneration"] == 1
    assert live["status"]["lastRotation"]
    assert not {before, held["database"]} & set(json.dumps(live).split('"'))


async def test_keys_are_collected_and_follow(cluster: Cluster, root: Path) -> None:
    await holds(cluster, "one", password="first", other="x")
    sources = [
        {"secretRef": {"name": "one"}, "keys": [{"key": "password", "as": "one"}]},
        {"secretRef": {"name": "two"}, "keys": [{"key": "password", "as": "two"}]},
    ]
    async with operator(cluster, root):
        await cluster.create(SECRET_AGGREGATE, "all", targetSecretName="together", sources=sources)
        found = await cluster.ready(SECRET_AGGREGATE, "all", "MissingReference")
        assert "there is no Secret 'two'" in found["message"]
        await holds(cluster, "two", other="y")

        async def another() -> bool:
            said = (await cluster.condition(SECRET_AGGREGATE, "all"))["message"]
            return "Secret 'two' has no key 'password'" in said

        await eventually(another)
        assert await cluster.get(SECRET, "together") is None
        await cluster.change(SECRET, "two", "/data/password", "c2Vjb25k")
        await cluster.ready(SECRET_AGGREGATE, "all")
        assert await data(cluster, "together") == {"one": "first", "two": "second"}
        await cluster.change(SECRET, "one", "/data/password", "dGhpcmQ=")

        async def followed() -> bool:
            return await data(cluster, "together") == {"one": "third", "two": "second"}

        await eventually(followed)
        await cluster.change(SECRET, "together", "/data/one", "bWluZQ==")
        await eventually(followed)
        live = await cluster.get(SECRET, "together") or {}
        (owner,) = live["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("SecretAggregate", "all", True)
        told = json.dumps([await cluster.get(SECRET_AGGREGATE, "all")])
        assert not [value for value in ("first", "second", "third", "dGhpcmQ=") if value in told]


@pytest.mark.security
async def test_no_secret_of_the_operators_is_read_for_another_resource(cluster: Cluster, root: Path) -> None:
    """The author of a resource may have no right to read Secrets, and choose the image of its pods."""
    stolen = {"name": "mariadb-credentials", "key": "root"}
    async with operator(cluster, root):
        await cluster.create(MARIADB, "mariadb")
        await cluster.ready(MARIADB, "mariadb")
        login = {"secretRef": {"name": "mariadb-credentials"}}
        await cluster.create(SECRET_AGGREGATE, "copy", sources=[login])
        await cluster.create(DATABASE, "stolen", database="a", user="a", passwordSecretRef=stolen)
        await cluster.create(PLACEMENT, "placement", database=login)
        for resource, name, path in (
            (SECRET_AGGREGATE, "copy", "spec.sources[0].secretRef.name"),
            (DATABASE, "stolen", "spec.passwordSecretRef.name"),
            (PLACEMENT, "placement", "spec.database.secretRef.name"),
        ):
            condition = await cluster.ready(resource, name, "InvalidSpec")
            text = f"{path}: the operator manages Secret 'mariadb-credentials' for MariaDB/mariadb"
            assert text in condition["message"]
        assert await cluster.get(SECRET, "copy") is None
        assert await cluster.get(SECRET, "placement-config") is None
        allowed = {ALLOWED_RESOURCES: "SecretAggregate/copy"}
        await cluster.change(SECRET, "mariadb-credentials", "/metadata/annotations", allowed)
        await cluster.ready(SECRET_AGGREGATE, "copy")
        assert (await data(cluster, "copy"))["root"] == (await data(cluster, "mariadb-credentials"))["root"]
        await cluster.ready(PLACEMENT, "placement", "InvalidSpec")


async def test_a_secret_of_somebody_else_is_left_alone(cluster: Cluster, root: Path) -> None:
    await holds(cluster, "one", password="first")
    mine = await holds(cluster, "taken", password="mine")
    async with operator(cluster, root):
        sources = [{"secretRef": {"name": "one"}}]
        await cluster.create(SECRET_AGGREGATE, "all", targetSecretName="taken", sources=sources)

        async def refused() -> bool:
            found = await cluster.condition(SECRET_AGGREGATE, "all")
            return found.get("status") not in (None, "True") and "taken" in found["message"]

        await eventually(refused)
        assert await cluster.get(SECRET, "taken") == mine
        await cluster.change(SECRET_AGGREGATE, "all", "/spec/targetSecretName", "free")
        await cluster.ready(SECRET_AGGREGATE, "all")
        assert await data(cluster, "free") == {"password": "first"}
