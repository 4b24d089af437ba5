"""Another version of the operator takes over: what it says is its own word, and is said once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from openstack_operator import api
from openstack_operator.kube import conditions
from openstack_operator.runtime.kinds import Kind
from openstack_operator.runtime.report import Patience

from . import toy
from .harness import Cluster, at_rest, eventually

# Whoever waits for others to be looked at does so for as long as a test may take.
PATIENCE = Patience(initial=0.2, later=0.2, retrying=0.5, missing=0.2, upgrade=600)
NAMES = {toy.STACK: "stack", toy.SERVER: "server", toy.ACCOUNT: "account", toy.APP: "app"}
NEWER = replace(toy.RELEASE, components={"app": replace(toy.RELEASE["app"], image="example.org/app:2")})


def version(live: dict[str, Any] | None) -> str:
    assert live
    return (live.get("status") or {}).get("operatorVersion", "")


async def every(cluster: Cluster) -> dict[api.Resource[Any], dict[str, Any]]:
    """Each resource of the stack as it is."""
    found = {resource: await cluster.get(resource, name) for resource, name in NAMES.items()}
    return {resource: live for resource, live in found.items() if live}


async def stack_of(cluster: Cluster, wanted: str) -> dict[api.Resource[Any], dict[str, Any]]:
    """A stack that an operator of that version looked at."""

    async def said() -> bool:
        return version(await cluster.get(toy.STACK, "stack")) == wanted

    await eventually(said)
    return await every(cluster)


async def since(cluster: Cluster, resource: api.Resource[Any], before: dict[str, Any]) -> list[dict[str, Any]]:
    """Each version of a resource after that one, up to the present one."""
    last = (await cluster.get(resource, before["metadata"]["name"]) or {})["metadata"]["resourceVersion"]
    found: list[dict[str, Any]] = []
    if last == before["metadata"]["resourceVersion"]:
        return found
    params = {"resourceVersion": before["metadata"]["resourceVersion"]}
    async for line in cluster.client.watch(Kind.of(resource), cluster.namespace, params):
        event = msgspec.json.decode(line)
        if event["type"] == "MODIFIED" and event["object"]["metadata"]["name"] == before["metadata"]["name"]:
            found.append(event["object"])
        if event["object"]["metadata"].get("resourceVersion") == last:
            break
    return found


async def test_each_status_is_written_once_and_that_of_a_whole_last(cluster: Cluster) -> None:
    async with cluster.simulator(), cluster.operator(version="1.0", patience=PATIENCE) as manager:
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
        await at_rest(manager)
        before = await every(cluster)
        assert {version(live) for live in before.values()} == {"1.0"}
    async with cluster.simulator(), cluster.operator(version="1.1", patience=PATIENCE) as manager:
        after = await stack_of(cluster, "1.1")
        assert {version(live) for live in after.values()} == {"1.1"}
        await at_rest(manager)
        for resource, live in before.items():
            (written,) = await since(cluster, resource, live)
            assert conditions(written) == conditions(live)


async def test_what_was_ready_by_the_word_of_another_version_is_not_ready_by_this_ones(cluster: Cluster) -> None:
    async with cluster.simulator(), cluster.operator(version="1.0", patience=PATIENCE) as manager:
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
        await at_rest(manager)
        before = await every(cluster)
    # Its pods have another image, and do not start.
    async with (
        cluster.simulator("Deployment"),
        cluster.operator(version="1.1", patience=PATIENCE, release=NEWER),
    ):
        await stack_of(cluster, "1.1")

        async def says_why() -> bool:
            return "app-api: " in (await cluster.condition(toy.STACK, "stack"))["message"]

        # On a busy machine it says first that the roll-out of another workload comes before.
        await eventually(says_why)
        statuses = await since(cluster, toy.STACK, before[toy.STACK])
        assert {version(each) for each in statuses} == {"1.1"}
        assert {conditions(each)["Ready"]["status"] for each in statuses} == {"False"}
