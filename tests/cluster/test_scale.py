"""`kubectl scale` and a HorizontalPodAutoscaler: the subresource `scale` on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.runtime.kubernetes.kinds import STATEFUL_SET, Kind
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.controlplane.service import SERVICES_BY_PHASE
from openstack_operator.services.keystone.model import KEYSTONE
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.memcached.model import MEMCACHED

from .harness import Cluster, at_rest, eventually
from .rest import Rest
from .test_controlplane import operator

CACHE = Kind.of(MEMCACHED)
SELECTOR = "app.kubernetes.io/component=server,app.kubernetes.io/instance=memcached,openstack.k8s.io/kind=memcached"


@pytest.fixture
def rest(kubeconfig: Path, cluster: Cluster) -> Iterator[Rest]:
    connection = Rest(kubeconfig, cluster.namespace)
    yield connection
    connection.close()


async def servers(cluster: Cluster, number: int) -> None:
    """Returns once the StatefulSet is to have that many pods."""

    async def asked_for() -> bool:
        return ((await cluster.get(STATEFUL_SET, "memcached-server") or {}).get("spec") or {}).get("replicas") == number

    await eventually(asked_for)


async def shown(rest: Rest, number: int) -> dict[str, Any]:
    """The scale of a Memcached, once it has that many pods."""

    async def counted() -> dict[str, Any] | None:
        status, scale = rest.scale(CACHE, "memcached")
        assert status == 200, scale
        return scale if scale["status"]["replicas"] == number else None

    return await eventually(counted)


async def test_a_resource_is_scaled_and_shows_its_pods_and_their_labels(
    cluster: Cluster, rest: Rest, root: Path
) -> None:
    async with operator(cluster, root) as manager:
        await cluster.create(MEMCACHED, "memcached")
        await cluster.ready(MEMCACHED, "memcached")
        scale = await shown(rest, 1)
        assert scale["spec"] == {"replicas": 1}
        assert scale["status"]["selector"] == SELECTOR
        assert rest.scale(CACHE, "memcached", 3)[0] == 200
        await servers(cluster, 3)
        scale = await shown(rest, 3)
        assert ((await cluster.get(MEMCACHED, "memcached")) or {})["spec"]["replicas"] == 3
        # As an autoscaler does: the whole object, with the version it has read.
        assert rest.put_scale(CACHE, "memcached", scale | {"spec": {"replicas": 2}})[0] == 200
        await servers(cluster, 2)
        await shown(rest, 2)
        await at_rest(manager)


async def test_scale_status_follows_pods_without_a_change_of_the_resource(
    cluster: Cluster, rest: Rest, root: Path
) -> None:
    async with operator(cluster, root, skip=("StatefulSet",)) as manager:
        await cluster.create(MEMCACHED, "memcached", replicas=2)
        await servers(cluster, 2)
        for number in (2, 1, 0):
            await cluster.client.merge_status(
                STATEFUL_SET, cluster.namespace, "memcached-server", {"replicas": number, "observedGeneration": 1}
            )
            assert (await shown(rest, number))["spec"] == {"replicas": 2}
        await at_rest(manager)


async def test_scale_refuses_a_number_that_the_kind_refuses(cluster: Cluster, rest: Rest) -> None:
    keystone = Kind.of(KEYSTONE)
    await cluster.create(KEYSTONE, "keystone")
    status, answer = rest.scale(keystone, "keystone", 33)
    assert status == 422, answer
    assert "spec.replicas" in answer["message"]
    assert rest.scale(keystone, "keystone")[1]["spec"] == {"replicas": 1}
    # It has none to be wrong about: nothing runs yet.
    assert rest.scale(keystone, "keystone", 2)[1]["status"] == {"replicas": 0}


async def test_members_that_may_not_be_taken_away_are_not_scaled(cluster: Cluster, rest: Rest) -> None:
    await cluster.create(MARIADB, "mariadb", replicas=3)
    assert rest.scale(Kind.of(MARIADB), "mariadb", 1)[0] == 404
    assert ((await cluster.get(MARIADB, "mariadb")) or {})["spec"]["replicas"] == 3


async def test_a_service_is_scalable_while_its_template_sets_no_number(
    cluster: Cluster, rest: Rest, root: Path
) -> None:
    off: dict[str, Any] = {each.field: {"enabled": False} for each in SERVICES_BY_PHASE if each.field != "memcached"}
    async with operator(cluster, root) as manager:
        await cluster.create(CONTROL_PLANE, "cloud", **off)
        await cluster.ready(CONTROL_PLANE, "cloud")
        assert rest.scale(CACHE, "memcached", 2)[0] == 200
        await shown(rest, 2)
        await at_rest(manager)
        assert rest.scale(CACHE, "memcached")[1]["spec"] == {"replicas": 2}
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/memcached", {"replicas": 3})
        await shown(rest, 3)
        assert rest.scale(CACHE, "memcached", 1)[0] == 200
        await at_rest(manager)
        assert (await shown(rest, 3))["spec"] == {"replicas": 3}
