"""Signatures of images, of their provenance and of the checksums of a release, by cosign."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from images import registry
from images.shell import CommandError, run, say

from . import artifacts, provenance

_OFFLINE = "--tlog-upload=false"
"""No entry in the public log of signatures: the registry may be in a network without the internet."""


def sign(checksums: Path, references: Iterable[str]) -> None:
    """Sign each image by its digest, and the checksums, with the key in COSIGN_KEY; without one, say so. cosign reads
    the key's password from COSIGN_PASSWORD. Raises CommandError.
    """
    key = os.environ.get("COSIGN_KEY")
    if not key:
        say("not signed: COSIGN_KEY names no key")
        return
    if shutil.which("cosign") is None:
        raise CommandError("COSIGN_KEY names a key, but there is no cosign in PATH; install it or unset COSIGN_KEY")
    for reference in sorted(references):
        say(f"signing {reference}")
        run(["cosign", "sign", "--yes", _OFFLINE, f"--key={key}", reference])
    signature = checksums.with_name(f"{checksums.name}.sig")
    run(["cosign", "sign-blob", "--yes", _OFFLINE, f"--key={key}", f"--output-signature={signature}", str(checksums)])


def attach(statements: Mapping[str, Mapping[str, Any]]) -> None:
    """Push the statement about each image, by its reference with a digest, to the image's registry: signed with the key
    in COSIGN_KEY, or without a signature if there is none. Raises CommandError.
    """
    key = os.environ.get("COSIGN_KEY")
    for reference, statement in sorted(statements.items()):
        say(f"attaching the provenance of {reference}")
        if key:
            _attest(key, reference, statement)
        else:
            _attach(reference, statement)


def _attest(key: str, reference: str, statement: Mapping[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        predicate = Path(folder) / "predicate.json"
        predicate.write_text(json.dumps(statement["predicate"]), encoding="utf-8")
        options = ["--yes", "--replace", _OFFLINE, f"--key={key}"]
        options += ["--type=slsaprovenance1", f"--predicate={predicate}"]
        run(["cosign", "attest", *options, reference])


def _attach(reference: str, statement: Mapping[str, Any]) -> None:
    repository, digest = provenance.repository(reference), reference.rpartition("@")[2]
    manifest = registry.manifest(f"{repository}@{digest}")
    if not manifest:
        raise CommandError(f"{reference}: the registry has no such image any more")
    media_type = json.loads(manifest).get("mediaType", artifacts.MANIFEST)
    artifacts.attach(artifacts.statement(provenance.text(statement), manifest, media_type), repository)
