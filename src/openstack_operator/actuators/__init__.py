"""What lives outside Kubernetes: databases, virtual hosts, users and the catalog, each kept as its resource says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from ..api import Resource
from ..plan import Context
from . import catalog, database, identity, messaging
from .models import DATABASE, SERVICE, USER, VHOST


class Entry(NamedTuple):
    """A kind with what keeps it true; both functions block, and threads may run them side by side."""

    resource: Resource[Any]
    ensure: Callable[[Context[Any]], Sequence[str]]
    """Makes the remote side as the spec says and tells what it changed."""
    remove: Callable[[Context[Any]], None]
    """Removes what `ensure` made; no error where it is gone already."""
    interval: timedelta
    """How often to look again."""


_CHEAP = timedelta(seconds=60)
_DEAR = timedelta(seconds=120)
"""A look at a user costs Keystone a bcrypt hash, a quarter of a second of CPU."""

ACTUATORS: tuple[Entry, ...] = (
    Entry(DATABASE, database.ensure, database.remove, _CHEAP),
    Entry(VHOST, messaging.ensure, messaging.remove, _CHEAP),
    Entry(USER, identity.ensure, identity.remove, _DEAR),
    Entry(SERVICE, catalog.ensure, catalog.remove, _DEAR),
)

__all__ = ["ACTUATORS", "DATABASE", "SERVICE", "USER", "VHOST", "Entry"]
