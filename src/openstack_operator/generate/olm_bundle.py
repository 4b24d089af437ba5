"""The bundle for the Operator Lifecycle Manager (OLM), of the same objects as deploy/."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from .. import __version__
from ..admission.policy_names import OPERATOR
from ..api import Resource, crd
from ..kube import Object
from ..planned import Planned
from ..registry import RESOURCES
from ..yaml_text import dump
from .deployment import deployment
from .permissions import Rules, namespaced_permissions, optional_permissions
from .roles import user_roles

FOLDER = Path("deploy/bundle")
CSV = FOLDER / "manifests" / f"{OPERATOR}.clusterserviceversion.yaml"
"""The ClusterServiceVersion: OLM makes the Deployment, the account and its permissions of it."""
_MINIMUM = "1.31.0"
_CHANNEL = "alpha"
_TARGETS = "metadata.annotations['olm.targetNamespaces']"
"""The namespaces of the OperatorGroup, which OLM writes to pods; empty for all of them."""
_SUPPORTED = ("PodDisruptionBudget",)
"""Objects of the Deployment's manifest that OLM installs, too. It knows no policies of admission, and of networks only
in recent versions.
"""
_HEADER = "# Made by `openstack-operator generate`; change the models instead.\n"
_DESCRIPTION = f"""\
Installs, runs and heals OpenStack clouds on Kubernetes: an OpenStackControlPlane becomes databases, message queues,
Keystone, Glance, Placement, Neutron with OVN, Nova, and further services that it enables.

Install it into the namespace `{OPERATOR}`. OLM installs no policies of admission, and old versions of it no
NetworkPolicies: apply `deploy/admission.yaml` of this version before you let others make clouds, since it decides who
may run what on nodes, and the NetworkPolicies of `deploy/operator.yaml`.
"""


def bundle_files(granted: Mapping[str, Rules], examples: Sequence[Object]) -> dict[Path, str]:
    """Return the generated files of the bundle by path, without the definitions, which are in deploy/crds; `granted`
    are the operator's rules by role.
    """
    files = {CSV: service_version(granted, examples), FOLDER / "metadata" / "annotations.yaml": _annotations()}
    # Bundles have one object a file, without its namespace.
    for each in [*(each for each in deployment() if each["kind"] in _SUPPORTED), *user_roles()]:
        metadata = {name: value for name, value in each["metadata"].items() if name != "namespace"}
        name = f"{metadata['name']}.{each['kind'].lower()}.yaml"
        files[FOLDER / "manifests" / name] = {**each, "metadata": metadata}
    return {path: _HEADER + dump(content) for path, content in files.items()}


def _annotations() -> Object:
    prefix = "operators.operatorframework.io.bundle"
    return {
        "annotations": {
            f"{prefix}.mediatype.v1": "registry+v1",
            f"{prefix}.manifests.v1": "manifests/",
            f"{prefix}.metadata.v1": "metadata/",
            f"{prefix}.package.v1": OPERATOR,
            f"{prefix}.channels.v1": _CHANNEL,
            f"{prefix}.channel.default.v1": _CHANNEL,
        }
    }


def service_version(granted: Mapping[str, Rules], examples: Sequence[Object]) -> Object:
    """Return the ClusterServiceVersion. The image is filled in where it is released."""
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": f"{OPERATOR}.v{__version__}",
            # OLM asks for a namespace here, and replaces it.
            "namespace": "placeholder",
            "annotations": {
                "alm-examples": json.dumps(examples, indent=2),
                "capabilities": "Full Lifecycle",
                "categories": "Cloud Provider",
                "containerImage": f"{OPERATOR}:latest",
                "description": "Installs, runs and heals OpenStack clouds on Kubernetes",
                # Each version of the channel replaces all older ones.
                "olm.skipRange": f"<{__version__}",
                "support": "community",
            },
        },
        "spec": {
            "displayName": "OpenStack",
            "description": _DESCRIPTION,
            "version": __version__,
            "maturity": _CHANNEL,
            "minKubeVersion": _MINIMUM,
            "keywords": ["openstack", "cloud", "iaas", "nova", "neutron", "keystone"],
            "provider": {"name": OPERATOR},
            "installModes": [
                {"type": f"{name}Namespace{'s' if name == 'All' else ''}", "supported": True}
                for name in ("Own", "Single", "Multi", "All")
            ],
            "customresourcedefinitions": {"owned": [_owned(each) for each in _resources()]},
            "install": {"strategy": "deployment", "spec": _install(granted)},
        },
    }


def _resources() -> list[Resource[Any]]:
    """Return the kinds that the bundle brings. Those that are installed on request would be installed for all."""
    return [each for each in RESOURCES if not each.on_request]


def _owned(resource: Resource[Any]) -> Object:
    schema = crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return {
        "kind": resource.kind,
        "name": f"{resource.plural}.{resource.group}",
        "version": resource.version,
        "displayName": resource.kind,
        "description": " ".join(schema["description"].split()),
        "statusDescriptors": [
            {
                "path": "conditions",
                "displayName": "Conditions",
                "description": "State of each part; Ready is the sum of them.",
                "x-descriptors": ["urn:alm:descriptor:io.kubernetes.conditions"],
            }
        ],
    }


def _install(granted: Mapping[str, Rules]) -> Object:
    """Return what OLM installs: rules for the namespaces that it serves, rules for the cluster, and the Deployment.
    For an operator of all namespaces, OLM makes ClusterRoles of the first ones.
    """
    once, in_each = namespaced_permissions(granted)
    optional = [obj for objects in optional_permissions(granted, "").values() for obj in objects]
    namespaced = [rule for obj in (*once, *in_each, *optional) if obj["kind"] == "Role" for rule in obj["rules"]]
    everywhere = [rule for obj in once if obj["kind"] == "ClusterRole" for rule in obj["rules"]]
    return {
        "clusterPermissions": [{"serviceAccountName": OPERATOR, "rules": everywhere}],
        "permissions": [{"serviceAccountName": OPERATOR, "rules": namespaced}],
        "deployments": [_deployment()],
    }


def _deployment() -> Object:
    (live,) = (deepcopy(each) for each in deployment() if each["kind"] == "Deployment")
    (container,) = live["spec"]["template"]["spec"]["containers"]
    container["env"].append({"name": "WATCH_NAMESPACES", "valueFrom": {"fieldRef": {"fieldPath": _TARGETS}}})
    return {"name": OPERATOR, "label": live["metadata"]["labels"], "spec": live["spec"]}


def examples_of(manifests: Iterable[Object], plans: Iterable[Planned]) -> list[Object]:
    """Return an example of each kind that there is one of: the first manifest of users, or what a plan makes."""
    planned_objects = (obj for planned in plans for step in planned.plan or () for obj in step.objects)
    kinds = {(each.api_version, each.kind): None for each in _resources()}
    examples: dict[tuple[str, str], Object] = {}
    for obj in (*manifests, *planned_objects):
        kind = (obj["apiVersion"], obj["kind"])
        if kind in kinds and "spec" in obj:
            examples.setdefault(kind, _example(obj))
    return [examples[kind] for kind in kinds if kind in examples]


def _example(obj: Object) -> Object:
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": {"name": obj["metadata"]["name"]},
        "spec": obj["spec"],
    }
