"""Folders of files that stay between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache() -> Path:
    """Return the folder of files that can be rebuilt: `$OPENSTACK_OPERATOR_CACHE`, or one in the user's cache."""
    chosen = os.environ.get("OPENSTACK_OPERATOR_CACHE")
    if chosen:
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "openstack-operator"


def state() -> Path:
    """Return the folder of the clusters' data: `$OPENSTACK_OPERATOR_STATE`, or one in the user's state."""
    chosen = os.environ.get("OPENSTACK_OPERATOR_STATE")
    if chosen:
        return Path(chosen).absolute()
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base).absolute() / "openstack-operator" / "clusters"
