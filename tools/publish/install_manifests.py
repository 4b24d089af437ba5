"""Manifests that install the operator with images of a registry."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from openstack_operator import __version__
from openstack_operator.kube import VERSION
from openstack_operator.plan import Object
from openstack_operator.yaml_text import dump, dump_all, load

NAMESPACE = "openstack-operator"
RELEASES = "openstack-operator-releases"
"""The ConfigMap with release files, which the operator mounts if it exists."""
PULL_SECRET = "registry-login"
"""The Secret with the login, in the overlay for a registry that asks for one."""
_NONE = {
    "target": {"kind": "CustomResourceDefinition"},
    "patch": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: each\n"
    "$patch: delete\n",
}
_FIRST = ("Namespace", "CustomResourceDefinition")


def install(deploy: Path, image: str, releases: Mapping[str, str]) -> str:
    """Return everything of `deploy/kustomization.yaml` in one file, with that image of the operator and these release
    files, in an order in which `kubectl apply` takes it.
    """
    paths: list[str] = yaml.safe_load((deploy / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    objects = [obj for path in paths for obj in load(deploy / path)]
    objects.append(release_files(releases))
    return dump_all(in_order(with_image(obj, image) for obj in objects))


def release_files(releases: Mapping[str, str]) -> Object:
    """Return the ConfigMap with release files."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": RELEASES, "namespace": NAMESPACE},
        "data": dict(releases),
    }


def kustomizations(text: str, extra: Mapping[str, str]) -> dict[str, str]:
    """Return a base of kustomize with the text of install.yaml, and overlays, by path: one for a registry that asks for
    a login, one with `extra` definitions, by the names of their files, and one to delete the operator and no cloud.
    """
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    # Namespaces and definitions first, what runs pods last.
    base = {**head, "sortOptions": {"order": "legacy"}, "resources": ["install.yaml"]}
    overlay = {**head, "resources": ["../../base"]}
    secret = [{"op": "add", "path": "/imagePullSecrets", "value": [{"name": PULL_SECRET}]}]
    patch = {"target": {"kind": "ServiceAccount", "name": NAMESPACE}, "patch": dump(secret)}
    files = {
        "base/kustomization.yaml": dump(base),
        "overlays/with-login/kustomization.yaml": dump({**overlay, "patches": [patch]}),
        "overlays/without-definitions/kustomization.yaml": dump({**overlay, "patches": [_NONE]}),
        "overlays/c5c3/kustomization.yaml": dump({**head, "resources": ["../../base", *sorted(extra)]}),
    }
    contents = {"base/install.yaml": text, **{f"overlays/c5c3/{name}": content for name, content in extra.items()}}
    return {f"kustomize/{path}": content for path, content in (files | contents).items()}


def version(text: str) -> str:
    """Return a version. Raises ArgumentTypeError for a text that is none, as charts and bundles need it."""
    if not re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no version; write one such as 1.2.3 or 1.2.3-team.1")
    return text


def renumbered(text: str, number: str) -> str:
    """Return a text with that version in place of the one of this checkout."""
    return re.sub(rf"(?<![\d.]){re.escape(__version__)}(?![\d.])", number, text)


def relabeled(text: str, number: str) -> str:
    """Return manifests with that version in the labels of the operator's pods."""
    return re.sub(rf"^( *{re.escape(VERSION)}: ).*", rf"\g<1>{number}", text, flags=re.MULTILINE)


def of_version(path: str, text: str, number: str) -> str:
    """Return a file of a chart with that version."""
    if path.rpartition("/")[2] == "Chart.yaml":
        return renumbered(text, number)
    return relabeled(text, number) if path.startswith("templates/") else text


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
