"""What outlives the members of a cluster: who they are, whether there has ever been a cluster, what a human ordered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import kube, parts
from ...plan import Context, Object, SpecError, Step
from . import galera, roles
from .config import snapshots
from .disk import ENCRYPTED
from .model import MariaDBSpec

FORCE = "openstack.k8s.io/force-bootstrap"
"""Annotation of a MariaDB: the member that is to start the cluster with what it has."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Kept(Step):
    """Secret `<owner>-galera`, which members read while they run."""

    secret: str
    digest: str
    """Follows the content, so that a kubelet is told to bring it to the member at once."""
    members: Sequence[str]
    """Names of the pods there should be now."""
    known: galera.Record
    pending: bool
    """Whether an order of a human is still to be carried out."""


def record(
    ctx: Context[MariaDBSpec],
    names: Sequence[str],
    members: Mapping[str, galera.Member],
    live: Object | None,
    shown: parts.Certified,
) -> Kept:
    """The record as it should be, from what it says, what the members say and the live StatefulSet. Members encrypt
    what they send each other by the certificate that is `shown`, if it is for both sides.

    Raises SpecError where the annotation that orders a start names no member.
    """
    secret = kube.fitting(ctx.name("galera"))
    held = kube.secret_data(ctx.children.get(("Secret", secret)))
    primary = next((m for m in members.values() if m.status == galera.PRIMARY and m.uuid != galera.ZERO), None)
    listed = names[: _size(ctx, held, live, grows=primary is not None)]
    data = {
        "members": ",".join(listed),
        # From the first primary component on an empty disk is a lost one, everywhere.
        "seed": "" if primary else held.get("seed", names[0]),
        "uuid": held.get("uuid", ""),
        **_order(ctx, held, listed),
    }
    alone = live is None or live["spec"]["replicas"] == 1
    if shown.calls and (ENCRYPTED in held or alone or roles.encrypted(listed, ctx.facts)):
        data[ENCRYPTED] = snapshots(shown.common)
    if primary and (not data["uuid"] or (data["token"] and primary.seen == data["token"])):
        data["uuid"] = primary.uuid
    wanted = kube.secret(ctx, secret, data)
    return Kept(
        name="Record",
        objects=(kube.retained(wanted) if ctx.spec.retention == "Retain" else wanted,),
        guarded=True,
        barrier=True,
        secret=secret,
        digest=kube.digest(data),
        members=listed,
        pending=bool(data["token"]) and all(m.seen != data["token"] for m in members.values()),
        known=galera.Record(listed, data["seed"], data["uuid"], data["force"], data["token"], ENCRYPTED in data),
    )


def _size(ctx: Context[Any], held: Mapping[str, str], live: Object | None, *, grows: bool) -> int:
    """A single server becomes the first member before there are others: they would wait for it, and it for them."""
    wanted: int = ctx.spec.replicas
    there = live["spec"]["replicas"] if live else wanted
    listed = held["members"].count(",") + 1 if held else there
    return wanted if grows and live and kube.judge(live).ready else listed


def _order(ctx: Context[Any], held: Mapping[str, str], listed: Sequence[str]) -> dict[str, str]:
    """The last order of a human. It stands until the next; members know by its token that it was carried out."""
    ordered = ctx.annotations.get(FORCE, "")
    if ordered and ordered not in listed:
        raise SpecError(f"metadata.annotations.{FORCE}", f"there is no member {ordered!r}; {', '.join(listed)} are")
    if ordered and ordered != held.get("ordered", ""):
        return {"ordered": ordered, "force": ordered, "token": ctx.draw()}
    return {"ordered": ordered, "force": held.get("force", ""), "token": held.get("token", "")}
