"""Growth and shrinking of a database's cluster, one member at a time; it is never created twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import agents, kube, parts
from ...plan import RECOVERY, Context, Object, State, Step, Verdict, progressing
from . import recovery
from .model import OVNNetworkSpec
from .tls import TLS, peer_schemes

FOLDER = "/etc/ovn-raft"
FORMED = "formed"
"""Value of `seed`, instead of the member that may create the cluster, once the cluster exists; no host is named so."""


@dataclass(frozen=True)
class Size:
    """The next size of a cluster."""

    pods: int
    listed: int
    """Number of members, from the first one on; one less than pods while the last one has to leave."""


def next_size(desired: int, listed: int | None, live: Object | None, *, has_record: bool = True) -> Size:
    """Return the size one step from the current one towards `desired`. `listed` is the number of members in the record,
    None without one; `has_record` is True if the running pods' template has the record.

    Raft changes its members one by one, and a member that stops without leaving still counts for the majority
    (Ongaro, Consensus, 4.1). So a pod is removed only once it is no longer ready, which means that it has left.
    """
    if live is None:
        return Size(listed or desired, listed or desired)
    size = live["spec"]["replicas"]
    if listed is None:
        # The running pods do not have a record yet.
        return Size(size, size)
    if listed < size:
        # Whatever `desired` is by now: a member that began to leave cannot be made to stay.
        return Size(listed if _has_left(live, listed) else size, listed)
    # A first member that runs without it is replaced only after the second one is ready, which waits for data of
    # the new one only (a rolling update begins with the last pod).
    if desired == size or not has_record or not kube.judge(live).ready:
        return Size(size, size)
    return Size(size + 1, size + 1) if desired > size else Size(size, size - 1)


def _has_left(live: Object, listed: int) -> bool:
    """Return True if the last member is not ready because it has left. During a rolling update it is not ready while it
    restarts, too, but then it comes back with the record and leaves as it stops.
    """
    rollout = kube.Rollout(live)
    return rollout.is_observed and rollout.ready == listed and rollout.updated > 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Record(Step):
    """Secret `<owner>-<database>-raft`, which containers read when they start (seed) and while they run (members)."""

    secret: str
    size: Size
    verdict_of_members: Verdict | None
    rebuilt_id: str
    """Identity of the cluster; empty for the first cluster."""
    members: Sequence[Mapping[str, str]]
    """State of each member, for the status."""
    is_switching_to_tls: bool
    """True while members may still switch to TLS."""

    @property
    def is_recovering(self) -> bool:
        """Return True if members were lost and are coming back."""
        return self.verdict_of_members is not None and self.verdict_of_members.reason == RECOVERY

    def env(self, key: str) -> dict[str, Any]:
        """Return a `valueFrom` structure; a value in the template would restart every member with each change."""
        return {"secretKeyRef": {"name": self.secret, "key": key}}


def record(ctx: Context[OVNNetworkSpec], cluster: parts.Cluster, forced_pod: str, tls: TLS) -> Record | None:
    """Return the member that may create the cluster, its members and its identity, stored as long as the volumes; None
    for a single member that was always alone. `forced_pod` has to continue with its data.
    """
    replicas, live, suffix = ctx.spec.members(cluster.component), cluster.live, f"{cluster.component}-raft"
    secret = ctx.name(suffix)
    if replicas == 1 and ("Secret", secret) not in ctx.children:
        return None
    stored = cluster.ctx.secret(suffix)
    volumes = live["spec"]["template"]["spec"].get("volumes") or () if live else ()
    has_record = any((volume.get("secret") or {}).get("secretName") == secret for volume in volumes)
    size = next_size(replicas, stored["members"].count(",") + 1 if stored else None, live, has_record=has_record)
    # A ready member has a cluster: from then on an empty disk is a lost one, the first member's too.
    pods = dict(zip(cluster.pod_names(size.listed), cluster.hosts(size.listed), strict=True))
    seed = FORMED if stored.get("seed") == FORMED or cluster.ready_replicas else cluster.hosts(1)[0]
    observed = recovery.cluster(ctx, list(pods))
    plain_pods = observed.members_without("ssl") if observed else list(pods)
    is_single = size.pods == replicas == 1
    scheme_list = peer_schemes(stored.get("schemes", ""), tls, live, is_single=is_single, all_use_tls=not plain_pods)
    data = {"seed": seed, "members": ",".join(pods.values())} | ({"schemes": scheme_list} if scheme_list else {})
    chosen_pod = forced_pod if forced_pod in pods else ""
    state = observed.recovery_state(stored, chosen_pod, pods) if observed else recovery.stored_state(stored)
    is_resizing, is_switching_to_tls = (size.pods, size.listed) != (replicas, replicas), "," in scheme_list
    verdict = progressing(f"{size.listed} of {replicas} members joined") if is_resizing else None
    if is_switching_to_tls and observed and plain_pods and not is_resizing:
        verdict = Verdict(State.READY, f"members switch to TLS between each other, one by one: next {plain_pods[-1]}")
    if seed == FORMED and observed and observed.verdict:
        verdict = observed.verdict
    return Record(
        name="Record",
        objects=(cluster.lasting_secret(suffix, data | state),),
        guarded=True,
        barrier=True,
        secret=secret,
        size=size,
        verdict_of_members=verdict,
        rebuilt_id=state.get("rebuilt", ""),
        members=observed.members if observed else (),
        is_switching_to_tls=is_switching_to_tls,
    )


def ready(*words: str) -> list[str]:
    """Return the command of the probe of a member; `words` are the database's short name and its schema."""
    return agents.shell("ovnnetwork/member.sh", "ovnnetwork/ready.sh", words=words, options="-c")


def stop(*words: str) -> list[str]:
    """Return the command of the hook before a member's end; the words of `ready`, then the command that stops it."""
    return agents.shell("ovnnetwork/member.sh", "ovnnetwork/stop.sh", words=words, options="-c")
