"""Gives the node's libvirt the keys of Ceph that nova-compute will name, and ends once libvirt has them.

It runs before each nova-compute, whose pod is replaced when keys change. libvirt's own pod gets a changed Secret up to
a minute and a half later, and is not replaced: servers that start in between would not find their key. nova-compute
waits for this program, so it looks twice a second, at files and at a socket. KEYS_FOLDER has the files, KEYS_DIGEST is
the SHA-256 of their contents in the order of their names.
"""

from __future__ import annotations

import base64
import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

import libvirt  # pyright: ignore[reportMissingImports]


def read_keys(folder: Path) -> dict[str, bytes]:
    """Return the files by name; Kubernetes' own begin with a dot."""
    return {each.name: each.read_bytes() for each in folder.iterdir() if not each.name.startswith(".")}


def digest(files: Mapping[str, bytes]) -> str:
    """Return the digest as the plan computes it."""
    return hashlib.sha256(b"".join(files[name] for name in sorted(files))).hexdigest()


def define_keys(files: Mapping[str, bytes]) -> list[str]:
    """Define each key in libvirt, and return the UUIDs that it lacks even so. Raises libvirtError."""
    node = libvirt.open("qemu:///system")
    for name in files:
        uuid, _, kind = name.partition(".")
        if kind == "xml":
            secret = node.secretDefineXML(files[name].decode())
            secret.setValue(base64.b64decode(files[f"{uuid}.base64"]))
    defined = {secret.UUIDString() for secret in node.listAllSecrets()}
    node.close()
    return sorted({name.partition(".")[0] for name in files} - defined)


def problem(folder: Path) -> str:
    """Return why nova-compute has to wait, an empty string if it has not."""
    files = read_keys(folder)
    if digest(files) != os.environ["KEYS_DIGEST"]:
        return "the mounted keys are not yet those nova-compute needs"
    try:
        missing = define_keys(files)
    except libvirt.libvirtError as error:
        return f"libvirt: {error}"
    return f"libvirt does not have the keys {', '.join(missing)}" if missing else ""


def ignore_message(*_: object) -> None:
    """Print nothing: `problem` has each error."""


def main() -> None:
    """Wait until libvirt has the keys, and print each reason to wait once."""
    libvirt.registerErrorHandler(ignore_message, None)
    old_text = ""
    while text := problem(Path(os.environ["KEYS_FOLDER"])):
        if text != old_text:
            print(text, flush=True)
            old_text = text
        # libvirt starts at its own time, and sends no notice before there is a connection.
        time.sleep(0.5)


if __name__ == "__main__":
    main()
