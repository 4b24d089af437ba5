"""How a database's cluster grows and shrinks, one member at a time, and is never created twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import kube
from ...plan import RECOVERY, Context, Object, State, Step, Verdict, progressing
from . import recovery
from .model import OVNNetworkSpec
from .tls import Secured, schemes

FOLDER = "/etc/ovn-raft"
FORMED = "formed"
"""In the place of the member that may create the cluster, once there is one: no host is called so."""


@dataclass(frozen=True)
class Size:
    """What a cluster should be next."""

    pods: int
    listed: int
    """Members, counted from the first; one less than pods while the last one is asked to leave."""


def next_size(wanted: int, listed: int | None, live: Object | None, *, told: bool = True) -> Size:
    """One move from what there is towards `wanted`. `listed` is what the record says, None without one; `told` is
    whether the template of what runs has the record.

    Raft changes its members one by one, and a member that stops without leaving still counts for the majority
    (Ongaro, Consensus, 4.1). So a pod is taken away only once it is no longer ready, which is how it says it has left.
    """
    if live is None:
        return Size(listed or wanted, listed or wanted)
    size = live["spec"]["replicas"]
    if listed is None:
        # What runs was not told of a record yet.
        return Size(size, size)
    if listed < size:
        # Whatever is wanted by now: a member that was asked to leave cannot be told to stay.
        return Size(listed if _has_left(live, listed) else size, listed)
    # A first member that runs without it is replaced only after the second one is ready, which waits for what only the
    # new one says (a rolling update begins with the last pod).
    if wanted == size or not told or not kube.judge(live).ready:
        return Size(size, size)
    return Size(size + 1, size + 1) if wanted > size else Size(size, size - 1)


def _has_left(live: Object, listed: int) -> bool:
    """Whether the last member is not ready since it has left. During a rolling update it is also while it restarts, but
    then it comes back with the record at hand and leaves as it stops.
    """
    status = live.get("status") or {}
    if _ready(live) != listed or status.get("observedGeneration", 0) < live["metadata"].get("generation", 0):
        return False
    return status.get("currentRevision") == status.get("updateRevision") or status.get("updatedReplicas", 0) > 0


def _ready(live: Object | None) -> int:
    return ((live or {}).get("status") or {}).get("readyReplicas", 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Record(Step):
    """Secret `<owner>-<database>-raft`, which containers read when they start (seed) and while they run (members)."""

    secret: str
    size: Size
    verdict_of_members: Verdict | None
    rebuilt: str
    """Identity of the cluster if it is not the first one."""
    members: Sequence[Mapping[str, str]]
    """How each member is, for the status."""
    changing: bool
    """Whether members may still go over to TLS."""

    @property
    def recovers(self) -> bool:
        """Whether members were lost and are on their way back."""
        return self.verdict_of_members is not None and self.verdict_of_members.reason == RECOVERY

    def env(self, key: str) -> dict[str, Any]:
        """A `valueFrom` structure; a value, written in the template, would restart every member with each change."""
        return {"secretKeyRef": {"name": self.secret, "key": key}}


def record(
    ctx: Context[OVNNetworkSpec], name: str, hosts: Sequence[str], live: Object | None, forced: str, tls: Secured
) -> Record | None:
    """Who may create the cluster, who belongs to it, and which one it is, kept as long as the volumes; None for a
    single member that never had another. `hosts` are as many as there may ever be, `forced` is the pod that is to go
    on with what it has.
    """
    replicas, secret = ctx.spec.members(name), kube.fitting(ctx.name(name, "raft"))
    child = ctx.children.get(("Secret", secret))
    if replicas == 1 and child is None:
        return None
    held = kube.secret_data(child)
    volumes = live["spec"]["template"]["spec"].get("volumes") or () if live else ()
    told = any((volume.get("secret") or {}).get("secretName") == secret for volume in volumes)
    size = next_size(replicas, held["members"].count(",") + 1 if held else None, live, told=told)
    # Whoever is ready has a cluster: from then on an empty disk is a lost one, the first member's too.
    seed = FORMED if held.get("seed") == FORMED or _ready(live) else hosts[0]
    pods = {recovery.pod_of(host): host for host in hosts[: size.listed]}
    cluster = recovery.cluster(ctx, list(pods))
    plain = cluster.without("ssl") if cluster else list(pods)
    single = size.pods == replicas == 1
    told_schemes = schemes(held.get("schemes", ""), tls, live, single=single, over=not plain)
    data = {"seed": seed, "members": ",".join(pods.values())} | ({"schemes": told_schemes} if told_schemes else {})
    known = cluster.remembered(held, forced if forced in pods else "", pods) if cluster else recovery.kept(held)
    wanted = kube.secret(ctx, secret, data | known)
    moving = (size.pods, size.listed) != (replicas, replicas)
    changing = "," in told_schemes
    verdict = progressing(f"{size.listed} of {replicas} members wanted") if moving else None
    if changing and cluster and plain and not moving:
        verdict = Verdict(State.READY, f"members go over to TLS among each other, one by one: next {plain[-1]}")
    if seed == FORMED and cluster and cluster.verdict:
        verdict = cluster.verdict
    return Record(
        name="Record",
        objects=(kube.retained(wanted) if ctx.spec.retention == "Retain" else wanted,),
        guarded=True,
        barrier=True,
        secret=secret,
        size=size,
        verdict_of_members=verdict,
        rebuilt=known.get("rebuilt", ""),
        members=cluster.members if cluster else (),
        changing=changing,
    )


_ASK = f"""
control=/run/ovn/ovn$1_db.ctl; file=/var/lib/ovn/ovn$1_db.db; name=$2; shift 2
ask() {{ command=$1; shift; ovs-appctl --timeout=3 -t "$control" "cluster/$command" "$name" "$@"; }}
listed() {{ case ",$(cat {FOLDER}/members)," in *",$OVN_ADDRESS,"*) ;; *) return 1 ;; esac; }}
# A member leaves only a cluster of just those listed and itself: one that was taken away and still counts would
# make the rest a minority. The leader removes that first.
leave() {{
    there=$(echo "$1" | grep -Ec ' at (tcp|ssl):')
    [ "$there" = "$(echo "$(cat {FOLDER}/members),$OVN_ADDRESS" | tr , '\\n' | grep -c .)" ] && ask leave
}}
# A server that has left forgets its database. The file is no member's anymore; whoever gets the volume joins anew.
left() {{
    listed && return 1
    case $1 in *"unknown cluster"*) [ ! -e "$file" ] || mv "$file" "$file.left" ;; *) return 1 ;; esac
}}
"""

STALE = """
$3 == "at" { split($4, at, ":"); host[$1] = at[2]; silent[$1] = ($5 == "(self)") ? 0 : -1
             for (i = 5; i < NF; i++) if ($i == "msg") silent[$1] = $(i + 1) }
END { for (a in host) {
        twin = 0; for (b in host) if (b != a && host[b] == host[a] && silent[b] >= 0 && silent[b] < 5000) twin = 1
        gone = index("," members ",", "," host[a] ",") == 0
        if ((twin && (silent[a] < 0 || silent[a] > 15000)) || (gone && silent[a] > 300000)) print a } }
"""
"""awk: from a leader's cluster/status, the servers that will not come back: one of the two at an address where a member
came back with an empty disk, and one that was taken away before it could leave. A member that is only away stays."""

READY = f"""{_ASK}
status=$(ask status 2>&1) || {{ left "$status"; exit 1; }}
case $status in
*"Status: leaving cluster"*) exit 0 ;;
*"Status: cluster member"*) ;;
*) exit 1 ;;
esac
case $status in *"Leader: unknown"*) exit 1 ;; esac
listed || leave "$status"
case $status in *"Role: leader"*)
    for sid in $(echo "$status" | awk -v members="$(cat {FOLDER}/members)" '{STALE}'); do ask kick "$sid" || :; done ;;
esac
"""
"""sh, with a database's short name and its schema: whether this member takes part; it also keeps the list of members
true, since only a member can, and this is what is asked again and again."""

STOP = f"""{_ASK}
if ! listed; then
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        # Asked again and again, for the server may only just have started.
        status=$(ask status 2>&1)
        left "$status" && break
        leave "$status"
        sleep 1
    done
fi
exec "$@"
"""
"""sh, with the same two words and the command that stops the server: leaves the cluster first where it is to go."""


def script(text: str, *words: str) -> list[str]:
    """The command that runs a script with these words."""
    return ["sh", "-c", text, "raft", *words]
