"""Provenance names what an artifact was made from, and is the same for the same artifact."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from images import catalog
from images.shell import CommandError
from tools.publish import artifacts, provenance
from tools.publish.sbom import Package

DIGEST = "ab" * 32
CHECKOUT = provenance.Source("c0ffee", url="https://git.example.org/operator")
PACKAGES = [Package("deb", "memcached", "1.6.38-1")]


def about(name: str) -> dict[str, Any]:
    reference = f"registry.example.org:5000/team/{name}:1@sha256:{DIGEST}"
    return provenance.of_image(name, reference, CHECKOUT, PACKAGES, provenance.BUILDER, version="0.1.0")


def dependencies(name: str) -> list[dict[str, Any]]:
    return about(name)["predicate"]["buildDefinition"]["resolvedDependencies"]


def test_statement_has_the_fields_that_slsa_requires() -> None:
    statement = about("memcached")
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert statement["subject"] == [{"name": "registry.example.org:5000/team/memcached", "digest": {"sha256": DIGEST}}]
    definition, details = statement["predicate"]["buildDefinition"], statement["predicate"]["runDetails"]
    assert definition.keys() >= {"buildType", "externalParameters", "resolvedDependencies"}
    assert definition["externalParameters"]["tag"] == catalog.tag("memcached")
    assert details["builder"]["id"] == provenance.BUILDER


def test_each_dependency_has_a_uri_or_a_digest() -> None:
    for name in ("memcached", "operator"):
        assert all(each.keys() & {"uri", "digest"} for each in dependencies(name))


def test_dependencies_name_commit_parent_and_packages() -> None:
    names = [each.get("uri", "") for each in dependencies("memcached")]
    assert "git+https://git.example.org/operator@c0ffee" in names
    assert f"pkg:oci/base?tag={catalog.tag('base')}" in names
    assert "pkg:deb/debian/memcached@1.6.38-1" in names


def test_lock_of_a_parent_is_a_dependency(root: Path) -> None:
    locks = {each["name"]: each["digest"] for each in dependencies("operator") if "lock" in each.get("name", "")}
    digest = hashlib.sha256((root / "requirements.lock").read_bytes()).hexdigest()
    assert locks == {"requirements.lock of python": {"sha256": digest}}


def test_the_same_image_has_the_same_statement() -> None:
    assert provenance.text(about("operator")) == provenance.text(about("operator"))


def test_reference_without_a_digest_is_refused() -> None:
    with pytest.raises(CommandError, match="has no digest"):
        provenance.of_files("chart", "registry.example.org/chart:1", CHECKOUT, "b", version="1")


def test_modified_checkout_is_said_to_be_modified() -> None:
    assert "annotations" not in provenance.Source("c0ffee").dependency
    assert provenance.Source("c0ffee", is_modified=True).dependency["annotations"] == {"modified": True}


def test_folder_without_a_commit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="provenance names the commit"):
        provenance.source(tmp_path)


def test_attached_statement_names_the_manifest_of_the_image() -> None:
    manifest = b'{"schemaVersion":2}'
    artifact = artifacts.statement(b"{}", manifest, artifacts.MANIFEST)
    written = json.loads(artifact.manifest)
    assert written["subject"] == {
        "mediaType": artifacts.MANIFEST,
        "digest": f"sha256:{hashlib.sha256(manifest).hexdigest()}",
        "size": len(manifest),
    }
    assert written["artifactType"] == written["layers"][0]["mediaType"] == "application/vnd.in-toto+json"


def test_artifact_without_a_subject_is_not_attached() -> None:
    with pytest.raises(CommandError, match="without a subject"):
        artifacts.attach(artifacts.image({}, {}), "registry.example.org/a")


@pytest.mark.parametrize("name", ["r:5000/a/b:1@sha256:x", "r:5000/a/b@sha256:x", "r:5000/a/b:1", "r:5000/a/b"])
def test_repository_is_the_name_alone(name: str) -> None:
    assert provenance.repository(name) == "r:5000/a/b"
