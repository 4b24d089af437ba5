"""The binary log of a server: if it has one, and the number of the server in the identifiers of its changes."""

from __future__ import annotations

import hashlib

from ...plan import Context
from .config import BinaryLog, sets_binary_log
from .model import MariaDBSpec

ANNOTATION = "openstack.k8s.io/binary-log"
"""Annotation of pods that write a binary log because the operator says so."""


def binary_log(ctx: Context[MariaDBSpec]) -> BinaryLog | None:
    """Return the binary log of a server; None if it has none, or one that its user configures."""
    spec = ctx.spec.binary_log
    is_enabled = spec.enabled
    if is_enabled is None:
        is_enabled = _has_log(ctx) and not sets_binary_log(ctx.spec.config)
    return BinaryLog(_server_id(ctx), spec.lifetime) if is_enabled else None


def _has_log(ctx: Context[MariaDBSpec]) -> bool:
    """Return True if the server is new, or writes a log already: to begin with one replaces all pods."""
    live = ctx.live("StatefulSet", "server")
    return live is None or ANNOTATION in (live["spec"]["template"]["metadata"].get("annotations") or {})


def _server_id(ctx: Context[MariaDBSpec]) -> int:
    """Return the number of a server, or of all members of a cluster: those of other clouds have others, and replicas of
    a user have MariaDB's default, 1.
    """
    name = f"{ctx.namespace}/{ctx.owner}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) % (2**32 - 2) + 2
