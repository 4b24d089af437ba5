"""Manifests that install the operator with images of a registry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from openstack_operator.manifests import dump_all, load
from openstack_operator.plan import Object

NAMESPACE = "openstack-operator"
RELEASES = "openstack-operator-releases"
"""The ConfigMap with release files, which the operator mounts if it exists."""
_FIRST = ("Namespace", "CustomResourceDefinition")


def install(deploy: Path, image: str, releases: Mapping[str, str]) -> str:
    """Return everything of `deploy/kustomization.yaml` in one file, with that image of the operator and these release
    files, in an order in which `kubectl apply` takes it.
    """
    paths: list[str] = yaml.safe_load((deploy / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    objects = [obj for path in paths for obj in load(deploy / path)]
    objects.append(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": RELEASES, "namespace": NAMESPACE},
            "data": dict(releases),
        }
    )
    return dump_all(in_order(with_image(obj, image) for obj in objects))


def in_order(objects: Iterable[Object]) -> list[Object]:
    """Return namespaces and definitions first, and what runs pods last: pods would wait for what they mount."""
    return sorted(objects, key=lambda obj: (obj["kind"] == "Deployment", obj["kind"] not in _FIRST))


def with_image(obj: Object, image: str) -> Object:
    """Return a Deployment of the operator with that image; other objects as they are."""
    if obj["kind"] != "Deployment":
        return obj
    template: Object = obj["spec"]["template"]
    containers = [
        {**container, "image": image, "imagePullPolicy": "IfNotPresent"} for container in template["spec"]["containers"]
    ]
    pod = {**template["spec"], "containers": containers}
    return {**obj, "spec": {**obj["spec"], "template": {**template, "spec": pod}}}


def chart_values(values: str, image: str, releases: Mapping[str, str]) -> str:
    """Return the values of the operator's chart with that image by digest, and these release files. Raises LookupError
    if the values have no place for them.
    """
    repository, _, digest = image.partition("@")
    name = repository.rpartition(":")[0] if ":" in repository.rpartition("/")[2] else repository
    data: Any = yaml.safe_dump({"releases": dict(releases)}, default_style="|", sort_keys=False)
    for old, new in (
        ("  repository: openstack-operator\n", f"  repository: {name}\n"),
        ("  digest: ''\n", f"  digest: {digest}\n"),
        ("releases: {}\n", cast("str", data)),
    ):
        if values.count(old) != 1:
            raise LookupError(f"the values of the chart have no line {old.strip()!r}")
        values = values.replace(old, new)
    return values
