"""The version of RabbitMQ: which upgrades it supports, and when they begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ... import kube, parts
from ...plan import READY, Context, ReleaseEntry, SpecError, Step, UnsupportedError, check_version, major, waiting
from .model import RabbitMQSpec

_WAY_BACK = "set the old version again; RabbitMQ cannot be downgraded"


_QUORUM_ONLY = (4, 3)
"""Version that refuses queues of several clients that are not replicated."""


def version_entry(ctx: Context[RabbitMQSpec]) -> ReleaseEntry:
    """Return the entry of the release for the version of the spec. Raises SpecError for one that there is not."""
    return ctx.release.in_version("rabbitmq", ctx.spec.version or "")


def is_quorum_only(ctx: Context[RabbitMQSpec]) -> bool:
    """Return True if clients, even of a single broker, have to make all their queues as quorum queues."""
    return major(_label(ctx)) >= _QUORUM_ONLY


def _label(ctx: Context[RabbitMQSpec]) -> str:
    return kube.version_label(version_entry(ctx), kube.settings(ctx.spec)) or ""


def gate(ctx: Context[RabbitMQSpec], cluster: parts.Cluster, members: Sequence[Mapping[str, str]]) -> Step | None:
    """Return the step that holds members back from another version as long as some of them do not serve; None if there
    is no other version. Raises SpecError for an upgrade that RabbitMQ does not support.
    """
    entry, version = version_entry(ctx), _label(ctx)
    if ctx.spec.replicas > 1 and is_quorum_only(ctx):
        message = f"RabbitMQ {version} keeps members in Khepri, which this operator sets up for one alone; set 1"
        raise UnsupportedError("spec.replicas", message)
    path = "spec.version" if ctx.spec.version else "spec.image" if ctx.spec.image else "spec.release"
    running_version = kube.started_version(ctx, cluster.live)
    if ctx.spec.version and major(running_version) and major(running_version) < major(version):
        text = f"{running_version} cannot be upgraded to {version} in place; create another RabbitMQ of that version"
        raise SpecError(path, f"{text}, and move the services there (messaging.rabbitmqRef)")
    is_new = check_version(entry, running_version, version, path, _WAY_BACK)
    # A member of the template without an image would never serve: it is replaced at once.
    if not is_new or running_version != kube.running_version(cluster.live):
        return None
    missing = [f"{member['name']} {member['state'].lower()}" for member in members if member["state"] != "Serving"]
    message = (
        f"the upgrade to RabbitMQ {version} waits until all members serve; {', '.join(missing)}."
        f" Repair them, or set the old version again"
    )
    return Step(name="Version", barrier=True, verdict=waiting(message) if missing else READY)
