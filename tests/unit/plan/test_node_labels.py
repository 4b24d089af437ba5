"""Roles of nodes by labels that a kubelet may set of its own node, and by those that it may not."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.cli.render import OfflineCluster
from openstack_operator.cli.settings import add_run_options, permissions
from openstack_operator.plan import Permissions
from openstack_operator.plan.node_labels import CONDITION, PREFIX, ROLES, affinity, as_roles, selector, unused_labels
from openstack_operator.registry import ACTUATORS, EXTERNAL_KINDS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.cache.nodes import read_node
from openstack_operator.runtime.kubernetes.kinds import NODE
from openstack_operator.yaml_text import load

pytestmark = pytest.mark.security

ROOT = Path(__file__).parent.parent.parent.parent
SAMPLES = sorted((ROOT / "deploy" / "samples").glob("controlplane*.yaml"))
COMPUTE = "openstack-compute-node"


def test_names_on_nodes() -> None:
    labels = {COMPUTE: "enabled", "rack": "1"}
    assert selector(labels, "legacy") == labels
    assert selector(labels, "restricted") == {f"{PREFIX}{COMPUTE}": "enabled", "rack": "1"}


def test_affinities_name_the_same_labels() -> None:
    def given(key: str) -> dict[str, Any]:
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["a"]}]}
        rules = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}],
        }
        pods = {"labelSelector": {"matchExpressions": [{"key": "openstack-cell", "operator": "Exists"}]}}
        return {"nodeAffinity": rules, "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [pods]}}

    assert affinity(given("openstack-cell"), "restricted") == given(f"{PREFIX}openstack-cell")
    assert affinity(given("rack"), "restricted") == given("rack")
    assert affinity(given("openstack-cell"), "legacy") == given("openstack-cell")
    assert affinity(None, "restricted") is None


def test_a_label_that_a_kubelet_may_set_is_no_role() -> None:
    labels = {COMPUTE: "enabled", "openvswitch": "enabled", f"{PREFIX}openvswitch": "enabled", "rack": "1"}
    roles = as_roles(labels, "restricted")
    assert COMPUTE not in roles
    assert roles["openvswitch"] == "enabled"
    assert roles["rack"] == "1"
    assert as_roles(labels, "legacy") == labels
    message = unused_labels({"node0": roles, "node1": {}})[CONDITION].message
    assert "openstack-compute-node of node0" in message
    assert PREFIX in message
    assert unused_labels({"node0": as_roles({f"{PREFIX}{COMPUTE}": "enabled"}, "restricted")}) == {}


def test_nodes_are_read_with_their_roles() -> None:
    metadata = {"name": "n", "uid": "u", "resourceVersion": "1", "labels": {COMPUTE: "enabled"}}
    item = json.dumps({"metadata": metadata, "spec": {}}).encode()
    assert read_node(item, NODE).meta.labels == {COMPUTE: "enabled"}
    assert COMPUTE not in read_node(item, NODE, node_labels="restricted").meta.labels


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_no_pod_of_a_cloud_goes_by_labels_of_a_kubelet(path: Path) -> None:
    """Wherever a plan names the label of a role for pods, it is one that no kubelet may set."""
    served = [kind.handle for kind in EXTERNAL_KINDS]
    releases = ReleaseFiles(ROOT / "releases")
    paper = OfflineCluster(
        SERVICES, ACTUATORS, releases, served=served, permissions=Permissions(node_labels="restricted")
    )
    chosen: set[str] = set()
    for planned in paper.render(load(path)):
        for obj in planned.objects:
            if not obj["apiVersion"].startswith("openstack.k8s.io/"):
                chosen |= set(labels_of_nodes(obj))
    assert f"{PREFIX}openstack-control-plane" in chosen
    assert not chosen & ROLES


def labels_of_nodes(node: Any, *, of_nodes: bool = False) -> list[str]:
    """Names of labels by which pods choose nodes."""
    if isinstance(node, list):
        return [name for item in node for name in labels_of_nodes(item, of_nodes=of_nodes)]
    if not isinstance(node, dict):
        return []
    names = list(node.get("nodeSelector") or {})
    if of_nodes and "key" in node:
        names.append(node["key"])
    return [
        *names,
        *(
            name
            for key, value in node.items()
            for name in labels_of_nodes(value, of_nodes=of_nodes or key == "nodeAffinity")
        ),
    ]


def test_a_command_line_chooses() -> None:
    parser = ArgumentParser()
    add_run_options(parser, {})
    assert permissions(parser.parse_args([])).node_labels == "legacy"
    assert permissions(parser.parse_args(["--node-labels", "restricted"])).node_labels == "restricted"
    parser = ArgumentParser()
    add_run_options(parser, {"NODE_LABELS": "restricted"})
    assert permissions(parser.parse_args([])).node_labels == "restricted"
