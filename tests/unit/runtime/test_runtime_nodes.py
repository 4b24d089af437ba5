"""What the operator keeps of Nodes, and which of their changes matter."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openstack_operator.plan import Node
from openstack_operator.runtime.cache.entries import Cached, Change
from openstack_operator.runtime.cache.nodes import Nodes, has_changed, read_node
from openstack_operator.runtime.cache.store import Store
from openstack_operator.runtime.kubernetes.kinds import NODE

LABELS = {"openstack-compute-node": "enabled"}


def node(*taints: str, version: int = 1, **spec: Any) -> Cached:
    if taints:
        spec["taints"] = [{"key": key, "effect": "NoExecute"} for key in taints]
    metadata: dict[str, Any] = {
        "name": "node0",
        "uid": "u",
        "resourceVersion": str(version),
        "labels": LABELS,
        "annotations": {"a": "b"},
    }
    images = [{"names": [f"image{number}"], "sizeBytes": number} for number in range(50)]
    return read_node(json.dumps({"metadata": metadata, "spec": spec, "status": {"images": images}}).encode(), NODE)


@pytest.mark.parametrize(
    ("taints", "is_away"),
    [
        ((), False),
        (("node.kubernetes.io/unreachable",), True),
        (("dedicated", "node.kubernetes.io/not-ready"), True),
        (("node.kubernetes.io/memory-pressure",), False),
    ],
)
def test_a_node_is_away_if_kubernetes_says_so(taints: tuple[str, ...], *, is_away: bool) -> None:
    store = Store(NODE, lambda _: None)
    store.put(node(*taints))
    assert dict(Nodes(store)) == {"node0": Node("u", LABELS, is_away=is_away)}


def test_little_is_kept_of_a_node() -> None:
    entry = node(taints=None)
    assert (len(entry.raw), entry.meta.annotations) == (16, {})


def test_heartbeats_of_a_kubelet_are_no_change() -> None:
    assert not has_changed(Change(NODE, node(), node("other", version=2)))
    assert has_changed(Change(NODE, node(), node("node.kubernetes.io/unreachable", version=2)))
    assert has_changed(Change(NODE, None, node()))
