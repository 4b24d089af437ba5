"""State that outlives the members of a cluster: their names, whether there has been a cluster, what a user ordered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import kube, parts
from ...agents.mariadb import galera
from ...agents.mariadb.galera import SST_CONF
from ...parts.members import ordered_member
from ...plan import Context, Object, Step
from . import roles
from .config import sst_conf
from .model import MariaDBSpec

FORCE = "openstack.k8s.io/force-bootstrap"
"""Annotation of a MariaDB: the member that has to start the cluster with what it has."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterRecord(Step):
    """Secret `<owner>-galera`, which members read while they run."""

    secret: str
    digest: str
    """Digest of the content: when it changes, the kubelet brings the Secret to the member at once."""
    members: Sequence[str]
    """Names of the pods that should exist now."""
    content: galera.Record
    has_pending_order: bool
    """True if an order of a user is still to be carried out."""


def cluster_record(
    ctx: Context[MariaDBSpec],
    cluster: parts.Cluster,
    members: Mapping[str, galera.Member],
    certificate: parts.Certified,
    *,
    may_grow: bool,
) -> ClusterRecord:
    """Return the record as it should be, from what it says, what the members say and the live StatefulSet. Members
    encrypt what they send each other by `certificate`, if it is for both sides. Members are added if it `may_grow`.

    Raises SpecError as `ordered_member`.
    """
    stored, live, names = cluster.ctx.secret("galera"), cluster.live, cluster.pod_names(ctx.spec.replicas)
    primary = next((m for m in members.values() if m.status == galera.PRIMARY and m.uuid != galera.ZERO), None)
    current = names[: _member_count(ctx, stored, live, grows=may_grow and primary is not None)]
    data = {
        "members": ",".join(current),
        # Once there has been a primary component, an empty disk is a lost one, everywhere.
        "seed": "" if primary else stored.get("seed", names[0]),
        "uuid": stored.get("uuid", ""),
        **_order(ctx, stored, current),
    }
    is_single = live is None or live["spec"]["replicas"] == 1
    if certificate.calls and (SST_CONF in stored or is_single or roles.can_encrypt(current, ctx.facts)):
        data[SST_CONF] = sst_conf(certificate.common)
    if primary and (not data["uuid"] or (data["token"] and primary.last_order == data["token"])):
        data["uuid"] = primary.uuid
    return ClusterRecord(
        name="Record",
        objects=(cluster.lasting_secret("galera", data),),
        guarded=True,
        barrier=True,
        secret=ctx.name("galera"),
        digest=kube.digest(data),
        members=current,
        has_pending_order=bool(data["token"]) and all(m.last_order != data["token"] for m in members.values()),
        content=galera.Record(current, data["seed"], data["uuid"], data["force"], data["token"], SST_CONF in data),
    )


def _member_count(ctx: Context[Any], stored: Mapping[str, str], live: Object | None, *, grows: bool) -> int:
    """Return the number of members. Others start after a single server is one: they would wait for each other."""
    desired: int = ctx.spec.replicas
    live_replicas = live["spec"]["replicas"] if live else desired
    current = stored["members"].count(",") + 1 if stored else live_replicas
    return desired if grows and live and kube.judge(live).ready else current


def _order(ctx: Context[Any], stored: Mapping[str, str], current: Sequence[str]) -> dict[str, str]:
    """Return the last order of a user. It stands until the next; members know by its token that it was carried out."""
    member = ordered_member(ctx, FORCE, current)
    if member and member != stored.get("ordered", ""):
        return {"ordered": member, "force": member, "token": ctx.draw()}
    return {"ordered": member, "force": stored.get("force", ""), "token": stored.get("token", "")}
