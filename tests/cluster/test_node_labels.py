"""Labels that a kubelet may set of its own node, as a real API server with NodeRestriction says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.kubeconfig import connection
from openstack_operator.plan.node_labels import PREFIX, ROLES
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.errors import Forbidden, NotAdmitted
from openstack_operator.runtime.kubernetes.kinds import NODE

from .harness import TIMEOUT, Cluster

pytestmark = pytest.mark.security


async def test_a_kubelet_gives_its_node_no_restricted_role(kubeconfig: Path, cluster: Cluster) -> None:
    name = f"kubelet-{cluster.namespace}"
    metadata = {"name": name, "namespace": None, "labels": {"a": "b"}}
    await cluster.client.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    way = connection(files=[kubeconfig])
    headers = (("Impersonate-User", f"system:node:{name}"), ("Impersonate-Group", "system:nodes"))
    kubelet = Client.over(replace(way, headers=(*way.headers, *headers)), timeout=TIMEOUT)
    try:
        for role in sorted(ROLES):
            # That it may set these is why they are called legacy.
            await kubelet.patch(NODE, None, name, labels(role), manager="kubelet")
            with pytest.raises((Forbidden, NotAdmitted)):
                await kubelet.patch(NODE, None, name, labels(f"{PREFIX}{role}"), manager="kubelet")
    finally:
        await kubelet.close()


def labels(name: str) -> dict[str, Any]:
    return {"metadata": {"labels": {name: "enabled"}}}
