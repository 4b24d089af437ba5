"""Folder of built and downloaded files, which lasts between runs."""

from __future__ import annotations

import os
from pathlib import Path


def directory(*parts: str) -> Path:
    """Return a directory of the cache, made if it is missing. `$OPENSTACK_OPERATOR_CACHE` moves the whole cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    root = Path(os.environ.get("OPENSTACK_OPERATOR_CACHE") or Path(home) / "openstack-operator")
    path = root.joinpath(*parts)
    path.mkdir(parents=True, exist_ok=True)
    return path
