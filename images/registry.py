"""Images travel to a registry, for clusters whose nodes cannot be given an archive."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from images import catalog
from images.engine import Engine
from images.shell import CommandError, run, say

_PREFIX = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
"""Host, port and path, as the names of images have them."""


def prefix(text: str) -> str:
    """What stands before an image's name. Raises ArgumentTypeError for what no image's name can begin with."""
    wanted = text.rstrip("/")
    if not _PREFIX.fullmatch(wanted):
        raise argparse.ArgumentTypeError(f"{text!r} is no registry; write HOST[:PORT][/PATH], in lower case")
    return wanted


def push(engine: Engine, target: str, names: Sequence[str]) -> None:
    """The registry `target` holds every image of `names`; tags are digests, so what is there stays."""
    for name in names:
        wanted = catalog.reference(name, target)
        *options, source = engine.source(catalog.reference(name))
        if _there(wanted):
            continue
        say(f"pushing {wanted}")
        try:
            run(["skopeo", *options, "copy", source, f"docker://{wanted}"])
        except CommandError as error:
            host = target.partition("/")[0]
            hint = (
                f"log in with `skopeo login {host}`; a registry without TLS needs `insecure = true` in registries.conf"
            )
            raise CommandError(f"{error}\n{hint}") from None


def _there(reference: str) -> bool:
    try:
        run(["skopeo", "inspect", "--raw", f"docker://{reference}"])
    except CommandError:
        return False
    return True
