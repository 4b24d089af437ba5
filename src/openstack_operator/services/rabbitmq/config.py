"""rabbitmq.conf in three layers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...plan import SpecError

AMQP = 5672
MANAGEMENT = 15672
DISTRIBUTION = 25672

DEFAULTS: Mapping[str, Any] = {
    "vm_memory_high_watermark.absolute": "512MiB",
    "disk_free_limit.absolute": "500MB",
    # Statistics nobody looks at are most of what an idle broker computes.
    "collect_statistics_interval": 30000,
    "log.console.level": "info",
}

WIRED: Mapping[str, Any] = {
    "listeners.tcp.default": AMQP,
    "management.tcp.port": MANAGEMENT,
    "loopback_users": "none",
    "log.console": True,
    "log.file": False,
}

_WIRED_ELSEWHERE = (
    *("default_user", "default_pass", "cluster_formation."),
    *("listeners.tcp", "management.tcp", "management.listener", "loopback_users"),
)
"""Beginnings of keys: the first account comes from a Secret, the members from the spec, the ports from here."""

_KEY = re.compile(r"[A-Za-z0-9_.$-]+")


def rabbitmq_conf(user: Mapping[str, Any]) -> str:
    """The file the broker reads. Raises SpecError where the user sets a key the operator wires."""
    taken = sorted(key for key in user if key in WIRED or key.startswith(_WIRED_ELSEWHERE))
    if taken:
        raise SpecError(
            f"spec.config.{taken[0]}", f"the operator sets {', '.join(taken)} itself; remove it from config"
        )
    for key, value in user.items():
        # A line break would begin a line of its own, past the check for what is wired.
        if not _KEY.fullmatch(key) or not isinstance(value, (str, int, float)) or "\n" in str(value):
            raise SpecError(f"spec.config.{key!r}", "expected a key of rabbitmq.conf with a value on one line")
    merged = {**DEFAULTS, **user, **WIRED}
    return "".join(f"{key} = {_text(value)}\n" for key, value in sorted(merged.items()))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
