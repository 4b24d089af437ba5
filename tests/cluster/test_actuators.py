"""What lives outside Kubernetes: kept, looked at again, and removed."""

from __future__ import annotations

from openstack_operator.runtime.kubernetes.kinds import EVENT

from . import toy
from .harness import Cluster, eventually
from .test_controlplane import listed
from .test_deletion import gone


async def test_an_account_is_made_and_mended(cluster: Cluster):
    async with cluster.simulator(), cluster.operator(interval=0.2):
        await cluster.create(toy.ACCOUNT, "account")
        await cluster.ready(toy.ACCOUNT, "account", "MissingReference")
        await cluster.create(toy.SERVER, "server")
        await cluster.ready(toy.ACCOUNT, "account")
        cluster.remote.accounts.clear()

        async def mended() -> bool:
            return "app" in cluster.remote.accounts

        await eventually(mended)

        async def told() -> list[str]:
            return [each["message"] for each in await listed(cluster, EVENT) if each["reason"] == "Recreated"]

        assert await eventually(told) == ["recreated account app, which were missing on the server"]


async def test_ready_stays_when_the_remote_side_is_out_of_reach_later(cluster: Cluster):
    async with cluster.simulator(), cluster.operator(interval=0.2):
        await cluster.create(toy.SERVER, "server")
        await cluster.create(toy.ACCOUNT, "account")
        await cluster.ready(toy.ACCOUNT, "account")
        cluster.remote.down = True

        async def retrying() -> bool:
            return (await cluster.condition(toy.ACCOUNT, "account", "Reconciling")).get("reason") == "Retrying"

        await eventually(retrying)
        assert (await cluster.condition(toy.ACCOUNT, "account"))["status"] == "True"


async def test_an_account_waits_for_its_server_to_be_ready(cluster: Cluster):
    async with cluster.simulator("StatefulSet"), cluster.operator():
        await cluster.create(toy.SERVER, "server")
        await cluster.create(toy.ACCOUNT, "account")

        async def waits() -> bool:
            return (await cluster.condition(toy.ACCOUNT, "account")).get("message") == "waiting for Server/server"

        await eventually(waits)
        assert not cluster.remote.accounts


async def test_a_refusal_by_the_remote_side_is_an_invalid_spec(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.SERVER, "server")
        await cluster.create(toy.ACCOUNT, "account", user="refused")
        condition = await cluster.ready(toy.ACCOUNT, "account", "InvalidSpec")
        assert condition["message"] == "spec.user: the server has no such name"


async def test_a_deleted_account_is_removed_out_there(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.SERVER, "server")
        await cluster.create(toy.ACCOUNT, "account")
        await cluster.ready(toy.ACCOUNT, "account")
        await cluster.delete(toy.ACCOUNT, "account")
        await gone(cluster, (toy.ACCOUNT, "account"))
        assert cluster.remote.removed == ["app"]


async def test_an_account_whose_server_is_gone_is_let_go(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.SERVER, "server")
        await cluster.create(toy.ACCOUNT, "account")
        await cluster.ready(toy.ACCOUNT, "account")
        await cluster.delete(toy.SERVER, "server")
        await gone(cluster, (toy.SERVER, "server"))
        cluster.remote.down = True
        await cluster.delete(toy.ACCOUNT, "account")
        await gone(cluster, (toy.ACCOUNT, "account"))
        assert cluster.remote.removed == []


async def test_observed_facts_are_in_the_status_and_stay_during_an_outage(cluster: Cluster):
    async with cluster.simulator(), cluster.operator(interval=0.2):
        await cluster.create(toy.SERVER, "server")
        await cluster.create(toy.ACCOUNT, "account")
        await cluster.ready(toy.ACCOUNT, "account")
        cluster.remote.accounts["by-hand"] = ""

        async def told() -> bool:
            return ((await cluster.get(toy.ACCOUNT, "account") or {})["status"]).get("accounts") == 2

        await eventually(told)
        cluster.remote.down = True

        async def retrying() -> bool:
            return (await cluster.condition(toy.ACCOUNT, "account", "Reconciling")).get("reason") == "Retrying"

        await eventually(retrying)
        assert await told()


async def test_an_account_of_another_resource_is_left_alone(cluster: Cluster):
    async with cluster.simulator(), cluster.operator(interval=0.2):
        await cluster.create(toy.SERVER, "server")
        await cluster.create(toy.ACCOUNT, "account")
        await cluster.ready(toy.ACCOUNT, "account")
        await cluster.create(toy.ACCOUNT, "thief", user="App")
        condition = await cluster.ready(toy.ACCOUNT, "thief", "InvalidSpec")
        assert condition["message"] == (
            "spec.user: account 'App' of Server/server belongs to the older Account/account;"
            " choose another name, or delete this resource"
        )
        assert set(cluster.remote.accounts) == {"app"}
        await cluster.delete(toy.ACCOUNT, "thief")
        await gone(cluster, (toy.ACCOUNT, "thief"))
        assert set(cluster.remote.accounts) == {"app"}
        await cluster.ready(toy.ACCOUNT, "account")
