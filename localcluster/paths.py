"""Where things are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache() -> Path:
    """What took long to make and can be made again: `$OPENSTACK_OPERATOR_CACHE`, or a folder in the user's cache."""
    chosen = os.environ.get("OPENSTACK_OPERATOR_CACHE")
    if chosen:
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "openstack-operator"


def state() -> Path:
    """What clusters hold: `$OPENSTACK_OPERATOR_STATE`, or a folder among the user's state."""
    chosen = os.environ.get("OPENSTACK_OPERATOR_STATE")
    if chosen:
        return Path(chosen).absolute()
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base).absolute() / "openstack-operator" / "clusters"
