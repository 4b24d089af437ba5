"""Programs of an image, run on the machine that built it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from images import catalog
from images.engine import Buildah
from images.shell import CommandError
from tests import leftovers
from tests.unit.polling import TIMEOUT


@contextmanager
def image_root(name: str) -> Generator[Path]:
    """The root of a container of the image, which is thrown away. Skips the test where there is none."""
    if os.geteuid() or not all(shutil.which(tool) for tool in ("buildah", "mmdebstrap", "skopeo", "unshare")):
        pytest.skip("needs root, buildah and what images are built with: it runs in a root made of an image")
    try:
        engine = Buildah()
        is_built = catalog.reference(name) in engine.references()
    except CommandError as error:
        pytest.skip(f"buildah does not work here: {error}")
    if not is_built:
        pytest.skip(f"the image is not built; python -m images build {name}")
    with engine.root(catalog.reference(name)) as root:
        yield root


@contextmanager
def inside(
    root: Path, uid: int, *command: str, env: Mapping[str, str], output: int = subprocess.DEVNULL
) -> Generator[subprocess.Popen[str]]:
    """A program as a pod runs it: in the image's root, as its user, alone with its children. What it says goes to
    nobody, or to the `output` of subprocess."""
    script = 'mount --rbind /dev "$1/dev" && mount -t proc proc "$1/proc" && exec setsid chroot --userspec="$0:$0" "$@"'
    process = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-ec", script, str(uid), str(root), *command],
        env={"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **env, **leftovers.marked()},
        stdout=output,
        text=True,
    )
    try:
        yield process
    finally:
        # The first of its processes, and with it all others: a signal to unshare would leave them.
        if process.poll() is None:
            for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
            process.kill()
        process.wait(TIMEOUT)


def listens(port: int) -> bool:
    """Whether a program takes connections at this port of the machine."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
