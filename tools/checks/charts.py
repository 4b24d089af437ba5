"""Charts of the operator, rendered by helm, against the manifests in deploy/ that they are made of."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tools.localcluster.build import KUBERNETES
from tools.operators import build
from tools.operators.crds import definitions, documents

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHARTS = DEPLOY / "charts"
NAMESPACE = "openstack-operator"
_MONITOR = "servicemonitors.monitoring.coreos.com"

Object = dict[str, Any]


class ChartError(Exception):
    """A chart that helm refuses, or whose objects differ from those in deploy/."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """A chart with values, and the objects that it has to contain."""

    name: str
    chart: str = "openstack-operator"
    namespace: str = NAMESPACE
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    expected: tuple[Object, ...] = ()
    """All objects of the chart; empty if its values change too much for a comparison."""


def releases() -> list[Release]:
    """Return the releases that are checked."""
    sample = documents((DEPLOY / "samples" / "controlplane_minimal.yaml").read_text(encoding="utf-8"))
    (cloud,) = (obj for obj in sample if obj["kind"] == "OpenStackControlPlane")
    with_name = {**cloud, "metadata": {"name": "cloud", "namespace": "openstack"}}
    return [
        Release(name="default", expected=tuple(_installed())),
        Release(
            name="extended",
            values={"crds": {"c5c3": True}, "labelsInjector": {"enabled": True}},
            expected=(*_installed(), *_load(["crds-c5c3/*.yaml", "labels-injector.yaml"])),
        ),
        Release(
            name="namespaced",
            values={"watchNamespaces": ["openstack", "test"]},
            expected=tuple(_installed_for(["openstack", "test"])),
        ),
        Release(
            name="everything",
            # Another namespace, which must be that of all objects.
            namespace="operators",
            values=_everything(),
        ),
        Release(
            name="cloud",
            chart="openstack-cloud",
            namespace="openstack",
            values={"spec": cloud["spec"]},
            expected=(with_name,),
        ),
        Release(name="readme", chart="openstack-cloud", namespace="openstack", values=_values_of_readme()),
    ]


def _values_of_readme() -> dict[str, Any]:
    """Return the values of the cloud that README makes with the chart."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    _, _, block = page.partition("<!-- cloud.yaml -->\n```yaml\n")
    return yaml.safe_load(block.partition("```")[0])


def _load(patterns: Iterable[str]) -> Iterator[Object]:
    for pattern in patterns:
        for path in sorted(DEPLOY.glob(pattern)):
            yield from documents(path.read_text(encoding="utf-8"))


def _installed() -> Iterator[Object]:
    """Yield the objects of `kubectl apply -k deploy` without the namespace, which `--create-namespace` makes."""
    (kustomization,) = _load(["kustomization.yaml"])
    yield from (obj for obj in _load(kustomization["resources"]) if obj["kind"] != "Namespace")


def _installed_for(namespaces: Sequence[str]) -> Iterator[Object]:
    """Yield the objects of an operator for these namespaces (docs/how-to/grant-fewer-rights.md)."""
    everywhere = ["crds/*.yaml", "namespaced/rbac.yaml", "roles.yaml", "admission.yaml", "operator.yaml"]
    for obj in _load(everywhere):
        if obj["kind"] == "Deployment":
            obj["spec"]["template"]["spec"]["containers"][0]["args"] += [f"--namespace={name}" for name in namespaces]
        if obj["kind"] != "Namespace":
            yield obj
    for obj in _load(["namespaced/rbac-of-namespace.yaml", "namespaced/optional-roles/*.yaml"]):
        for name in namespaces:
            yield {**obj, "metadata": {**obj["metadata"], "namespace": name}}


def _everything() -> Object:
    """Return values that turn on all that is off by default, and set the rest."""
    image = {"repository": "registry.example.org/operator", "tag": "1f2e", "digest": f"sha256:{'0' * 64}"}
    monitor = {"enabled": True, "labels": {"release": "prometheus"}, "interval": "30s", "scrapeTimeout": "10s"}
    prometheus = {"name": "prometheus-k8s", "namespace": "monitoring"}
    return {
        "replicaCount": 3,
        "image": {**image, "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry-login"}],
        "releases": {"2025.1.yaml": "images: {}\n"},
        "optionalRoles": {"rook": False},
        "crds": {"c5c3": True},
        "labelsInjector": {"enabled": True},
        "metrics": {"readers": [prometheus], "certificateSecretName": "metrics-tls", "serviceMonitor": monitor},
        "dashboards": {"enabled": True, "annotations": {"grafana_folder": "OpenStack"}},
        "networkPolicy": {"apiServerPorts": [443, 7443]},
        "logging": {"level": "debug", "format": "console"},
        "extraArgs": ["--cluster-domain=cluster.example"],
        "extraEnv": [{"name": "OPERATOR_BUILD", "value": "3d4c"}],
        "resources": {"limits": {"memory": "1Gi"}},
        "nodeSelector": {"openstack-control-plane": "enabled"},
        "tolerations": [{"key": "control-plane", "operator": "Exists"}],
        "priorityClassName": "cluster-services",
        "podAnnotations": {"example.org/team": "cloud"},
        "podLabels": {"example.org/team": "cloud"},
    }


def lint() -> None:
    """Raise ChartError for a chart in which helm finds a fault."""
    _helm("lint", "--strict", "--quiet", f"--kube-version={KUBERNETES}", *map(str, _charts()))


def _charts() -> list[Path]:
    return sorted(path.parent for path in CHARTS.glob("*/Chart.yaml"))


def render(release: Release) -> str:
    """Return the objects that helm makes of a release. Raises ChartError."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as values:
        yaml.safe_dump(dict(release.values), values)
        values.flush()
        where = (f"--namespace={release.namespace}", f"--kube-version={KUBERNETES}", f"--values={values.name}")
        return _helm("template", release.name, str(CHARTS / release.chart), *where)


def _helm(*arguments: str) -> str:
    result = subprocess.run([str(build.helm()), *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        # Helm reports the links to the definitions, too.
        lines = [line for line in result.stderr.splitlines() if "symbolic link" not in line]
        raise ChartError(f"helm {arguments[0]} failed:\n" + "\n".join([*lines, result.stdout[-2000:]]))
    return result.stdout


def check(release: Release, text: str) -> list[str]:
    """Return what is wrong with the rendered objects of a release."""
    objects = documents(text)
    elsewhere = [
        _id(obj)
        for obj in objects
        if release.namespace != NAMESPACE
        and (obj["metadata"].get("namespace") == NAMESPACE or f"serviceaccount:{NAMESPACE}:" in json.dumps(obj))
    ]
    unkept = [
        _id(obj)
        for obj in objects
        if obj["kind"] == "CustomResourceDefinition"
        and obj["metadata"].get("annotations", {}).get("helm.sh/resource-policy") != "keep"
    ]
    return [
        *(f"{name} is not in the namespace of the release" for name in elsewhere),
        *(f"{name} is deleted with the release" for name in unkept),
        *(differences(objects, release.expected) if release.expected else ()),
    ]


def differences(objects: Iterable[Object], expected: Iterable[Object]) -> list[str]:
    """Return how the objects of a chart differ from the expected ones, but for what helm adds."""
    in_chart, in_deploy = ({_id(obj): _comparable(obj) for obj in each} for each in (objects, expected))
    lines = [f"{name} is missing" for name in in_deploy.keys() - in_chart.keys()]
    lines += [f"{name} is not in deploy/" for name in in_chart.keys() - in_deploy.keys()]
    for name in in_deploy.keys() & in_chart.keys():
        lines += [f"{name}: {difference}" for difference in _unequal(in_chart[name], in_deploy[name], "")]
    return sorted(lines)


def _id(obj: Object) -> str:
    metadata = obj["metadata"]
    return f"{obj['kind']} {metadata.get('namespace', '')}/{metadata['name']}"


def _comparable(obj: Object) -> Object:
    """Return an object without what is the user's own choice, and with its rules in one order."""
    copy = deepcopy(obj)
    annotations = copy["metadata"].pop("annotations", {})
    if own_annotations := {name: value for name, value in annotations.items() if name != "helm.sh/resource-policy"}:
        copy["metadata"]["annotations"] = own_annotations
    if "rules" in copy and copy["kind"].endswith("Role"):
        copy["rules"] = sorted(_rules(copy["rules"]))
    for container in copy.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
        container["image"] = ""
    return copy


def _rules(rules: Iterable[Object]) -> Iterator[str]:
    for rule in rules:
        for group in rule.get("apiGroups", [""]):
            for resource in rule.get("resources") or rule["nonResourceURLs"]:
                yield f"{resource}.{group} {sorted(rule['verbs'])} {rule.get('resourceNames', '')}"


def _unequal(value: Any, expected: Any, path: str) -> Iterator[str]:
    """Yield the fields that differ. Labels of an object may be more than expected."""
    if isinstance(value, dict) and isinstance(expected, dict):
        for name in sorted(value.keys() | expected.keys()):
            if path == ".metadata" and name == "labels":
                if lacking := expected.get(name, {}).items() - value.get(name, {}).items():
                    yield f"lacks the labels {dict(lacking)}"
            else:
                yield from _unequal(value.get(name), expected.get(name), f"{path}.{name}")
    elif value != expected:
        yield f"{path} is {str(value)[:200]}, not {str(expected)[:200]}"


def foreign_definitions(folder: Path) -> Path:
    """Return a file in the folder with the definition of the kind of another operator that the chart uses."""
    path = folder / "servicemonitors.yaml"
    path.write_text(json.dumps(definitions("prometheus-operator", only=[_MONITOR])[0]), encoding="utf-8")
    return path
