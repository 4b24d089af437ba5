"""The next act of a member of a Galera cluster, decided from what the members say of themselves.

Every member decides for itself, and the operator concludes the same from the same facts. This file runs in the pods
too, with nothing but Python's own library.

The foundation: Galera itself forms a primary component from a majority of the last one, or again from all of the
last one (`pc.recovery`), so a plain start is safe where `is_whole` allows it. A forced one (`--wsrep-new-cluster`)
needs the votes of members without which no other member can have gone on, each of which votes for one at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

PORT = 4569
"""Port at which members report on themselves."""
TLS_PORT = 4570
"""Port for the same through TLS."""
SST_CONF = "sst.cnf"
"""File of the record that exists once every member has a certificate. MariaDB reads it, too: it has the options of the
script that copies all data to another member.
"""
_VERSION = re.compile(r"[0-9]{1,3}\.[0-9]{1,3}")
_BOOTSTRAP = re.compile(r"-?[0-9]{1,18}@[0-9a-f]{8}")
ZERO = "00000000-0000-0000-0000-000000000000"
PRIMARY, NON_PRIMARY, DISCONNECTED = "Primary", "non-Primary", "Disconnected"

MAJORITY_WAIT = 20.0
"""Seconds a member that does not answer is waited for before the majority of the last view goes on without it."""
RECOVERY = 45.0
"""Seconds Galera has to form the last view again by itself, once all its members answer; it takes 5 to 9."""
STUCK = 40.0
"""Seconds a start may take without becoming part of a primary component; Galera itself gives up after 30, or never."""
CUT_OFF = 10.0
"""Seconds mariadbd is left `Disconnected`; it never comes back from there by itself."""
HEALING = 10.0
"""Seconds running members have to find each other again by themselves; after a partition it takes 5 to 7."""
DESYNCED = 60.0
"""Seconds a member may take no queries as a donor while nothing gives its data to another: what lasts is the state of a
transfer that ended with the component it began in, from which Galera does not come back."""
REJOIN = 60.0
"""Seconds a member may stay outside a primary component that it hears of."""
ORDER_KEY = "seen"
"""Key of `last_order` in what members publish and remember: so members of an older version call it, and one that did
not find it there would carry out an old order again.
"""


class Stage(StrEnum):
    """State of a member's mariadbd."""

    PREPARING = "preparing"
    """Not running; the member finds out how far its data are."""
    WAITING = "waiting"
    """Not running."""
    STARTING = "starting"
    """Running, does not answer yet: it looks for the others, or receives data."""
    SERVING = "serving"
    """Running, answers."""


class Act(StrEnum):
    """Act of a member."""

    STAY = "stay"
    WAIT = "wait"
    START = "start"
    """Start mariadbd; Galera decides whether there is a cluster to join."""
    BOOTSTRAP = "bootstrap"
    """Start mariadbd as the first member of a new primary component with the data it has."""
    INITIALIZE = "initialize"
    """Make an empty database, and start as with bootstrap."""
    RESTART = "restart"
    """End mariadbd, and decide again."""
    REFUSE = "refuse"
    """Wait for a user."""


@dataclass(frozen=True)
class View:
    """The primary component a member was last part of (gvwstate.dat, which a graceful stop removes)."""

    id: str
    members: frozenset[str] = frozenset()
    """UUIDs of mariadbd processes."""


@dataclass(frozen=True)
class Member:
    """Report of a member on itself."""

    name: str
    stage: Stage = Stage.WAITING
    status: str = ""
    """wsrep_cluster_status while it serves."""
    data: bool = False
    """True if there is a database on its disk."""
    uuid: str = ZERO
    """The history its data belong to; ZERO for data that were never part of a cluster."""
    seqno: int = -1
    """The last transaction on its disk."""
    safe: bool = False
    """True if it left its cluster last, after all the others."""
    view: View | None = None
    leads: bool = False
    """True while it starts as the first of a new component."""
    vote: str = ""
    """The member that may bootstrap as far as this member is concerned."""
    vote_mark: str = ""
    """The `mark` of the member it voted for."""
    ballot: int = 0
    """Number that rises with each vote."""
    last_order: str = ""
    """Token of the last order this member knows to be carried out."""
    version: str = ""
    """Major version of its server's program; empty for a member that does not say it."""
    tables: str = ""
    """Major version that its system tables are of, empty if nothing says it."""
    bootstraps: tuple[str, ...] | None = None
    """The last bootstraps of its cluster, as `<last transaction then>@<random word>`; None if it does not know."""

    @property
    def is_unbound(self) -> bool:
        """True if it can do without the votes it has: it is not starting as the first of a new component."""
        return self.stage is Stage.WAITING or (self.stage is Stage.STARTING and not self.leads)

    @property
    def mark(self) -> str:
        """Text that changes once the member has been part of a primary component."""
        return f"{self.view.id if self.view else ''}/{self.uuid}:{self.seqno}"


@dataclass(frozen=True)
class Record:
    """State that outlives members: the operator writes it, members read it."""

    members: Sequence[str]
    """Names, in order."""
    seed: str = ""
    """The member that may make the first database; empty once there has been a cluster."""
    uuid: str = ""
    """The cluster's history, once it is known."""
    force: str = ""
    """The member that a user ordered to start the cluster with what it has."""
    token: str = ""
    """Token that distinguishes one such order from the next."""
    encrypted: bool = False
    """True if members ask each other through TLS."""


@dataclass(frozen=True)
class Decision:
    """Act of a member, with its reason."""

    act: Act
    why: str
    vote: str = ""
    """The member it supports from now on."""
    release: bool = False
    """True if it asks the one it voted for to give the vote back."""


@dataclass(frozen=True)
class Choice:
    """The member that bootstraps, and the voters that it needs."""

    why: str
    candidate: str = ""
    """Empty if no member may bootstrap."""
    voters: frozenset[str] = frozenset()
    is_empty: bool = False
    """True if there are no data anywhere."""
    is_refused: bool = False


@dataclass(frozen=True, kw_only=True)
class Elapsed:
    """Seconds, by the clock of the member that decides."""

    without_primary: float
    """Since a member was last known to be in a primary component."""
    since_all_answered: float
    """Since all members of the last primary component answered for the first time after it was lost. 0 until they do,
    so that all members count from the same moment, even if they came back at different times.
    """
    in_stage: float = 0.0
    """Since mariadbd entered its stage."""
    as_idle_donor: float = 0.0
    """Since mariadbd, in a primary component with others, takes no queries as a donor that sends no data."""


def decide(
    me: Member, peers: Iterable[Member], record: Record, elapsed: Elapsed, refusals: Mapping[str, int] | None = None
) -> Decision:
    """Return what `me` does next. `peers` are the members that answer; `refusals` has, by voter, the ballot of the last
    vote that `me` gave back.
    """
    if me.status == PRIMARY:
        stuck = elapsed.as_idle_donor > DESYNCED
        why = "stays desynced since a broken state transfer" if stuck else "part of the primary component"
        return Decision(Act.RESTART if stuck else Act.STAY, why)
    by_name = {member.name: member for member in peers}
    if me.stage is Stage.PREPARING:
        return Decision(Act.WAIT, "reading its last transaction", me.vote)
    primary = next((m.name for m in by_name.values() if m.status == PRIMARY), "")
    if me.stage in {Stage.STARTING, Stage.SERVING}:
        return _decide_running(me, by_name, record, elapsed, primary)
    if primary:
        if me.data and ZERO not in {me.uuid, by_name[primary].uuid} and me.uuid != by_name[primary].uuid:
            why = f"its data belong to another cluster than {primary}; delete its volume to let it join"
            return Decision(Act.REFUSE, why, me.vote)
        return Decision(Act.START, f"joins {primary}", me.vote)
    return _decide_stopped(me, by_name, record, elapsed, refusals or {})


def _decide_running(  # noqa: PLR0911  (a table)
    me: Member, peers: Mapping[str, Member], record: Record, elapsed: Elapsed, primary: str
) -> Decision:
    """Decide while mariadbd runs outside a primary component."""
    if me.stage is Stage.STARTING:
        if me.leads:
            return Decision(Act.STAY, "starts the cluster", me.vote)
        if elapsed.in_stage > (REJOIN if primary else STUCK):
            return Decision(Act.RESTART, "started without finding a primary component", me.vote)
        return Decision(Act.STAY, f"joins {primary}" if primary else "looks for the other members", me.vote)
    if me.status == DISCONNECTED:
        if elapsed.in_stage > CUT_OFF:
            return Decision(Act.RESTART, "Galera has ended its connections", me.vote)
        return Decision(Act.STAY, "disconnected", me.vote)
    if primary:
        act = Act.RESTART if elapsed.in_stage > REJOIN else Act.STAY
        return Decision(act, f"outside the primary component of {primary}", me.vote)
    members = [me, *peers.values()]
    if is_whole(me, members) and elapsed.since_all_answered <= RECOVERY:
        return Decision(Act.STAY, "all members of the last primary component answer again", me.vote)
    choice = choose(members, record, elapsed.without_primary)
    if record.force == me.name and _is_pending(record, members):
        return Decision(Act.RESTART, "starts the cluster with its data, as spec orders", me.vote)
    if choice.candidate and elapsed.without_primary > HEALING:
        # Votes are for those that do not run: what runs may become primary by itself.
        return Decision(Act.RESTART, f"gives way: {choice.why}", me.vote)
    return Decision(Act.STAY, f"no majority of the last primary component; {choice.why}", me.vote)


def _decide_stopped(  # noqa: PLR0911  (a table)
    me: Member, peers: Mapping[str, Member], record: Record, elapsed: Elapsed, refusals: Mapping[str, int]
) -> Decision:
    """Decide while mariadbd does not run and no member is known to be in a primary component."""
    if me.name not in record.members:
        return Decision(Act.WAIT, "the record does not list it", me.vote)
    members = [me, *peers.values()]
    if _is_pending(record, members):
        if record.force != me.name:
            return Decision(Act.WAIT, f"waits for {record.force}, which was ordered to start the cluster", me.vote)
        if not me.data:
            return Decision(Act.REFUSE, "is to start the cluster, but has no data; name another member", me.vote)
        return Decision(Act.BOOTSTRAP, "starts the cluster with its data, as spec orders", me.name)
    if starter := next((m.name for m in peers.values() if m.leads and m.stage is Stage.STARTING), ""):
        return Decision(Act.WAIT, f"waits for {starter}, which starts the cluster", me.vote)
    choice = choose(members, record, elapsed.without_primary)
    is_bound = me.vote not in {"", me.name}
    has_all = elapsed.since_all_answered <= RECOVERY and is_whole(me, members)
    if not choice.is_refused and not is_bound and has_all:
        return Decision(Act.START, "all members of the last primary component answer", "")
    # The one it voted for starts without its vote, and waits for it as it waits for that one.
    both_wait = is_bound and has_all and me.vote in peers and peers[me.vote].stage is Stage.STARTING
    if not choice.candidate or both_wait or (is_bound and me.vote != choice.candidate):
        return _keep_vote(me, peers, choice) if is_bound else Decision(_wait_or_refuse(choice), choice.why)
    if choice.candidate != me.name:
        return Decision(Act.WAIT, choice.why, choice.candidate)
    votes = {m.name for m in peers.values() if m.vote == me.name and m.vote_mark == me.mark and _is_valid(m, refusals)}
    if me.vote == me.name and choice.voters <= votes | {me.name}:
        return Decision(Act.INITIALIZE if choice.is_empty else Act.BOOTSTRAP, choice.why, me.name)
    return Decision(Act.WAIT, f"{choice.why}; waits for the other members to agree", me.name)


def _is_pending(record: Record, members: Sequence[Member]) -> bool:
    """Return True if a user's order is still to be carried out, as far as these members know."""
    return bool(record.token) and record.token not in {m.last_order for m in members}


def _wait_or_refuse(choice: Choice) -> Act:
    return Act.REFUSE if choice.is_refused else Act.WAIT


def _is_valid(voter: Member, refusals: Mapping[str, int]) -> bool:
    return voter.stage is Stage.WAITING and voter.ballot > refusals.get(voter.name, 0)


def _keep_vote(me: Member, peers: Mapping[str, Member], choice: Choice) -> Decision:
    """Keep a vote until its receiver says that it made no use of it."""
    receiver = peers.get(me.vote)
    if receiver is None:
        return Decision(Act.WAIT, f"waits for {me.vote}, which may have started the cluster with its vote", me.vote)
    is_unused = receiver.is_unbound and (receiver.mark == me.vote_mark or not receiver.data)
    return Decision(_wait_or_refuse(choice), choice.why, me.vote, release=is_unused)


def is_whole(me: Member, members: Sequence[Member]) -> bool:
    """Return True if every member of the primary component `me` was last part of answers, and Galera will form it again
    with the last transaction that any of them has.
    """
    if me.view is None or me.stage is Stage.PREPARING:
        return False
    holders = [m for m in members if m.view and m.view.id == me.view.id and m.stage is not Stage.PREPARING]
    # Galera goes on from members that ran all the time, and makes one that started again give up what it has beyond.
    leaders = [m for m in holders if m.stage is Stage.SERVING] or holders
    is_ahead = max(m.seqno for m in members) > max(m.seqno for m in leaders)
    return not is_ahead and len(holders) == len(me.view.members)


def choose(  # noqa: PLR0911  (a table)
    members: Sequence[Member], record: Record, without_primary: float
) -> Choice:
    """Return the member that may bootstrap as far as these members know, which have known of no primary component for
    `without_primary` seconds.
    """
    members = [m for m in members if m.stage is not Stage.PREPARING and m.name in record.members]
    absent = [name for name in record.members if name not in {m.name for m in members}]
    if not absent and any(len(m.view.members) > len(record.members) for m in members if m.view):
        # The list is an old one: the cluster has grown since.
        absent = ["members it does not know yet"]
    histories = {m.uuid for m in members if m.data and m.uuid != ZERO} | ({record.uuid} - {""})
    if len(histories) > 1:
        foreign = ", ".join(f"{m.name} {m.uuid}" for m in members if m.data and m.uuid not in {ZERO, record.uuid})
        why = f"members hold data of different clusters: {foreign}; delete the volumes of the wrong members"
        return Choice(why, is_refused=True)
    voters = frozenset(record.members)
    if absent:
        voters, why = _majority(members), f"waits for {', '.join(absent)}, which may hold later transactions"
        if not voters:
            return Choice(why if any(m.data for m in members) else f"waits for {', '.join(absent)}")
        if without_primary <= MAJORITY_WAIT:
            return Choice(f"{why}; for {MAJORITY_WAIT - without_primary:.0f} s more")
    # Data that were never part of a cluster are those of a single server, which becomes the first of several. Once
    # there is a cluster they are nothing.
    candidates = [m for m in members if m.data and (m.uuid != ZERO or record.seed)]
    if not candidates and record.seed:
        return Choice(f"{record.seed} makes the first database", record.seed, frozenset(record.members), is_empty=True)
    if not candidates:
        return Choice("every member has lost its data; restore a backup", is_refused=True)
    if len(candidates) > 1 and any(m.uuid == ZERO for m in candidates):
        names = ", ".join(m.name for m in candidates)
        return Choice(f"{names} have data of separate servers; delete the volumes you do not need", is_refused=True)
    best = max(candidates, key=lambda m: (m.seqno, m.safe, -record.members.index(m.name)))
    return Choice(f"{best.name} starts the cluster: it is the most advanced", best.name, voters | {best.name})


def _majority(members: Sequence[Member]) -> frozenset[str]:
    """Return members that are more than half of one and the same last view, so that no later one can be without them.

    A member that left gracefully proves nothing, for the others may have gone on; except the last one.
    """
    for member in members:
        if member.safe:
            return frozenset({member.name})
        if member.view:
            holders = frozenset(m.name for m in members if m.view and m.view.id == member.view.id)
            if 2 * len(holders) > len(member.view.members):
                return holders
    return frozenset()


def member(facts: Mapping[str, Any]) -> Member:
    """Return the member that published `facts`; it may leave out some. What is no major version says none. Raises
    ValueError for facts of no member.
    """
    names = {field.name for field in fields(Member)} - {"view", "stage", "last_order"}
    try:
        order = str(facts.get(ORDER_KEY, ""))
        view_facts = facts.get("view")
        view = View(str(view_facts["id"]), frozenset(view_facts["members"])) if view_facts else None
        stage = Stage(facts["stage"])
        values = {name: facts[name] for name in names & set(facts)}
        # They become the text of a condition.
        for name in {"version", "tables"} & values.keys():
            values[name] = each if isinstance(each := values[name], str) and _VERSION.fullmatch(each) else ""
        if facts.get("bootstraps") is not None:
            values["bootstraps"] = tuple(filter(is_bootstrap, facts["bootstraps"]))
        return Member(**values, last_order=order, stage=stage, view=view)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a member's facts: {error}") from error


def published(me: Member) -> dict[str, Any]:
    """Return the facts that `member` reads."""
    view = {"id": me.view.id, "members": sorted(me.view.members)} if me.view else None
    facts = {field.name: getattr(me, field.name) for field in fields(Member)}
    return {**facts, ORDER_KEY: facts.pop("last_order"), "stage": me.stage.value, "view": view}


def is_bootstrap(value: object) -> bool:
    """Return True for the text of a bootstrap."""
    return isinstance(value, str) and _BOOTSTRAP.fullmatch(value) is not None
