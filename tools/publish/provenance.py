"""Statements of what each artifact of a release was built from: SLSA provenance v1 in in-toto statements.

https://slsa.dev/spec/v1.0/provenance
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from images import catalog, wheels
from images.shell import CommandError

from .sbom import Package

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILDER = "urn:openstack-operator:make-release"
"""Builder if no name is given: the command, on a machine of which nothing is said."""
_IMAGE, _FILES = "urn:openstack-operator:build:image:v1", "urn:openstack-operator:build:files:v1"


@dataclass(frozen=True)
class Source:
    """The checkout that a release is made from."""

    commit: str
    is_modified: bool = False
    """True if tracked files differ from the commit."""
    url: str = ""

    @property
    def dependency(self) -> dict[str, Any]:
        """The checkout as a resource descriptor."""
        described: dict[str, Any] = {"name": "openstack-operator", "digest": {"gitCommit": self.commit}}
        if self.url:
            described["uri"] = f"git+{self.url}@{self.commit}"
        return described | ({"annotations": {"modified": True}} if self.is_modified else {})


def source(root: Path, url: str = "") -> Source:
    """Return the checkout in a folder. Raises CommandError if there is none."""

    def git(*arguments: str) -> str:
        result = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
        if result.returncode:
            raise CommandError(f"git {' '.join(arguments)}: {result.stderr.strip()}; provenance names the commit")
        return result.stdout.strip()

    return Source(git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--untracked-files=no")), url)


def of_image(
    name: str, reference: str, checkout: Source, packages: Iterable[Package], builder: str, *, version: str
) -> dict[str, Any]:
    """Return the statement about an image, by its name in the catalog and its reference with a digest. There is no time
    in it: the same image, built from the same commit, has the same one.
    """
    parent = catalog.parent(name)
    dependencies = [
        checkout.dependency,
        {"name": f"parent {parent}", "uri": f"pkg:oci/{parent}?tag={catalog.tag(parent)}"},
        *_locks(name),
        *({"uri": package.url} for package in packages),
    ]
    parameters = {"image": name, "tag": catalog.tag(name), "version": version}
    internal = {"suite": catalog.SUITE, "SOURCE_DATE_EPOCH": catalog.timestamp()}
    return _statement(reference, _IMAGE, parameters, internal, dependencies, builder)


def of_files(name: str, reference: str, checkout: Source, builder: str, *, version: str) -> dict[str, Any]:
    """Return the statement about a chart or a bundle, which is made of files of the checkout alone."""
    return _statement(reference, _FILES, {"artifact": name, "version": version}, {}, [checkout.dependency], builder)


def text(statement: Mapping[str, Any]) -> bytes:
    """Return a statement as a file."""
    return (json.dumps(statement, indent=1) + "\n").encode()


def _statement(
    reference: str,
    build_type: str,
    external: Mapping[str, Any],
    internal: Mapping[str, Any],
    dependencies: Iterable[Mapping[str, Any]],
    builder: str,
) -> dict[str, Any]:
    name, _, digest = reference.partition("@sha256:")
    if not digest:
        raise CommandError(f"{reference}: has no digest, so nothing can be said of it")
    return {
        "_type": STATEMENT,
        "subject": [{"name": repository(name), "digest": {"sha256": digest}}],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": build_type,
                "externalParameters": dict(external),
                "internalParameters": dict(internal),
                "resolvedDependencies": list(dependencies),
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


def _locks(name: str) -> list[dict[str, Any]]:
    """Return the lists with hashes of what an image and those below it take from the package index."""
    locks: list[dict[str, Any]] = []
    while name != catalog.DEBIAN:
        if lock := catalog.files(name).get(wheels.LOCK):
            locks.append({"name": f"{wheels.LOCK} of {name}", "digest": _sha256(lock.content)})
        name = catalog.parent(name)
    return locks


def _sha256(content: bytes) -> dict[str, str]:
    return {"sha256": hashlib.sha256(content).hexdigest()}


def repository(name: str) -> str:
    """Return the name of an image without its tag and digest."""
    name = name.partition("@")[0]
    host, slash, path = name.rpartition("/")
    return f"{host}{slash}{path.partition(':')[0]}"
