"""What objects of a plan name exists in it, also where names are too long to stay whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import Object, secret_data
from openstack_operator.registry import ACTUATORS, RESOURCES, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.reconcile.gather import parse

ROOT = Path(__file__).parent.parent.parent
KINDS = {service.resource.handle: service.resource for service in SERVICES if service.teardown is not True}
# It makes nothing without a Secret that another cluster wrote; test_hypervisorcluster.py has one.
del KINDS["HypervisorCluster"]
NAMES = ["short", "a" * 40, "long-" * 12 + "abc"]
ROTATED = {"target": "database", "serviceRef": {"kind": "Placement", "name": "placement"}}
COPIED = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "copied"}, "stringData": {"key": "value"}}
STORED = {"repository": {"nfs": "a:/b", "passwordRef": {"name": "copied", "key": "key"}}}
LEAST: dict[str, dict[str, Any]] = {
    "OpenStackBackup": STORED,
    "OpenStackBackupSchedule": {**STORED, "schedule": "0 1 * * *"},
    "OpenStackRestore": STORED,
    "CredentialRotation": ROTATED,
    "CredentialRotation.c5c3.io": ROTATED,
    "SecretAggregate.c5c3.io": {"sources": [{"secretRef": {"name": "copied"}}]},
}
"""What a kind cannot do without."""
HOST = re.compile(r"([a-z0-9-]+)\.openstack\.svc\.cluster\.local")


def values(node: Any) -> Iterator[tuple[str, Any]]:
    """Every (key, value) at any depth."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield name, value
            yield from values(value)
    elif isinstance(node, list):
        for entry in node:
            yield from values(entry)


def texts(obj: Object) -> str:
    return str(secret_data(obj) if obj["kind"] == "Secret" else obj)


class Made:
    """Everything one resource of a kind becomes, its referents beside it."""

    def __init__(self, kind: str, name: str) -> None:
        paper = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(ROOT / "releases"), password="drawn")
        resource = KINDS[kind]
        manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
        manifest["spec"] = LEAST.get(kind, {})
        planned = next(paper.render([COPIED, manifest], "openstack"))
        self.objects = planned.objects
        self.published = planned.plan.outcome if planned.plan else None
        self.foreign = {
            word
            for referent in planned.context.refs.values()
            for value in referent.published.values()
            for word in (value, *HOST.findall(value))
        }

    def names(self, kind: str) -> set[str]:
        return {obj["metadata"]["name"] for obj in self.objects if obj["kind"] == kind}


@pytest.fixture(params=[(kind, name) for kind in KINDS for name in NAMES], ids=lambda p: f"{p[0]}-{len(p[1])}")
def made(request: pytest.FixtureRequest) -> Made:
    return _made(*request.param)


@cache
def _made(kind: str, name: str) -> Made:
    """All tests look at the same objects, and change none."""
    return Made(kind, name)


def test_secrets_exist(made: Made) -> None:
    named = {value for obj in made.objects for key, value in values(obj) if key == "secretName"}
    for obj in made.objects:
        for key, value in values(obj):
            if key in ("secretKeyRef", "passwordSecretRef"):
                named.add(value["name"])
    assert named - made.names("Secret") - made.foreign == set()


def test_keys_of_secrets_exist(made: Made) -> None:
    held = {obj["metadata"]["name"]: set(obj["data"]) for obj in made.objects if obj["kind"] == "Secret"}
    for obj in made.objects:
        for key, value in values(obj):
            if key in ("secretKeyRef", "passwordSecretRef") and value["name"] in held:
                assert value["key"] in held[value["name"]]


def test_volumes_are_declared_and_claims_exist(made: Made) -> None:
    claims = {
        value["claimName"] for obj in made.objects for key, value in values(obj) if key == "persistentVolumeClaim"
    }
    assert claims <= made.names("PersistentVolumeClaim")
    for obj in made.objects:
        for key, template in values(obj):
            if key == "template":
                spec = template["spec"]
                declared = {volume["name"] for volume in spec.get("volumes", ())}
                declared |= {claim["metadata"]["name"] for claim in obj["spec"].get("volumeClaimTemplates", ())}
                for container in (*spec["containers"], *spec.get("initContainers", ())):
                    assert {mount["name"] for mount in container.get("volumeMounts", ())} <= declared


def test_hosts_are_services(made: Made) -> None:
    hosts = {host for obj in made.objects for host in HOST.findall(texts(obj))}
    assert made.published is not None
    hosts |= {host for value in made.published.published.values() for host in HOST.findall(value)}
    # Neutron asks Nova's metadata API, which refers to Neutron.
    assert hosts - made.names("Service") - made.foreign - {"nova-metadata"} == set()


def test_services_reach_pods(made: Made) -> None:
    pods = [
        template["metadata"]["labels"] for obj in made.objects for key, template in values(obj) if key == "template"
    ]
    for obj in made.objects:
        if obj["kind"] == "Service":
            # Kubernetes gives each member of a StatefulSet a label with its name.
            wanted = {k: v for k, v in obj["spec"]["selector"].items() if k != "statefulset.kubernetes.io/pod-name"}
            assert [labels for labels in pods if wanted.items() <= labels.items()], obj["metadata"]["name"]


def test_names_and_labels_fit(made: Made) -> None:
    for obj in made.objects:
        metadata = obj["metadata"]
        assert len(metadata["name"]) <= (52 if obj["kind"] == "StatefulSet" else 63)
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", metadata["name"])
        for value in metadata["labels"].values():
            assert len(value) <= 63


def test_published_secrets_exist(made: Made) -> None:
    assert made.published is not None
    for key, value in made.published.published.items():
        if key.endswith("Secret"):
            assert value in made.names("Secret")


def test_resources_of_ours_are_what_their_models_take(made: Made) -> None:
    resources = {resource.handle: resource for resource in RESOURCES}
    for obj in made.objects:
        if obj["kind"] in resources:
            parse(resources[obj["kind"]], obj)
