"""What is generated is committed as the models say it now."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.catalogue import RESOURCES
from openstack_operator.generate import generated, rendered, stale, write
from openstack_operator.manifests import load
from openstack_operator.plan.steps import WORKLOADS
from openstack_operator.render import Planned
from openstack_operator.runtime.kinds import CHILDREN


@pytest.fixture(scope="module")
def files() -> dict[Path, str]:
    return generated(Path(__file__).parent.parent.parent)


@pytest.fixture(scope="module")
def plans(root: Path) -> list[Planned]:
    return rendered(root)


def test_generated_files_are_current(root: Path, files: dict[Path, str]) -> None:
    assert stale(root, files) == [], "run `make generate` and commit what it writes"


def test_generation_is_deterministic(root: Path) -> None:
    """Another process orders sets in another way."""
    command = [sys.executable, "-m", "openstack_operator.cli", "generate", "--check"]
    done = subprocess.run(command, cwd=root, env={**os.environ, "PYTHONHASHSEED": "1"}, check=False)
    assert done.returncode == 0


def test_writing_mends_what_is_stale_and_removes_what_no_model_makes(tmp_path: Path, files: dict[Path, str]) -> None:
    write(tmp_path, files)
    changed, gone = tmp_path / "deploy/rbac.yaml", tmp_path / "deploy/crds/gone.yaml"
    changed.write_text("changed")
    gone.write_text("made of a model that is gone")
    assert write(tmp_path, files) == [Path("deploy/crds/gone.yaml"), Path("deploy/rbac.yaml")]
    assert not gone.exists()
    assert stale(tmp_path, files) == []


def role(root: Path, kind: str) -> list[dict[str, Any]]:
    return next(obj["rules"] for obj in load(root / "deploy" / "rbac.yaml") if obj["kind"] == kind)


def test_permissions_name_everything(root: Path) -> None:
    for rule in role(root, "ClusterRole") + role(root, "Role"):
        assert "*" not in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])


def test_permissions_are_no_way_to_more_of_them(root: Path) -> None:
    risky = {"pods/exec", "pods/attach", "pods/portforward", "serviceaccounts/token", "clusterroles"}
    for rule in role(root, "ClusterRole"):
        # Whoever may write them decides where pods run.
        assert "nodes" not in rule["resources"] or set(rule["verbs"]) == {"get", "list", "watch"}
        assert not risky & set(rule["resources"])
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
        assert rule["apiGroups"] != ["rbac.authorization.k8s.io"]


def test_nothing_is_watched_that_no_service_makes(plans: list[Planned]) -> None:
    made = {obj["kind"] for planned in plans for obj in planned.objects}
    assert {kind.kind for kind in CHILDREN} <= made


def test_pods_bear_their_version_and_no_selector_does(plans: list[Planned]) -> None:
    """Selectors cannot change: one with a version would keep a new release out."""
    objects = [obj for planned in plans for obj in planned.objects]
    templates = [obj["spec"]["template"] for obj in objects if obj["kind"] in WORKLOADS]
    assert all(template["metadata"]["labels"].get(kube.NAME) for template in templates)
    assert all(template["metadata"]["labels"].get(kube.VERSION) for template in templates)
    assert not [labels for obj in objects for labels in selectors(obj.get("spec")) if kube.VERSION in labels]


def selectors(node: Any) -> Iterator[dict[str, Any]]:
    """Every choice by labels at any depth of an object's spec."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name in {"matchLabels", "selector", "nodeSelector"} and isinstance(value, dict):
                yield value
            yield from selectors(value)
    elif isinstance(node, list):
        for value in node:
            yield from selectors(value)


def test_everything_that_is_watched_may_be_watched(root: Path) -> None:
    granted = {
        (group, resource)
        for rule in role(root, "ClusterRole")
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if {"get", "list", "watch"} <= set(rule["verbs"])
    }
    assert {(kind.group, kind.plural) for kind in CHILDREN} <= granted
    assert {(resource.group, resource.plural) for resource in RESOURCES} <= granted


def test_the_operator_stands_by(root: Path) -> None:
    found = {obj["kind"]: obj for obj in load(root / "deploy" / "operator.yaml")}
    spec = found["Deployment"]["spec"]
    assert spec["replicas"] == 2
    assert "--leader-elect" in spec["template"]["spec"]["containers"][0]["args"]
    assert found["PodDisruptionBudget"]["spec"]["selector"] == spec["selector"]


def test_the_operator_is_confined(root: Path) -> None:
    deployment = next(obj for obj in load(root / "deploy" / "operator.yaml") if obj["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)
    assert container["resources"]["requests"]["memory"] == "160Mi"


def test_the_reference_shows_what_is_in_a_status(files: dict[Path, str]) -> None:
    status = {kind: files[Path(f"docs/reference/{kind}.md")].partition("## status")[2] for kind in ("nova", "pki")}
    assert "| `cells[].name` | string | " in status["nova"]
    for page in status.values():
        assert "| `conditions[].lastTransitionTime` | string | When its status last changed. |" in page
