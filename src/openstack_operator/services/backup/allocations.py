"""Resources of nodes in restored data: what Placement and Nova say of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .report import listed, number

_CONDUCTOR = "sts/nova-conductor"
"""Pods that have Nova's own programs, in a cloud of an OpenStackControlPlane."""


def restored_status(namespace: str, stored: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the status of a restore says of allocations; None if no database has both sides."""
    databases: Mapping[str, Mapping[str, Any]] = stored.get("databases", {})
    reports = [report for each in databases.values() if isinstance(report := each.get("allocations"), dict)]
    if len(reports) != 1:
        return None
    [report] = reports
    # In a session of its own: oslo.messaging does not start in the process group of `kubectl exec`, which is 0 there.
    program = f"kubectl exec -n {namespace} {_CONDUCTOR} -- setsid --wait nova-manage placement"
    return {
        "servers": number(report.get("servers")),
        "withoutServer": listed(report.get("withoutServer"), lambda _: f"{program} audit --delete", "servers"),
        "withoutAllocation": listed(
            report.get("withoutAllocation"), lambda _: f"{program} heal_allocations", "servers"
        ),
    }
