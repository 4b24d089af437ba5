"""Pod Security of the samples: namespaces allow what their pods need, and no more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import Object
from openstack_operator.registry import ACTUATORS, EXTERNAL_KINDS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.yaml_text import load

from .harness import Cluster, eventually
from .rest import Rest

pytestmark = pytest.mark.security

SAMPLES = ("minimal", "ha", "ceph", "providers", "two")
ENFORCE = "pod-security.kubernetes.io/enforce"


def pods(objects: list[Object]) -> list[Object]:
    """A pod of each workload."""
    found: list[Object] = []
    for obj in objects:
        template = obj.get("spec", {}).get("jobTemplate", obj).get("spec", {}).get("template")
        if template and obj["kind"] in {"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"}:
            claims = obj["spec"].get("volumeClaimTemplates", ())
            volumes = [{"name": claim["metadata"]["name"], "emptyDir": {}} for claim in claims]
            spec = {**template["spec"], "volumes": [*template["spec"].get("volumes", ()), *volumes]}
            name = f"{obj['metadata']['name']}-pod"
            found.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    return found


@pytest.mark.parametrize("sample", SAMPLES)
async def test_a_samples_namespace_allows_what_its_pods_need(
    kubeconfig: Path, cluster: Cluster, root: Path, sample: str
) -> None:
    manifests = load(root / "deploy" / "samples" / f"controlplane_{sample}.yaml")
    (level,) = (obj["metadata"]["labels"][ENFORCE] for obj in manifests if obj["kind"] == "Namespace")
    paper = OfflineCluster(
        SERVICES, ACTUATORS, ReleaseFiles(root / "releases"), served=[kind.handle for kind in EXTERNAL_KINDS]
    )
    wanted = pods([obj for planned in paper.render(manifests) for obj in planned.objects])
    rest = Rest(kubeconfig, cluster.namespace)

    label = {"name": cluster.namespace, "labels": {ENFORCE: "restricted"}}
    assert rest.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": label})[0] == 200

    # The controller that makes it does not run here.
    default = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    assert rest.apply(default)[0] in (200, 201)

    async def is_in_force() -> bool:
        on_host = {**wanted[0], "spec": {**wanted[0]["spec"], "hostPID": True}}
        return rest.create(on_host)[0] == 403

    await eventually(is_in_force)
    answers = [rest.create(pod) for pod in wanted]
    rest.close()
    assert {status for status, _ in answers} <= {201, 403}, answers
    refused = {
        pod["metadata"]["name"].removesuffix("-pod"): answer["message"]
        for pod, (status, answer) in zip(wanted, answers, strict=True)
        if status == 403
    }
    assert [message for message in refused.values() if "violates PodSecurity" not in message] == []
    assert (level == "privileged") == bool(refused), refused
    agents = node_agents((root / "docs" / "explanation" / "security.md").read_text())
    assert [name for name in refused if not agents.fullmatch(name)] == []


def node_agents(page: str) -> re.Pattern[str]:
    """Names of the pods of which the documentation says that they are root on nodes."""
    line = next(line for line in page.splitlines() if line.startswith("Their pods are those of `"))
    names = re.findall(r"`([-A-Za-z]+)`", line.partition(". ")[0])
    assert "nova-libvirt" in names
    return re.compile("|".join(re.sub("[A-Z]+", "[a-z0-9-]+", name) for name in names))
