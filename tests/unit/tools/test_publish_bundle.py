"""The bundle of a release, artifacts in a registry, versions, and signatures by a stand-in for cosign."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from images import catalog
from images.shell import CommandError
from openstack_operator import __version__
from openstack_operator.yaml_text import load
from tools.publish import archive, artifacts, install_manifests, olm_bundle, released, signatures

pytestmark = pytest.mark.seconds

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
IMAGE = "registry.example.org:5000/team/operator:1f2e3d@sha256:" + "a" * 64
REFERENCES = {"operator": IMAGE, "keystone": "registry.example.org:5000/team/keystone:4d5e@sha256:" + "b" * 64}


@pytest.fixture(scope="module")
def files(root: Path) -> dict[str, bytes]:
    return olm_bundle.files(root, REFERENCES, {"2025.1.yaml": "a: 1\n"}, "1.2.3", CREATED)


@pytest.fixture(scope="module")
def service_version(files: dict[str, bytes]) -> dict[str, Any]:
    return yaml.load(files["manifests/openstack-operator.clusterserviceversion.yaml"], yaml.CSafeLoader)


def test_the_bundle_names_all_images_by_their_digests(service_version: dict[str, Any]) -> None:
    (deployment,) = service_version["spec"]["install"]["spec"]["deployments"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == IMAGE
    assert service_version["metadata"]["annotations"]["containerImage"] == IMAGE
    assert {each["name"]: each["image"] for each in service_version["spec"]["relatedImages"]} == REFERENCES


def test_the_bundle_has_its_version_in_each_place(service_version: dict[str, Any]) -> None:
    assert service_version["metadata"]["name"] == "openstack-operator.v1.2.3"
    assert service_version["spec"]["version"] == "1.2.3"
    assert service_version["metadata"]["annotations"]["olm.skipRange"] == "<1.2.3"
    assert __version__ not in yaml.safe_dump(service_version["metadata"] | {"annotations": {}})


def test_a_bundle_replaces_the_version_before(root: Path, service_version: dict[str, Any]) -> None:
    assert "replaces" not in service_version["spec"], "it is the first one"
    arguments = (REFERENCES, {}, "1.3.0", CREATED, ["1.1.0", "1.2.3"])
    later = yaml.load(
        olm_bundle.files(root, *arguments)["manifests/openstack-operator.clusterserviceversion.yaml"], yaml.CSafeLoader
    )
    assert later["spec"]["replaces"] == service_version["metadata"]["name"]


def test_a_channel_leads_from_each_version_to_the_last_one() -> None:
    package, channel = yaml.load_all(olm_bundle.channel("1.3.0", ["1.1.0", "1.2.3"]), yaml.CSafeLoader)
    assert package["defaultChannel"] == channel["name"] == "alpha"
    assert channel["entries"] == [
        {"name": "openstack-operator.v1.1.0", "skipRange": "<1.1.0"},
        {"name": "openstack-operator.v1.2.3", "replaces": "openstack-operator.v1.1.0", "skipRange": "<1.2.3"},
        {"name": "openstack-operator.v1.3.0", "replaces": "openstack-operator.v1.2.3", "skipRange": "<1.3.0"},
    ]


def test_versions_that_led_to_a_release_are_in_no_channel() -> None:
    assert "0.1.0-dev" in released.versions()
    assert released.published("0.1.0") == []


def test_flux_installs_one_version_that_a_key_has_signed(root: Path) -> None:
    manifests_of_flux = [each for path in (root / "deploy" / "flux").glob("*.yaml") for each in load(path)]
    charts = [each["spec"]["chart"]["spec"] for each in manifests_of_flux if each["kind"] == "HelmRelease"]
    assert {chart["version"] for chart in charts} == {__version__}
    assert [chart["verify"]["provider"] for chart in charts] == ["cosign", "cosign"]


def test_the_bundle_has_what_it_owns(root: Path, files: dict[str, bytes], service_version: dict[str, Any]) -> None:
    owned = {each["name"] for each in service_version["spec"]["customresourcedefinitions"]["owned"]}
    brought = [yaml.load(text, yaml.CSafeLoader) for path, text in files.items() if path.endswith(".crd.yaml")]
    assert owned == {each["metadata"]["name"] for each in brought}
    assert len(brought) == len(list((root / "deploy" / "crds").glob("*.yaml")))
    assert b"a: 1" in files["manifests/openstack-operator-releases.configmap.yaml"]


def test_no_object_of_the_bundle_names_a_namespace(files: dict[str, bytes]) -> None:
    objects = [yaml.load(text, yaml.CSafeLoader) for path, text in files.items() if path.startswith("manifests/")]
    named = {each["kind"] for each in objects if "namespace" in each["metadata"]}
    assert named == {"ClusterServiceVersion"}, "OLM asks for one there alone"


def test_the_operator_of_a_bundle_serves_the_namespaces_of_its_group(service_version: dict[str, Any]) -> None:
    install = service_version["spec"]["install"]["spec"]
    (container,) = install["deployments"][0]["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in container["env"]}
    assert variables["WATCH_NAMESPACES"] == "metadata.annotations['olm.targetNamespaces']"
    (everywhere,) = install["clusterPermissions"]
    assert {word for rule in everywhere["rules"] for word in rule["resources"]} == {
        "nodes",
        "subjectaccessreviews",
        "tokenreviews",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    }


def test_examples_are_of_kinds_that_the_bundle_owns(service_version: dict[str, Any]) -> None:
    examples = json.loads(service_version["metadata"]["annotations"]["alm-examples"])
    owned = {each["kind"] for each in service_version["spec"]["customresourcedefinitions"]["owned"]}
    assert {each["kind"] for each in examples} <= owned
    assert "OpenStackControlPlane" in {each["kind"] for each in examples}


def test_an_artifact_has_the_same_digest_for_the_same_files(tmp_path: Path, files: dict[str, bytes]) -> None:
    one, other = (artifacts.image(each, {"a": "b"}) for each in (files, dict(reversed(files.items()))))
    assert one == other
    artifacts.write(one, tmp_path)
    (entry,) = json.loads((tmp_path / "index.json").read_text())["manifests"]
    manifest = tmp_path / "blobs" / "sha256" / entry["digest"].removeprefix("sha256:")
    assert hashlib.sha256(manifest.read_bytes()).hexdigest() == manifest.name
    (layer,) = json.loads(manifest.read_text())["layers"]
    content = (tmp_path / "blobs" / "sha256" / layer["digest"].removeprefix("sha256:")).read_bytes()
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(content))) as tar:
        assert tar.getnames() == sorted(files)


def test_a_chart_in_a_registry_is_described_by_its_own_file() -> None:
    packed = artifacts.chart("name: a\nversion: 1.2.3\n", archive.chart("a", {"Chart.yaml": b""}, CREATED))
    assert json.loads(packed.config) == {"name": "a", "version": "1.2.3"}
    assert json.loads(packed.manifest)["layers"][0]["mediaType"].startswith("application/vnd.cncf.helm.chart")


def test_versions_are_replaced_where_they_are_versions() -> None:
    chart = f"version: {__version__}\ndependencies:\n- version: {__version__}\nkubeVersion: '>=1{__version__}'\n"
    renumbered = install_manifests.of_version("charts/crds/Chart.yaml", chart, "1.2.3")
    assert renumbered == f"version: 1.2.3\ndependencies:\n- version: 1.2.3\nkubeVersion: '>=1{__version__}'\n"
    template = f"        app.kubernetes.io/version: {__version__}\n# {__version__}\n"
    assert install_manifests.of_version("templates/a.yaml", template, "1.2.3").startswith(
        "        app.kubernetes.io/version: 1.2.3\n"
    )
    assert install_manifests.of_version("values.yaml", template, "1.2.3") == template


def test_labels_of_an_image_follow_from_its_content_alone() -> None:
    labels = catalog.labels("keystone")
    assert labels == {
        "org.opencontainers.image.title": "keystone",
        "org.opencontainers.image.vendor": "openstack-operator",
        "org.opencontainers.image.version": catalog.tag("keystone"),
    }
    assert catalog.labels("operator")["org.opencontainers.image.version"] == __version__


@pytest.fixture
def cosign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of cosign, which writes down how it was called."""
    program = tmp_path / "bin" / "cosign"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@" >> "$CALLS"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("COSIGN_KEY", "cosign.key")
    return tmp_path / "calls"


def test_each_image_is_signed_by_its_digest(cosign: Path, tmp_path: Path) -> None:
    signatures.sign(tmp_path / "SHA256SUMS", REFERENCES.values())
    calls = cosign.read_text().splitlines()
    assert [line.split()[-1] for line in calls] == [*sorted(REFERENCES.values()), str(tmp_path / "SHA256SUMS")]
    assert all("--key=cosign.key" in line for line in calls)
    assert all("@sha256:" in line for line in calls if line.startswith("sign "))


def test_provenance_is_attested_by_cosign_with_the_key(cosign: Path) -> None:
    signatures.attach({reference: {"predicate": {}} for reference in REFERENCES.values()})
    calls = cosign.read_text().splitlines()
    assert [line.split()[-1] for line in calls] == sorted(REFERENCES.values())
    assert all(line.startswith("attest ") and "--key=cosign.key --type=slsaprovenance1" in line for line in calls)


def test_a_key_without_cosign_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSIGN_KEY", "cosign.key")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandError, match="no cosign in PATH"):
        signatures.sign(tmp_path / "SHA256SUMS", [IMAGE])


def test_without_a_key_nothing_is_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COSIGN_KEY", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    signatures.sign(tmp_path / "SHA256SUMS", [IMAGE])


def test_overlays_stand_beside_their_base() -> None:
    checks = 0
    files = install_manifests.kustomizations("kind: List\n", {"a.yaml": "kind: A\n"})
    for path in (path for path in files if path.endswith("kustomization.yaml")):
        for resource in yaml.load(files[path], yaml.CSafeLoader)["resources"]:
            target = (Path("/") / path).parent.joinpath(resource).resolve().relative_to("/")
            checks += 1
            assert str(target) in files or f"{target}/kustomization.yaml" in files
    assert checks
