"""The operator killed again and again in an upgrade to another release: the cloud comes out the same."""

from __future__ import annotations

from typing import Any

from openstack_operator.services.controlplane.model import CONTROL_PLANE

from .crashing_operator import (
    MINIMAL,
    NO_CRASH,
    Cloud,
    changed_secrets,
    cloud,
    crash_points,
    crash_repeatedly,
    differences,
)
from .harness import Cluster, eventually

OLD, NEW = "2025.1", "2026.1"
MOST = 20
"""Crash points at most: each takes a deployment and an upgrade."""


async def deploy(found: Cloud) -> None:
    """The cloud is Ready with the old release."""
    await found.cluster.change(CONTROL_PLANE, "cloud", "/spec/release", OLD)
    assert await found.life(NO_CRASH)
    found.writes = 0


async def order(found: Cloud, release: str) -> None:
    await found.cluster.change(CONTROL_PLANE, "cloud", "/spec/release", release)


def releases(objects: dict[str, Any]) -> set[str]:
    """Return the releases of the resources, as their status says."""
    return {live["status"]["release"] for live in objects.values() if live["status"].get("release")}


async def undisturbed(cluster: Cluster) -> tuple[int, dict[str, Any], set[tuple[str, str]]]:
    """Return the writes of an upgrade in which nothing happens, the objects after it, and the keys of Secrets that it
    changes.
    """
    async with cloud(cluster, "calm", MINIMAL) as calm:
        await deploy(calm)
        assert releases(await calm.objects()) == {OLD}
        await order(calm, NEW)
        assert await calm.life(NO_CRASH)
        objects = await calm.objects()
        assert releases(objects) == {NEW}
        return calm.writes, objects, set(changed_secrets(calm))


async def test_killed_again_and_again(cluster: Cluster) -> None:
    """Each life makes some more writes, and dies before it hears the answer to the last."""
    calm_writes, expected, changed = await undisturbed(cluster)
    async with cloud(cluster, "chain", MINIMAL) as chain:
        await deploy(chain)
        await order(chain, NEW)
        lives = await crash_repeatedly(chain, calm_writes)
        assert differences(await chain.objects(), expected) == []
        assert set(changed_secrets(chain)) <= changed
    print(f"{calm_writes} writes undisturbed; {chain.writes} in {lives} lives")


async def test_killed_once_at_any_write(cluster: Cluster) -> None:
    """A deployment for each crash point: one life of the upgrade that ends there, and one that finds what it left."""
    checks = 0
    calm_writes, expected, changed = await undisturbed(cluster)
    for point in crash_points(calm_writes, MOST):
        async with cloud(cluster, f"at-{point}", MINIMAL) as crashed:
            await deploy(crashed)
            await order(crashed, NEW)
            await crashed.life(point)
            checks += 1
            assert await crashed.life(NO_CRASH)
            assert differences(await crashed.objects(), expected) == [], f"killed after write {point}"
            assert set(changed_secrets(crashed)) <= changed
        await eventually(crashed.is_removed)
    assert checks


async def test_killed_and_taken_back(cluster: Cluster) -> None:
    """At each crash point, the cloud goes back to the release that ran, and is what it was."""
    checks = 0
    calm_writes, _, _ = await undisturbed(cluster)
    for point in crash_points(calm_writes // 2, MOST):
        async with cloud(cluster, f"back-{point}", MINIMAL) as crashed:
            await deploy(crashed)
            before = await crashed.objects()
            await order(crashed, NEW)
            await crashed.life(point)
            await order(crashed, OLD)
            checks += 1
            assert await crashed.life(NO_CRASH)
            assert differences(await crashed.objects(), before) == [], f"killed after write {point}"
        await eventually(crashed.is_removed)
    assert checks
