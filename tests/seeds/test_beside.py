"""The same manifests, planned with what docs/how-to/seeds.md makes beside them."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from openstack_operator.cli.render import OfflineCluster
from openstack_operator.kube import Object
from openstack_operator.planned import Planned
from openstack_operator.registry import ACTUATORS, RESOURCES, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.testing import NOW
from openstack_operator.yaml_text import load
from tests.e2e.on_seeds import beside

SEEDS = Path(os.environ.get("SEEDS", ""))
KINDS = {"Keystone", "Glance", "Placement", "Neutron", "Nova", "Cinder", "Cortex", "Tempest", "OVNCluster"}
"""Kinds that stand alone; a ControlPlane makes what it needs."""


def manifests() -> list[Object]:
    ours = {(resource.api_version, resource.kind) for resource in RESOURCES}
    found = [obj for path in sorted(SEEDS.glob("*.yaml")) for obj in load(path)]
    return [obj for obj in found if obj["kind"] in KINDS and (obj["apiVersion"], obj["kind"]) in ours]


if not list(SEEDS.glob("*.yaml")):
    pytest.skip("name a folder of manifests: make test-seeds SEEDS=…", allow_module_level=True)


def objects() -> list[Object]:
    made = [*beside.servers(), *beside.ceph(), *beside.ovn(NOW - timedelta(days=1))]
    for service in beside.SERVICES:
        made += [*beside.logins(service, "password"), *beside.accounts(service)]
    for name in beside.CEPH_CLIENTS:
        made.append(beside.ceph_login(name, "AQBvaWJlAAAAABAAaGVsbG9oZWxsb2hlbGxvIQ=="))
    for name in ("tempest", "cortex"):
        made += beside.administrator(name, "password")
    return made


def planned(root: Path, manifest: Object) -> Planned:
    offline = OfflineCluster(SERVICES, ACTUATORS, ReleaseFiles(root / "releases"), password="drawn")
    namespace = manifest["metadata"]["namespace"]
    wanted = (manifest["apiVersion"], manifest["kind"])
    for each in offline.render([manifest, *objects()], namespace):
        resource = next(entry for entry in RESOURCES if entry.handle == each.id.kind)
        if (resource.api_version, resource.kind) == wanted:
            return each
    raise AssertionError(f"{wanted} is not planned")


@pytest.mark.parametrize("manifest", manifests(), ids=lambda obj: f"{obj['kind']}-{obj['metadata']['name']}")
def test_a_manifest_has_a_plan(root: Path, manifest: Object) -> None:
    """Nothing is missing and nothing is refused, as far as it can be told without a cluster."""
    found = planned(root, manifest)
    assert found.plan is not None
    assert list(found.plan.objects)


@pytest.mark.parametrize(
    "manifest",
    [obj for obj in manifests() if (obj.get("status") or {}).get("endpoint")],
    ids=lambda obj: f"{obj['kind']}-{obj['metadata']['name']}",
)
def test_endpoint_is_the_one_in_the_manifests_status(root: Path, manifest: Object) -> None:
    found = planned(root, manifest)
    assert found.plan is not None
    endpoint = found.plan.outcome.endpoint or ""
    assert endpoint.startswith(manifest["status"]["endpoint"])


@pytest.mark.parametrize("service", beside.SERVICES, ids=lambda service: service.name)
def test_secrets_have_the_names_that_manifests_say(service: beside.Service) -> None:
    made = {obj["metadata"]["name"] for obj in objects() if obj["kind"] == "Secret"}
    text = "\n".join(path.read_text(encoding="utf-8") for path in SEEDS.glob(f"{service.name}.*.yaml"))
    named = {line.split(":")[1].split("#")[0].strip() for line in text.splitlines() if "-credentials" in line}
    assert named <= made


def test_images_of_the_manifests_are_ours_under_their_names() -> None:
    found = beside.images(manifests())
    assert found["ghcr.io/c5c3/keystone:28.0.0"] == "keystone"
    assert set(found.values()) <= {path.name for path in (Path(__file__).parents[2] / "images").iterdir()}
