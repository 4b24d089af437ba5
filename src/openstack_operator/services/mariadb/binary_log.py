"""The binary log of a server: if it has one, and the number of the server in the identifiers of its changes."""

from __future__ import annotations

import hashlib

from ...api.units import amount
from ...plan import Context
from .config import BinaryLog, sets_any
from .model import MariaDBSpec

ANNOTATION = "openstack.k8s.io/binary-log"
"""Annotation of pods that write a binary log because the operator says so."""
_LARGEST, _SHARE = 1 << 30, 10
"""Bytes of a log at most, and the share of its volume: a tenth."""
_WITHOUT_LIMIT = "10.11"
"""Version that has no limit for the size of all files."""


def binary_log(ctx: Context[MariaDBSpec]) -> BinaryLog | None:
    """Return the binary log of a server; None if it has none, or one that its user configures."""
    spec = ctx.spec.binary_log
    size = min(_LARGEST, int(amount(ctx.spec.storage_size)) // _SHARE)
    log = BinaryLog(_server_id(ctx), spec.lifetime, size)
    return log if _is_enabled(ctx, log) else None


def _is_enabled(ctx: Context[MariaDBSpec], log: BinaryLog) -> bool:
    spec, live = ctx.spec, ctx.live("StatefulSet", "server")
    if spec.binary_log.enabled is not None:
        return spec.binary_log.enabled
    if live is not None:
        has_log = ANNOTATION in (live["spec"]["template"]["metadata"].get("annotations") or {})
        # An option that contradicts the log of a server is refused, and does not end the log in silence.
        return has_log and not sets_any(spec.config, ["log_bin"])
    is_limited = spec.version != _WITHOUT_LIMIT and spec.image_profile != "kolla"
    return is_limited and not sets_any(spec.config, log.options(clustered=True))


def _server_id(ctx: Context[MariaDBSpec]) -> int:
    """Return the number of a server, or of all members of a cluster. Replicas of a user have MariaDB's default, 1."""
    name = f"{ctx.namespace}/{ctx.owner}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) % (2**32 - 2) + 2
