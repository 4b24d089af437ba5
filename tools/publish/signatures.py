"""Signatures of images, and of the checksums of a release, by cosign."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from images.shell import CommandError, run, say

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
