"""The next move of a member of a clustered OVN database, from what the members report: a pure function.

Raft (Ongaro, Consensus, 4.2) recovers by itself as long as a majority of the servers that were ever admitted and not
removed can come back. This function decides when none can, and which member rebuilds the cluster: exactly one, and
never one that lacks what another one still has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Content of a member's disk."""

    EMPTY = "empty"
    JOINING = "joining"
    """A server with a name of its own that no cluster has admitted yet, so that it has no data either."""
    MEMBER = "member"
    BUSY = "busy"
    """Being replaced just now; nothing may be concluded from it."""


@dataclass(frozen=True)
class Facts:
    """Report of a member about itself."""

    state: State
    led: bool = False
    """True if it takes part in a cluster that has a leader."""
    cluster: str = ""
    """Identity of its cluster."""
    server: str = ""
    """Identity of its disk within the cluster; a member that lost its disk comes back with another one."""
    servers: frozenset[str] = frozenset()
    """Servers that count for the majority, as far as it knows."""
    term: int = 0
    """Of the last entry of its log, and with `index` how much it knows."""
    index: int = 0
    scheme: str = ""
    """Protocol by which others reach it: tcp or ssl, empty for one that does not say."""


class Action(StrEnum):
    """Move of a member."""

    SERVE = "serve"
    """Run with what the disk holds; raft does the rest."""
    WAIT = "wait"
    CREATE = "create"
    """Make a cluster without data."""
    JOIN = "join"
    REJOIN = "rejoin"
    """Put the data aside and join: the cluster it belongs to no longer counts."""
    REBUILD = "rebuild"
    """Make a cluster of this member's data alone."""
    LEAVE = "leave"
    """Leave the cluster, to join it with another address."""
    READDRESS = "readdress"
    """Change the address of a server that is alone."""


@dataclass(frozen=True)
class Decision:
    """A move and its reason."""

    action: Action
    why: str = ""


def decide(
    me: str,
    members: Sequence[str],
    heard: Mapping[str, Facts],
    *,
    seed: str = "",
    forced: str = "",
    cluster: str = "",
    scheme: str = "",
) -> Decision:
    """Return the next move of the member `me`. `members` belong to the cluster, `heard` are the facts of those that
    answer and of the member itself. `seed` is the member that may create the very first cluster, `forced` the member
    that the user chose to rebuild it from its data, whatever the others hold, `cluster` the identity of the one that
    counts, `scheme` the protocol between members; each may be empty.
    """
    mine = heard[me]
    leaders = [facts for host, facts in sorted(heard.items()) if host != me and facts.led]
    if mine.state is State.MEMBER:
        return _with_data(me, members, heard, leaders, forced=forced, cluster=cluster, scheme=scheme)
    if mine.state is State.BUSY:
        return Decision(Action.WAIT, "is being made anew")
    if me not in members:
        return Decision(Action.WAIT, "is no member")
    if leaders:
        # A server that was about to join a cluster that is no more takes no other.
        lost = bool(mine.cluster) and all(facts.cluster != mine.cluster for facts in leaders)
        anew = mine.state is State.EMPTY or lost
        return Decision(Action.JOIN if anew else Action.SERVE, "joins the cluster")
    return _without_data(me, members, heard, seed=seed, forced=forced)


def _without_data(me: str, members: Sequence[str], heard: Mapping[str, Facts], *, seed: str, forced: str) -> Decision:
    if forced == me:
        return Decision(Action.CREATE, "creates a cluster without data, as it was told to")
    holders = sorted(host for host, facts in heard.items() if facts.state in {State.MEMBER, State.BUSY})
    if holders:
        return Decision(Action.WAIT, f"has no data; waits for {', '.join(map(_short, holders))}")
    if seed == me:
        return Decision(Action.CREATE, "creates the cluster")
    if unheard := [host for host in members if host not in heard]:
        return Decision(Action.WAIT, f"has no data; waits for {', '.join(map(_short, unheard))}, which may have some")
    if me == members[0]:
        return Decision(Action.CREATE, "creates the cluster anew: no member has data")
    return Decision(Action.WAIT, f"has no data; waits for {_short(members[0])} to create the cluster anew")


def _with_data(
    me: str,
    members: Sequence[str],
    heard: Mapping[str, Facts],
    leaders: Sequence[Facts],
    *,
    forced: str,
    cluster: str,
    scheme: str,
) -> Decision:
    mine = heard[me]
    disbelieved = bool(cluster) and mine.cluster != cluster and any(facts.cluster == cluster for facts in leaders)
    # A member that was taken away may not have been told; its cluster goes on without it, and never answers it again.
    removals = [f.cluster != mine.cluster or (bool(f.servers) and mine.server not in f.servers) for f in leaders]
    if me in members and (disbelieved or (removals and all(removals) and not mine.led)):
        return Decision(Action.REJOIN, "joins the cluster, which goes on without what it holds")
    if mine.led:
        return _led(me, members, heard, scheme)
    if leaders:
        return Decision(Action.SERVE, "is not yet in touch with the leader")
    if forced == me:
        return Decision(Action.REBUILD, "makes the cluster anew from its data, as it was told to")
    if unheard := [host for host in members if host not in heard]:
        return Decision(Action.SERVE, f"has no leader; waits for {', '.join(map(_short, unheard))}")
    return _majority(me, members, heard, cluster=cluster)


def _led(me: str, members: Sequence[str], heard: Mapping[str, Facts], scheme: str) -> Decision:
    """Members go over to another scheme one after the other, the last one first, each while all are well: two others
    then hold all data, and no second member is moving.
    """
    mine = heard[me]
    if scheme in {"", mine.scheme}:
        return Decision(Action.SERVE)
    if mine.servers == frozenset({mine.server}):
        return Decision(Action.READDRESS, f"goes over from {mine.scheme} to {scheme}")
    why = f"speaks {mine.scheme} with other members"
    if me not in members or len(members) < 3:
        return Decision(Action.SERVE, why)
    later = members[members.index(me) + 1 :]
    unwell = [host for host in members if not _agrees(mine, heard.get(host))]
    still = [host for host in later if host not in unwell and heard[host].scheme != scheme]
    if unwell or still:
        return Decision(Action.SERVE, f"{why}; waits for {', '.join(map(_short, unwell or still))}")
    if len(mine.servers) != len(members):
        return Decision(Action.SERVE, f"{why}; waits for a server that is to be removed")
    return Decision(Action.LEAVE, f"goes over from {mine.scheme} to {scheme}: leaves, and joins anew")


def _agrees(mine: Facts, facts: Facts | None) -> bool:
    """Return True if a member is well, and knows of the same members."""
    if facts is None or not facts.led or not facts.scheme:
        return False
    return (facts.cluster, facts.servers) == (mine.cluster, mine.servers)


def _majority(me: str, members: Sequence[str], heard: Mapping[str, Facts], *, cluster: str) -> Decision:
    """Every member has been heard and none has a leader: who is not there now has lost its disk."""
    mine = heard[me]
    present = {facts.server for facts in heard.values() if facts.server and facts.cluster in {"", mine.cluster}}
    if me not in members or not mine.servers or 2 * len(mine.servers & present) > len(mine.servers):
        return Decision(Action.SERVE, "elects a leader")
    if any(facts.state is State.BUSY for facts in heard.values()):
        return Decision(Action.SERVE, "waits for the cluster to be made anew")
    holders = [host for host in members if heard[host].state is State.MEMBER]
    clusters = {heard[host].cluster for host in holders}
    believed = [host for host in holders if heard[host].cluster == (cluster or mine.cluster)]
    if not believed or (len(clusters) > 1 and not cluster):
        return Decision(Action.SERVE, "has no leader, and members hold data of different clusters: say which to keep")
    best = max(believed, key=lambda host: (heard[host].term, heard[host].index, -members.index(host)))
    if best != me:
        return Decision(Action.SERVE, f"waits for {_short(best)} to make the cluster anew from its data")
    return Decision(Action.REBUILD, "makes the cluster anew from its data: most of the others lost theirs")


def _short(host: str) -> str:
    return host.partition(".")[0]
