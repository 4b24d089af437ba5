"""The version of RabbitMQ: which upgrades it supports, and when they begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ... import kube, parts
from ...plan import READY, Context, ReleaseEntry, Step, check_version, waiting
from .model import RabbitMQSpec

_WAY_BACK = "set that again; RabbitMQ goes back to no earlier version"


def gate(
    ctx: Context[RabbitMQSpec], cluster: parts.Cluster, entry: ReleaseEntry, members: Sequence[Mapping[str, str]]
) -> Step | None:
    """Return the step that holds members back from another version as long as some of them do not serve; None if there
    is no other version. Raises SpecError for an upgrade that RabbitMQ does not support.
    """
    version = kube.version_label(entry, kube.settings(ctx.spec)) or ""
    path = "spec.image" if ctx.spec.image else "spec.release"
    running_version = kube.started_version(ctx, cluster.live)
    is_new = check_version(entry, running_version, version, path, _WAY_BACK)
    # A member of the template without an image would never serve: it is replaced at once.
    if not is_new or running_version != kube.running_version(cluster.live):
        return None
    missing = [f"{member['name']} {member['state'].lower()}" for member in members if member["state"] != "Serving"]
    message = (
        f"the upgrade to RabbitMQ {version} waits until all members serve, since it replaces them one by one;"
        f" {', '.join(missing)}. Bring them back, or set the earlier version again"
    )
    return Step(name="Version", barrier=True, verdict=waiting(message) if missing else READY)
