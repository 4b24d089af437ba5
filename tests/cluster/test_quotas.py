"""A ResourceQuota that refuses pods: what the condition advises admits all of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import Object
from openstack_operator.kube.pod_admission import refusal_causes
from openstack_operator.registry import ACTUATORS, EXTERNAL_KINDS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.yaml_text import load

from .harness import Cluster, eventually
from .rest import Rest
from .test_pod_security import pods

HARD = {"limits.cpu": "1k", "limits.memory": "10Ti", "requests.cpu": "1k", "requests.memory": "10Ti"}
"""More than a cloud takes: such a quota refuses each pod with a container that says nothing."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def cloud_pods(root: Path, more: dict[str, Any]) -> list[Object]:
    """A pod of each workload of a cloud that encrypts its connections and serves metrics."""
    *_, manifest = load(root / "deploy" / "samples" / "controlplane_full.yaml")
    manifest["spec"] |= {"monitoring": {"enabled": True}, "imagePrecaching": {"enabled": True}, **more}
    served = [kind.handle for kind in EXTERNAL_KINDS]
    paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(root / "releases"), served=served)
    return pods([obj for planned in paper.render([manifest]) for obj in planned.objects])


def advice(refusal: str) -> str:
    """What the condition of a Deployment says of this answer of the API server."""
    condition = {"type": "ReplicaFailure", "status": "True", "message": refusal, "lastTransitionTime": None}
    workload: Object = {"kind": "Deployment", "metadata": {"name": "api"}, "status": {"conditions": [condition]}}

    def no_warnings(*_: object) -> list[Object]:
        return []

    [cause] = refusal_causes(workload, [], no_warnings, NOW)
    return cause.text


def refused(rest: Rest, wanted: list[Object]) -> dict[str, str]:
    answers = {pod["metadata"]["name"]: rest.create(pod) for pod in wanted}
    assert {status for status, _ in answers.values()} <= {201, 403, 422}, answers
    return {name: str(answer["message"]) for name, (status, answer) in answers.items() if status != 201}


async def limited(rest: Rest) -> None:
    """The namespace has the quota, and it is in force."""
    default = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    assert rest.apply(default)[0] in (200, 201)
    quota: Object = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {"hard": HARD}}
    assert rest.create(quota, dry=False)[0] == 201
    # The controller that counts does not run here.
    assert rest.report(quota, {"hard": HARD, "used": dict.fromkeys(HARD, "0")})[0] == 200
    bare: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare"},
        "spec": {"containers": [{"name": "main", "image": "example.org/a:1"}]},
    }

    async def is_in_force() -> bool:
        return rest.create(bare)[0] == 403

    await eventually(is_in_force)


@pytest.fixture
def rest(kubeconfig: Path, cluster: Cluster) -> Any:
    connection = Rest(kubeconfig, cluster.namespace)
    yield connection
    connection.close()


async def test_the_field_that_the_condition_names_admits_every_pod(rest: Rest, root: Path) -> None:
    await limited(rest)
    without = refused(rest, cloud_pods(root, {}))
    assert without
    [text] = {advice(message) for message in without.values() if "keystone-api" in message} or {""}
    text = text or advice(next(iter(without.values())))
    assert "must specify limits.cpu" in text
    match = re.search(r"spec\.(\w+), such as \{limits: \{cpu: (\w+)\}\}", text)
    assert match, text
    field, cpu = match.groups()
    assert refused(rest, cloud_pods(root, {field: {"limits": {"cpu": cpu}}})) == {}


async def test_cloud_pods_are_admitted_with_a_limit_range_of_defaults(rest: Rest, root: Path) -> None:
    await limited(rest)
    limits = [{"type": "Container", "default": {"cpu": "500m"}}]
    defaults: Object = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "defaults"},
        "spec": {"limits": limits},
    }
    assert rest.create(defaults, dry=False)[0] == 201
    wanted = cloud_pods(root, {})

    async def is_admitted() -> bool:
        return not refused(rest, wanted[:1])

    await eventually(is_admitted)
    assert refused(rest, wanted) == {}
