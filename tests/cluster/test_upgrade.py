"""A whole cloud goes to another release of OpenStack on a real API server; its workloads and jobs finish at once."""

from __future__ import annotations

from pathlib import Path

from openstack_operator.kube import conditions
from openstack_operator.services.controlplane.model import CONTROL_PLANE

from .harness import Cluster
from .test_controlplane import RESOURCE, operator

OLD, NEW = "2025.1", "2026.1"
SERVICES = ("Keystone", "Glance", "Placement", "Neutron", "Nova")


async def releases(cluster: Cluster) -> set[str]:
    """Return the releases that run completely in the services."""
    lives = [await cluster.get(RESOURCE[kind], kind.lower()) or {} for kind in SERVICES]
    return {live["status"]["release"] for live in lives}


async def test_a_cloud_is_upgraded_and_may_hold_its_last_steps(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "cloud", release=OLD)
        await cluster.ready(CONTROL_PLANE, "cloud")
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/upgrade", {"complete": False})
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/release", NEW)
        await cluster.ready(CONTROL_PLANE, "cloud", "Held")
        # Those that use others do not wait for them.
        for kind in SERVICES:
            by_type = conditions(await cluster.get(RESOURCE[kind], kind.lower()) or {})
            assert {each["reason"] for each in by_type.values() if each["status"] == "False"} == {"Held"}
        assert await releases(cluster) == {OLD}
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/upgrade", {})
        await cluster.ready(CONTROL_PLANE, "cloud")
        assert await releases(cluster) == {NEW}
        assert (await cluster.get(CONTROL_PLANE, "cloud") or {})["status"]["release"] == NEW
