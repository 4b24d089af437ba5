"""Operators come into a cluster, and go."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from images import catalog as images
from openstack_operator import pki
from openstack_operator.kube import secret_data
from tools.localcluster import build as binaries
from tools.localcluster.kubernetes import KubeError, Kubernetes, module, run

from . import build, charts, operator_manifests
from .catalog import BY_NAME, Chart, Operator
from .crds import definitions, documents
from .modules import folders

_OBJECTS = Path(__file__).parent / "objects"

Object = dict[str, Any]


def install(cluster: Kubernetes, operators: Sequence[Operator]) -> None:
    """Install the operators, load their images and those of their servers onto the nodes, and wait until they are
    Available.

    Raises KubeError for a cluster of the user's own, and where one does not become Available; BuildError where one
    cannot be built.
    """
    _ours(cluster)
    module("tools.localcluster", "load", *(str(build.archive(each)) for each in started(operators)))
    if servers := sorted({server for operator in operators for server in operator.servers}):
        module("images", "load", *servers)
    objects_by_name = {operator.name: objects(operator) for operator in operators}
    for operator in operators:
        operator_objects = objects_by_name[operator.name]
        _apply(cluster, operator_objects if operator.makes_certificates else certified(cluster, operator_objects))
    for operator_objects in objects_by_name.values():
        for deployment in (each["metadata"] for each in operator_objects if each["kind"] == "Deployment"):
            where = ("-n", deployment["namespace"], "rollout", "status", f"deployment/{deployment['name']}")
            cluster.kubectl(*where, "--timeout=180s", timeout=190)


def _apply(cluster: Kubernetes, objects: Sequence[Object]) -> None:
    """Apply the objects, definitions first: kubectl takes no object of a kind that is not established."""
    kinds = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    if kinds:
        cluster.apply(*kinds)
        cluster.await_definitions([each["metadata"]["name"] for each in kinds], 120)
    # Some are only images, which another operator starts.
    if resources := [each for each in objects if each["kind"] != "CustomResourceDefinition"]:
        cluster.apply(*resources)


def started(operators: Iterable[Operator]) -> list[Operator]:
    """Return the operators, and the entries of `BY_NAME` whose images run in pods that they make, each once."""
    chosen = list(operators)
    by_name = {each.name: each for each in chosen}
    return list((by_name | {name: BY_NAME[name] for each in chosen for name in each.starts}).values())


def remove(cluster: Kubernetes, operators: Sequence[Operator]) -> None:
    """Delete the operators and their webhooks. Their kinds, resources of these, and the namespaces stay.

    Raises KubeError for a cluster of the user's own.
    """
    _ours(cluster)
    items = [obj for operator in operators for obj in operator_manifests.installed(objects(operator))]
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    cluster.kubectl("delete", "-f", "-", "--ignore-not-found", stdin=json.dumps(listed))


def objects(operator: Operator) -> list[Object]:
    """Return the objects to install, without the certificate, made from the manifests in the operator's module."""
    folder = folders([operator.module])[operator.module]
    reference = build.reference(operator)
    references = {
        "operator": reference,
        **{name: images.reference(name) for name in operator.servers},
        **{name: build.reference(BY_NAME[name]) for name in operator.starts},
    }
    sources = [each for name, only in operator.needs.items() for each in definitions(name, only=only)]
    if isinstance(operator.manifests, Chart):
        sources += charts.rendered(folder, operator.name, operator.manifests, {"operator": reference})
    elif operator.manifests:
        kubectl = binaries.ensure(binaries.PARTS["kubernetes"]) / "kubectl"
        sources += documents(run(str(kubectl), "kustomize", str(folder / operator.manifests)))
    files = [*(folder / name for name in operator.extra_files), *(_OBJECTS / name for name in operator.own_files)]
    sources += [obj for path in files for obj in documents(path.read_text(encoding="utf-8"))]
    program = operator_manifests.Program(
        reference,
        {name: value.format(**references) for name, value in operator.environment.items()},
        operator.commands,
        {name: [each.format(**references) for each in words] for name, words in operator.arguments.items()},
    )
    return operator_manifests.adapted(sources, program, mount=not operator.makes_certificates)


def certified(cluster: Kubernetes, objects: Sequence[Object]) -> list[Object]:
    """Return the objects with a certificate: the existing one while it is good, as the operator has read it."""
    mounted = operator_manifests.mounted(objects)
    if not mounted:
        return list(objects)
    now, request = datetime.now(UTC), pki.Request(common="webhooks", names=operator_manifests.hosts(objects))
    namespace, name = mounted[0]
    listed = cluster.items("secrets", f"--namespace={namespace}", f"--field-selector=metadata.name={name}")
    stored = secret_data(listed[0] if listed else None)
    serving, authority = pki.Pair(stored.get("tls.key", ""), stored.get("tls.crt", "")), stored.get("ca.crt", "")
    if pki.fault(serving, request, now, authorities=[authority]):
        signer = pki.authority(secrets.token_hex(), "operators", now)
        serving, authority = pki.issue(signer, request, secrets.token_hex(), now), signer.cert
    return operator_manifests.certified(objects, serving, authority)


def _ours(cluster: Kubernetes) -> None:
    if cluster.kind == "existing":
        raise KubeError(
            "operators of others are installed and removed from here in the cluster on this machine alone;"
            " in one of your own, do it as their documentation says, or unset KUBECONFIG"
        )
