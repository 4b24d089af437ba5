"""Programs of an image, run on the machine that built it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from images import catalog
from images.engine import Buildah
from images.shell import CommandError


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
