"""Images travel to a registry, for clusters whose nodes cannot load an archive. Digests name them there, since a
registry may serve another image under the same tag later.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from images import cache, catalog
from images.engine import Engine
from images.shell import CommandError, run, say

_PREFIX = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
"""Host, port and path, as the names of images have them."""


def prefix(text: str) -> str:
    """Return the prefix of image names. Raises ArgumentTypeError for a text with which no image's name can begin."""
    name = text.rstrip("/")
    if not _PREFIX.fullmatch(name):
        raise argparse.ArgumentTypeError(f"{text!r} is no registry; write HOST[:PORT][/PATH], in lower case")
    return name


def push(engine: Engine, target: str, names: Sequence[str], *, pristine: bool = False) -> None:
    """Push every image of `names` that the registry `target` lacks, and record its digests. An image pushed from
    another machine stays. Raises CommandError where the registry serves another image than was pushed from here.
    """
    digests = Digests(target)
    for name in names:
        reference = catalog.reference(name, target, pristine=pristine)
        if served := _served(reference):
            digests.learn(reference, served)
            continue
        *options, source = engine.source(catalog.reference(name, pristine=pristine))
        say(f"pushing {reference}")
        digests.learn(reference, copy(options, source, reference), pushed=True)


def pinned(target: str, names: Iterable[str], *, pristine: bool = False) -> dict[str, str]:
    """Return each image's full name with its digest, as in a pod's `image`; without one if the registry lacks the
    image.
    """
    digests, references = Digests(target), dict[str, str]()
    for name in names:
        reference = catalog.reference(name, target, pristine=pristine)
        digest = digests.get(reference)
        if not digest and (digest := _served(reference)):
            digests.learn(reference, digest)
        references[name] = f"{reference}@{digest}" if digest else reference
    return references


class Digests:
    """Digests of images in a registry, as this machine pushed them or first saw them there."""

    def __init__(self, target: str) -> None:
        self.path = cache.directory("digests") / f"{quote(target, safe='')}.json"
        self._known: dict[str, str] = json.loads(self.path.read_text()) if self.path.exists() else {}

    def get(self, reference: str) -> str:
        """Return the digest of an image; empty if it is not known."""
        return self._known.get(reference, "")

    def learn(self, reference: str, digest: str, *, pushed: bool = False) -> None:
        """Record a digest. Raises CommandError if another one is known, unless the image was `pushed` just now."""
        recorded = self.get(reference)
        if recorded and recorded != digest and not pushed:
            raise CommandError(
                f"{reference}: the registry serves {digest}, and this machine knows {recorded}: another image has the"
                f" same tag. Find out who pushed it. To accept the registry's image, delete {self.path}"
            )
        if recorded != digest:
            self._known[reference] = digest
            # Two commands may run at once.
            new = self.path.with_suffix(f".{os.getpid()}.new")
            new.write_text(json.dumps(self._known, indent=2) + "\n")
            new.replace(self.path)


def copy(options: Sequence[str], source: str, target: str, *, same: bool = False) -> str:
    """Push an image, and return its digest in the registry; `same` pushes it as it is, and not compressed. Raises
    CommandError.
    """
    with tempfile.TemporaryDirectory() as folder:
        digest = Path(folder, "digest")
        flags = ["--preserve-digests"] if same else []
        try:
            run(["skopeo", *options, "copy", f"--digestfile={digest}", *flags, source, f"docker://{target}"])
        except CommandError as error:
            host = target.partition("/")[0]
            hint = (
                f"log in with `skopeo login {host}`; a registry without TLS needs `insecure = true` in registries.conf"
            )
            raise CommandError(f"{error}\n{hint}") from None
        return digest.read_text().strip()


def manifest(reference: str) -> bytes:
    """Return the manifest of an image in a registry, as it is there; empty if the registry has none."""
    try:
        return run(["skopeo", "inspect", "--raw", f"docker://{reference}"]).encode()
    except CommandError:
        return b""


def _served(reference: str) -> str:
    """Return the digest of the image that the registry has under that name; empty if it has none."""
    try:
        return run(["skopeo", "inspect", "--no-tags", "--format={{.Digest}}", f"docker://{reference}"]).strip()
    except CommandError:
        return ""
