"""The files of a release: they name images by digest, and are the same for the same contents."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from openstack_operator import __version__
from tools.publish import archive, install_manifests, notes, sbom

pytestmark = pytest.mark.seconds

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
IMAGE = "registry.example.org:5000/team/operator:1f2e3d@sha256:" + "a" * 64


def test_install_manifest_installs_the_operator_from_a_registry(root: Path) -> None:
    text = install_manifests.install(root / "deploy", IMAGE, {"2025.1.yaml": "name: '2025.1'\n"})
    objects = list(yaml.load_all(text, yaml.CSafeLoader))
    kinds = [each["kind"] for each in objects]
    assert set(kinds[: kinds.index("ClusterRole")]) <= {"Namespace", "CustomResourceDefinition", "ServiceAccount"}
    assert kinds[-1] == "Deployment"
    (container,) = objects[-1]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == IMAGE
    (data,) = [each["data"] for each in objects if each["kind"] == "ConfigMap"]
    assert data == {"2025.1.yaml": "name: '2025.1'\n"}
    volumes = objects[-1]["spec"]["template"]["spec"]["volumes"]
    assert install_manifests.RELEASES in json.dumps(volumes), "the operator mounts that ConfigMap"


def test_the_values_of_the_chart_name_the_image_by_its_digest() -> None:
    values = "image:\n  repository: openstack-operator\n  digest: ''\nreleases: {}\n"
    filled = yaml.load(install_manifests.chart_values(values, IMAGE, {"2025.1.yaml": "a: 1\nb: 2\n"}), yaml.CSafeLoader)
    assert filled["image"] == {
        "repository": "registry.example.org:5000/team/operator",
        "digest": "sha256:" + "a" * 64,
    }
    assert filled["releases"] == {"2025.1.yaml": "a: 1\nb: 2\n"}


def test_values_without_a_place_for_the_image_are_refused() -> None:
    with pytest.raises(LookupError, match="repository"):
        install_manifests.chart_values("image: {}\n", IMAGE, {})


def test_an_archive_is_the_same_for_the_same_files() -> None:
    files = {"Chart.yaml": b"name: a\n", "templates/b.yaml": b"{}\n"}
    one = archive.chart("a", files, CREATED)
    assert one == archive.chart("a", dict(reversed(files.items())), CREATED)
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(one))) as tar:
        assert sorted(tar.getnames()) == ["a/Chart.yaml", "a/templates/b.yaml"]


def test_checksums_are_in_the_form_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c").write_bytes(b"1")
    (tmp_path / "a").write_bytes(b"2")
    text = archive.checksums([tmp_path / "b" / "c", tmp_path / "a"], tmp_path)
    assert text == f"{hashlib.sha256(b'2').hexdigest()}  a\n{hashlib.sha256(b'1').hexdigest()}  b/c\n"


STATUS = """Package: libc6
Status: install ok installed
Version: 2.41-12
Description: a
 longer: text

Package: gone
Status: deinstall ok config-files
Version: 1
"""


def test_contents_are_the_packages_of_debian_and_python(tmp_path: Path) -> None:
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text(STATUS)
    info = tmp_path / "opt/venv/lib/python3.13/site-packages/Oslo.Config-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Oslo.Config\nVersion: 1.0\n\nText\n")
    packages = sbom.packages(tmp_path)
    assert [each.url for each in packages] == ["pkg:deb/debian/libc6@2.41-12", "pkg:pypi/oslo-config@1.0"]
    document = sbom.document(IMAGE, packages, CREATED)
    assert document == sbom.document(IMAGE, packages, CREATED)
    assert [each["name"] for each in document["packages"][1:]] == ["libc6", "oslo-config"]
    contained = {each["relatedSpdxElement"] for each in document["relationships"][1:]}
    assert contained == {each["SPDXID"] for each in document["packages"][1:]}


@pytest.mark.security
def test_a_link_out_of_an_image_is_not_followed(tmp_path: Path) -> None:
    info = tmp_path / "machine" / "a-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: a\nVersion: 1.0\n")
    image = tmp_path / "image"
    image.mkdir()
    (image / "opt").symlink_to(tmp_path / "machine")
    assert sbom.packages(image) == []


def test_notes_have_the_changes_of_the_version_and_the_digests(root: Path) -> None:
    text = notes.notes(
        __version__, (root / "CHANGELOG.md").read_text(), {"operator": IMAGE}, "## An upgrade\n\nNothing."
    )
    assert f"| operator | `{IMAGE}` |" in text
    assert "## Changes\n\n- " in text
    assert "\n## An upgrade\n\nNothing.\n\n## Images\n" in text
    with pytest.raises(LookupError, match=r"9\.9\.9"):
        notes.changes("## 0.1.0\n\n- one\n", "9.9.9")


def test_notes_begin_with_the_entries_that_the_changelog_lacks() -> None:
    text = notes.notes("0.2.0", "## 0.2.0\n\n- old\n", {}, "## An upgrade", "- new")
    assert "## Changes\n\n- new\n- old\n\n## An upgrade" in text


def test_the_chart_of_this_checkout_takes_the_image(root: Path) -> None:
    values = (root / "deploy/charts/openstack-operator/values.yaml").read_text()
    filled = yaml.load(install_manifests.chart_values(values, IMAGE, {"2025.1.yaml": "a: 1\n"}), yaml.CSafeLoader)
    assert filled["image"]["repository"] == "registry.example.org:5000/team/operator"
    assert filled["releases"] == {"2025.1.yaml": "a: 1\n"}


def test_a_packaged_chart_has_the_definitions_themselves(root: Path) -> None:
    files = archive.contents(root / "deploy/charts/openstack-operator")
    definitions = {path.name for path in (root / "deploy/crds").glob("*.yaml")}
    packed = {name.rpartition("/")[2] for name in files if name.startswith("charts/crds/files/openstack/")}
    assert packed == definitions
    assert files["charts/crds/files/openstack/keystones.yaml"] == (root / "deploy/crds/keystones.yaml").read_bytes()
