"""Manifests that were written before there was an operator for them, applied as they stand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import Object
from openstack_operator.registry import ACTUATORS, RESOURCES, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.yaml_text import load
from tests.cluster.harness import Cluster
from tests.cluster.rest import Rest
from tests.fields import KINDS, wanted, written

SEEDS = Path(os.environ.get("SEEDS", ""))
"""They are no part of this project: `make test-seeds SEEDS=…` names their folder."""
OURS = {(resource.api_version, resource.kind) for resource in RESOURCES}


def ours() -> list[Object]:
    found = [obj for path in sorted(SEEDS.glob("*.yaml")) for obj in load(path)]
    return [obj for obj in found if (obj["apiVersion"], obj["kind"]) in OURS]


if not list(SEEDS.glob("*.yaml")):
    pytest.skip("name a folder of manifests: make test-seeds SEEDS=…", allow_module_level=True)


@pytest.fixture
def rest(kubeconfig: Path, cluster: Cluster) -> Iterator[Rest]:
    connection = Rest(kubeconfig, cluster.namespace)
    yield connection
    connection.close()


def named(obj: Object) -> str:
    return f"{obj['kind']}.{obj['apiVersion'].partition('/')[0]}"


@pytest.mark.parametrize("obj", ours(), ids=named)
def test_a_manifest_is_taken_as_it_stands(rest: Rest, root: Path, obj: Object) -> None:
    """What it says of a status is the server's to say, and left out by whoever applies it with kubectl."""
    metadata = {**obj["metadata"], "namespace": rest.namespace}
    # Kubernetes takes none without a uid, which nobody can know beforehand: it is the operator that writes them.
    metadata.pop("ownerReferences", None)
    wanted = {**obj, "metadata": metadata}
    status, answer = rest.create(wanted)
    assert status == 201, answer["message"]
    # As far as it can be told without the Secrets it names.
    OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(root / "releases"), password="drawn").context(obj)


@pytest.mark.parametrize("obj", ours(), ids=named)
def test_each_field_of_a_manifest_has_its_proof(obj: Object) -> None:
    """In docs/api/c5c3.md, which a test of its own keeps complete."""
    assert obj["kind"] in KINDS
    assert not set(written(obj)) - set(wanted(obj["kind"]))


def test_all_kinds_of_theirs_are_served() -> None:
    found = [obj for path in SEEDS.glob("*.yaml") for obj in load(path)]
    # The memcached-operator's group ends like theirs.
    theirs = [obj for obj in found if "c5c3.io/" in obj["apiVersion"] and "memcached." not in obj["apiVersion"]]
    missing = {obj["kind"] for obj in theirs if (obj["apiVersion"], obj["kind"]) not in OURS}
    assert not missing
