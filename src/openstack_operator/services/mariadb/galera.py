"""What a member of a Galera cluster does next, decided from what the members say of themselves.

Every member decides for itself, and the operator tells the same from the same facts. This file runs in the pods too,
with nothing but Python's own library.

What it stands on: Galera itself forms a primary component from a majority of the last one, or again from all of the
last one (`pc.recovery`), so a plain start is always safe. A forced start (`--wsrep-new-cluster`) is not, and happens
only with the votes of members without whom nobody else can have gone on, each of whom votes for one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

PORT = 4569
"""Where members tell of themselves."""
SECURE = 4570
"""The same through TLS."""
ZERO = "00000000-0000-0000-0000-000000000000"
PRIMARY, NON_PRIMARY, DISCONNECTED = "Primary", "non-Primary", "Disconnected"

PATIENCE = 20.0
"""Seconds a member that does not answer is waited for before the majority of the last view goes on without it."""
RECOVERY = 45.0
"""Seconds Galera has to form the last view again by itself, once all its members are there; it takes 5 to 9."""
STUCK = 40.0
"""Seconds a start may take without becoming part of a primary component; Galera itself gives up after 30, or never."""
CUT_OFF = 10.0
"""Seconds mariadbd is left `Disconnected`; it never comes back from there by itself."""
HEALING = 10.0
"""Seconds running members have to find each other again by themselves; after a partition it takes 5 to 7."""
DESYNCED = 60.0
"""Seconds a member may take no queries as a donor while nothing gives its data to another: what lasts is the state of a
transfer that ended with the component it began in, from which Galera does not come back."""
OUTSIDE = 60.0
"""Seconds a member may stay outside a primary component that it hears of."""


class Stage(StrEnum):
    """What a member's mariadbd does."""

    PREPARING = "preparing"
    """Not running; how far its data are is being found out."""
    WAITING = "waiting"
    """Not running."""
    STARTING = "starting"
    """Running, does not answer yet: it looks for the others, or receives data."""
    SERVING = "serving"
    """Running, answers."""


class Act(StrEnum):
    """What to do."""

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
    """Wait for a human."""


@dataclass(frozen=True)
class View:
    """The primary component a member was last part of (gvwstate.dat, which a graceful stop removes)."""

    id: str
    members: frozenset[str] = frozenset()
    """UUIDs of mariadbd processes."""


@dataclass(frozen=True)
class Member:
    """What a member says of itself."""

    name: str
    stage: Stage = Stage.WAITING
    status: str = ""
    """wsrep_cluster_status while it serves."""
    data: bool = False
    """Whether there is a database on its disk."""
    uuid: str = ZERO
    """The history its data belong to; ZERO for data that were never part of a cluster."""
    seqno: int = -1
    """The last transaction on its disk."""
    safe: bool = False
    """The last to leave its cluster, all the others having left before."""
    view: View | None = None
    leads: bool = False
    """Starting as the first of a new component."""
    vote: str = ""
    """Who may bootstrap as far as this member is concerned."""
    vote_mark: str = ""
    """The `mark` of whom it voted for."""
    ballot: int = 0
    """Rises with each vote."""
    seen: str = ""
    """Token of the last override this member knows to be carried out."""

    @property
    def unbound(self) -> bool:
        """Whether it can do without the votes it has: it is not starting as the first of a new component."""
        return self.stage is Stage.WAITING or (self.stage is Stage.STARTING and not self.leads)

    @property
    def mark(self) -> str:
        """Changes once the member has been part of a primary component."""
        return f"{self.view.id if self.view else ''}/{self.uuid}:{self.seqno}"


@dataclass(frozen=True)
class Record:
    """What outlives members: the operator writes it, members read it."""

    members: Sequence[str]
    """Names, in order."""
    seed: str = ""
    """The member that may make the first database; empty once there has been a cluster."""
    uuid: str = ""
    """The cluster's history, once it is known."""
    force: str = ""
    """The member a human told to start the cluster with what it has."""
    token: str = ""
    """Tells one such order from the next."""
    encrypted: bool = False
    """Whether members ask each other through TLS."""


@dataclass(frozen=True)
class Decision:
    """What a member does, and why."""

    act: Act
    why: str
    vote: str = ""
    """Whom it supports from now on."""
    release: bool = False
    """Whether to ask the one it voted for to give the vote back."""


@dataclass(frozen=True)
class Choice:
    """Who bootstraps, and whose votes that takes."""

    why: str
    candidate: str = ""
    """Empty where nobody may."""
    voters: frozenset[str] = frozenset()
    empty: bool = False
    """There are no data anywhere."""
    refused: bool = False


def decide(
    me: Member,
    others: Iterable[Member],
    record: Record,
    *,
    waited: float,
    together: float,
    running: float = 0.0,
    desynced: float = 0.0,
    refused: Mapping[str, int] | None = None,
) -> Decision:
    """What `me` does next. `others` are those that answer; `waited` seconds nobody is known to be in a primary
    component, `together` seconds ago all of the last one were there for the first time since (0 before that, so that it
    counts alike for all of them, however far apart they came back), `running` seconds mariadbd is in its stage,
    `desynced` seconds it is in a primary component with others and takes no queries, as a donor that gives nothing;
    `refused` ballots, by voter, were given back.
    """
    if me.status == PRIMARY:
        stuck = desynced > DESYNCED
        why = "was cut off while it gave its data, and stays out of step" if stuck else "part of the primary component"
        return Decision(Act.RESTART if stuck else Act.STAY, why)
    heard = {member.name: member for member in others}
    if me.stage is Stage.PREPARING:
        return Decision(Act.WAIT, "finding out how far its data are", me.vote)
    leading = next((m.name for m in heard.values() if m.status == PRIMARY), "")
    if me.stage in {Stage.STARTING, Stage.SERVING}:
        return _running(me, heard, record, waited, together, running, leading)
    if leading:
        if me.data and ZERO not in {me.uuid, heard[leading].uuid} and me.uuid != heard[leading].uuid:
            why = f"its data belong to another cluster than those of {leading}; delete its volume to let it join"
            return Decision(Act.REFUSE, why, me.vote)
        return Decision(Act.START, f"joins {leading}", me.vote)
    return _down(me, heard, record, waited, together, refused or {})


def _running(  # noqa: PLR0911  (a table)
    me: Member,
    heard: Mapping[str, Member],
    record: Record,
    waited: float,
    together: float,
    running: float,
    leading: str,
) -> Decision:
    """While mariadbd runs outside a primary component."""
    if me.stage is Stage.STARTING:
        if me.leads:
            return Decision(Act.STAY, "starts the cluster", me.vote)
        if running > (OUTSIDE if leading else STUCK):
            return Decision(Act.RESTART, "started without finding a primary component", me.vote)
        return Decision(Act.STAY, f"joins {leading}" if leading else "looks for the others", me.vote)
    if me.status == DISCONNECTED:
        if running > CUT_OFF:
            return Decision(Act.RESTART, "Galera has given up its connections", me.vote)
        return Decision(Act.STAY, "disconnected", me.vote)
    if leading:
        act = Act.RESTART if running > OUTSIDE else Act.STAY
        return Decision(act, f"outside the primary component of {leading}", me.vote)
    known = [me, *heard.values()]
    if whole(me, known) and together <= RECOVERY:
        return Decision(Act.STAY, "all members of the last primary component are there again", me.vote)
    choice = choose(known, record, waited)
    if record.force == me.name and _pending(record, known):
        return Decision(Act.RESTART, "was told to start the cluster with what it has", me.vote)
    if choice.candidate and waited > HEALING:
        # Votes are for those that do not run: what runs may become primary by itself.
        return Decision(Act.RESTART, f"gives way: {choice.why}", me.vote)
    return Decision(Act.STAY, f"no majority of the last primary component; {choice.why}", me.vote)


def _down(  # noqa: PLR0911  (a table)
    me: Member,
    heard: Mapping[str, Member],
    record: Record,
    waited: float,
    together: float,
    refused: Mapping[str, int],
) -> Decision:
    """While mariadbd does not run and nobody is in a primary component, as far as is known."""
    if me.name not in record.members:
        return Decision(Act.WAIT, "the record does not list it", me.vote)
    known = [me, *heard.values()]
    if _pending(record, known):
        if record.force != me.name:
            return Decision(Act.WAIT, f"waits for {record.force}, which was told to start the cluster", me.vote)
        if not me.data:
            return Decision(Act.REFUSE, "was told to start the cluster, and has no data; name another member", me.vote)
        return Decision(Act.BOOTSTRAP, "was told to start the cluster with what it has", me.name)
    if starter := next((m.name for m in heard.values() if m.leads and m.stage is Stage.STARTING), ""):
        return Decision(Act.WAIT, f"waits for {starter}, which starts the cluster", me.vote)
    choice = choose(known, record, waited)
    bound = me.vote not in {"", me.name}
    there = together <= RECOVERY and whole(me, known)
    if not choice.refused and not bound and there:
        return Decision(Act.START, "all members of the last primary component are there", "")
    # The one it voted for starts without its vote, and waits for it as it waits for that one.
    plain = bound and there and me.vote in heard and heard[me.vote].stage is Stage.STARTING
    if not choice.candidate or plain or (bound and me.vote != choice.candidate):
        return _kept(me, heard, choice) if bound else Decision(_waiting(choice), choice.why)
    if choice.candidate != me.name:
        return Decision(Act.WAIT, choice.why, choice.candidate)
    votes = {m.name for m in heard.values() if m.vote == me.name and m.vote_mark == me.mark and _valid(m, refused)}
    if me.vote == me.name and choice.voters <= votes | {me.name}:
        return Decision(Act.INITIALIZE if choice.empty else Act.BOOTSTRAP, choice.why, me.name)
    return Decision(Act.WAIT, f"{choice.why}; waits for the others to agree", me.name)


def _pending(record: Record, known: Sequence[Member]) -> bool:
    """Whether a human's order is still to be carried out, as far as these members know."""
    return bool(record.token) and record.token not in {m.seen for m in known}


def _waiting(choice: Choice) -> Act:
    return Act.REFUSE if choice.refused else Act.WAIT


def _valid(voter: Member, refused: Mapping[str, int]) -> bool:
    return voter.stage is Stage.WAITING and voter.ballot > refused.get(voter.name, 0)


def _kept(me: Member, heard: Mapping[str, Member], choice: Choice) -> Decision:
    """A vote given is kept until its receiver says that it made no use of it."""
    other = heard.get(me.vote)
    if other is None:
        return Decision(Act.WAIT, f"waits for {me.vote}, which may have started the cluster with its vote", me.vote)
    unused = other.unbound and (other.mark == me.vote_mark or not other.data)
    return Decision(_waiting(choice), choice.why, me.vote, release=unused)


def whole(me: Member, known: Sequence[Member]) -> bool:
    """Whether every member of the primary component `me` was last part of is there, and none is ahead of them."""
    if me.view is None or me.stage is Stage.PREPARING:
        return False
    holders = [m for m in known if m.view and m.view.id == me.view.id and m.stage is not Stage.PREPARING]
    ahead = max(m.seqno for m in known) > max(m.seqno for m in holders)
    return not ahead and len(holders) == len(me.view.members)


def choose(known: Sequence[Member], record: Record, waited: float) -> Choice:
    """Who may bootstrap as far as these members know."""
    known = [m for m in known if m.stage is not Stage.PREPARING and m.name in record.members]
    absent = [name for name in record.members if name not in {m.name for m in known}]
    if not absent and any(len(m.view.members) > len(record.members) for m in known if m.view):
        # The list is an old one: the cluster has grown since.
        absent = ["members it does not know yet"]
    histories = {m.uuid for m in known if m.data and m.uuid != ZERO} | ({record.uuid} - {""})
    if len(histories) > 1:
        return Choice(_histories(known, record), refused=True)
    voters = frozenset(record.members)
    if absent:
        voters, why = _majority(known), f"waits for {', '.join(absent)}, which may hold later transactions"
        if not voters:
            return Choice(why if any(m.data for m in known) else f"waits for {', '.join(absent)}")
        if waited <= PATIENCE:
            return Choice(f"{why}; for {PATIENCE - waited:.0f} s more")
    # Data that were never part of a cluster are those of a single server, which becomes the first of several. Once
    # there is a cluster they are nothing.
    kept = [m for m in known if m.data and (m.uuid != ZERO or record.seed)]
    if not kept:
        return _nothing(record)
    if len(kept) > 1 and any(m.uuid == ZERO for m in kept):
        named = ", ".join(m.name for m in kept)
        return Choice(
            f"{named} have data of servers of their own; delete the volumes that are not wanted", refused=True
        )
    best = max(kept, key=lambda m: (m.seqno, m.safe, -record.members.index(m.name)))
    return Choice(f"{best.name} starts the cluster: it is the most advanced", best.name, voters | {best.name})


def _nothing(record: Record) -> Choice:
    if record.seed:
        return Choice(f"{record.seed} makes the first database", record.seed, frozenset(record.members), empty=True)
    return Choice("every member has lost its data; restore a backup", refused=True)


def _majority(known: Sequence[Member]) -> frozenset[str]:
    """Members that are more than half of one and the same last view, so that no later one can be without them.

    Whoever left gracefully proves nothing, for the others may have gone on; except the last one.
    """
    for member in known:
        if member.safe:
            return frozenset({member.name})
        if member.view:
            holders = frozenset(m.name for m in known if m.view and m.view.id == member.view.id)
            if 2 * len(holders) > len(member.view.members):
                return holders
    return frozenset()


def _histories(known: Sequence[Member], record: Record) -> str:
    told = [f"{m.name} {m.uuid}" for m in known if m.data and m.uuid not in {ZERO, record.uuid}]
    return f"members hold data of different clusters: {', '.join(told)}; delete the volumes of those that are wrong"


def member(facts: Mapping[str, Any]) -> Member:
    """What a member published; what it does not say is unknown. Raises ValueError for what is no member's."""
    known = {field.name for field in fields(Member)} - {"view", "stage"}
    try:
        given = facts.get("view")
        view = View(str(given["id"]), frozenset(given["members"])) if given else None
        stage = Stage(facts["stage"])
        return Member(**{name: facts[name] for name in known & set(facts)}, stage=stage, view=view)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a member's facts: {error}") from error


def published(me: Member) -> dict[str, Any]:
    """What `member` reads."""
    view = {"id": me.view.id, "members": sorted(me.view.members)} if me.view else None
    return {**{field.name: getattr(me, field.name) for field in fields(Member)}, "stage": me.stage.value, "view": view}
