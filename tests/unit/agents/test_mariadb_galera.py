"""The decision of a Galera member: every combination of states, for every combination of who hears whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, combinations_with_replacement, islice, product
from pathlib import Path

import pytest

from openstack_operator.agents.mariadb import galera
from openstack_operator.agents.mariadb.galera import (
    DISCONNECTED,
    MAJORITY_WAIT,
    NON_PRIMARY,
    PRIMARY,
    RECOVERY,
    REJOIN,
    STUCK,
    Act,
    Decision,
    Elapsed,
    Member,
    Record,
    Stage,
    View,
    choose,
    decide,
)
from openstack_operator.agents.mariadb.member import gives_data
from tests.searches import IS_LONG

OURS, THEIRS = "11111111-0000-0000-0000-000000000000", "22222222-0000-0000-0000-000000000000"
LONG = 1000.0
State = str
World = Mapping[str, Member]


def names(count: int) -> list[str]:
    return [f"mariadb-server-{ordinal}" for ordinal in range(count)]


def states(count: int) -> dict[State, Member]:
    """What a member may be, without its name. View a is everybody's, view b that of the larger part after a split."""
    everybody, larger = frozenset(map(str, range(count))), frozenset(map(str, range(count // 2 + 1)))
    a, b = View("a", everybody), View("b", larger)
    kept = Member("", data=True, uuid=OURS)
    serving = replace(kept, stage=Stage.SERVING)
    return {
        "preparing": Member("", Stage.PREPARING),
        "empty": Member(""),
        "single server": Member("", data=True),
        "foreign": replace(kept, uuid=THEIRS, seqno=9),
        "crashed in a at 1": replace(kept, seqno=1, view=a),
        "crashed in a at 2": replace(kept, seqno=2, view=a),
        "crashed in b at 2": replace(kept, seqno=2, view=b),
        "crashed in b at 3": replace(kept, seqno=3, view=b),
        "left at 1": replace(kept, seqno=1),
        "left at 3": replace(kept, seqno=3),
        "left last at 3": replace(kept, seqno=3, safe=True),
        "primary in a": replace(serving, seqno=4, view=a, status=PRIMARY),
        "primary in b": replace(serving, seqno=4, view=b, status=PRIMARY),
        "cut off in a at 1": replace(serving, seqno=1, view=a, status=NON_PRIMARY),
        "cut off in b at 3": replace(serving, seqno=3, view=b, status=NON_PRIMARY),
        "disconnected": replace(serving, seqno=1, view=a, status=DISCONNECTED),
        "looking": replace(kept, seqno=2, view=a, stage=Stage.STARTING),
        "joining empty": Member("", Stage.STARTING),
        "leading": replace(kept, seqno=4, stage=Stage.STARTING, leads=True, view=a),
    }


IN_B = ("crashed in b at 2", "crashed in b at 3", "primary in b", "cut off in b at 3")
FEWER = (
    *("preparing", "empty", "foreign", "crashed in a at 1", "crashed in a at 2", "crashed in b at 3"),
    *("left at 3", "left last at 3", "primary in b", "cut off in a at 1", "looking"),
)
"""What differs for the decision: five members have too many combinations of all."""


def possible(world: World) -> bool:
    """Whether Galera allows it. Only one group can have gone on: a majority of a view that does not run anymore,
    whoever is in a primary component or becomes its first member, or whoever was the last to leave.
    """
    owners = sum(member.safe for member in world.values())
    owners += any(m.status == PRIMARY or m.leads for m in world.values())
    for view in ("a", "b"):
        holders = [m for m in world.values() if m.view and m.view.id == view and m.status != PRIMARY and not m.leads]
        owners += bool(holders and holders[0].view and 2 * len(holders) > len(holders[0].view.members))
    if any(m.view and m.view.id == "b" for m in world.values()):
        # A view is written down by all its members before anything is committed in it; whoever has another one
        # since has left it, and its number falls short of a majority of the one before.
        outside = [m for m in world.values() if m.view and m.view.id == "a"]
        owners += 2 * len(outside) > len(world)
    return owners <= 1


def worlds(count: int, alphabet: Sequence[State]) -> Iterator[dict[str, Member]]:
    """Every possible combination; of five members every fifth one, unless the run is a long one: members of the same
    part of a split are interchangeable there.
    """
    known, part = states(count), count // 2 + 1
    others = [state for state in alphabet if state not in IN_B]
    if count == 3:
        chosen: Iterator[tuple[State, ...]] = product(alphabet, alphabet, others)
    else:
        first = combinations_with_replacement(alphabet, part)
        rest = list(combinations_with_replacement(others, count - part))
        chosen = ((*one, *two) for one in first for two in rest)
    for combination in islice(chosen, None, None, 1 if IS_LONG or count == 3 else 5):
        world = {n: replace(known[s], name=n) for n, s in zip(names(count), combination, strict=True)}
        if possible(world):
            yield world


def parts(world: World) -> Iterator[tuple[Member, ...]]:
    """Every set of members that hear each other."""
    for size in range(1, len(world) + 1):
        yield from combinations(world.values(), size)


def willing(heard: Sequence[Member], me: Member) -> tuple[Member, list[Member]]:
    """The same members, every one that can having voted for `me`."""
    voted = [replace(m, vote=me.name, vote_mark=me.mark, ballot=1) if m.stage is Stage.WAITING else m for m in heard]
    return next(m for m in voted if m.name == me.name), [m for m in voted if m.name != me.name]


def lasting(seconds: float, **others: float) -> Elapsed:
    """No member is in a primary component, and all have answered, for the same time."""
    return Elapsed(without_primary=seconds, since_all_answered=seconds, **others)


def decided(me: Member, heard: Sequence[Member], record: Record, waited: float) -> Decision:
    return decide(me, [m for m in heard if m.name != me.name], record, lasting(waited, in_stage=waited))


RECORDS = (Record((), seed="mariadb-server-0"), Record((), uuid=OURS))


@pytest.mark.seconds
@pytest.mark.parametrize(("count", "alphabet"), [(3, tuple(states(3))), (5, FEWER)], ids=["three", "five"])
@pytest.mark.parametrize("known", RECORDS, ids=["first start", "formed"])
def test_never_two_first_members_and_never_one_behind(count: int, alphabet: Sequence[State], known: Record) -> None:
    record = replace(known, members=tuple(names(count)))
    starts = 0
    for world in worlds(count, alphabet):
        leading = [m.name for m in world.values() if m.status == PRIMARY or m.leads]
        quorums: list[tuple[str, frozenset[str]]] = []
        for heard in parts(world):
            choice = choose(heard, record, LONG)
            candidate = world.get(choice.candidate)
            if candidate is None or candidate not in heard or candidate.stage is not Stage.WAITING:
                continue
            me, others = willing(heard, candidate)
            decision = decide(me, others, record, lasting(LONG))
            if decision.act not in {Act.BOOTSTRAP, Act.INITIALIZE}:
                continue
            starts += 1
            assert not leading, (decision, world)
            quorums.append((me.name, choice.voters))
            kept = [m for m in heard if m.data and m.uuid == candidate.uuid]
            assert all(m.seqno <= candidate.seqno for m in kept), (decision, world)
            if decision.act is Act.INITIALIZE:
                assert record.seed == me.name
                assert not any(m.data for m in world.values()), world
            for missing in choice.voters - {me.name}:
                fewer = [replace(m, vote="") if m.name == missing else m for m in others]
                assert decide(me, fewer, record, lasting(LONG)).act is Act.WAIT, "every one of those votes counts"
        for (one, voters), (other, others_voters) in combinations(quorums, 2):
            assert one == other or voters & others_voters, (one, other, world)
    assert starts > 100, "a test that sees nothing proves nothing"


@pytest.mark.parametrize("known", RECORDS, ids=["first start", "formed"])
def test_a_lone_or_early_member_starts_nothing_without_proof(known: Record) -> None:
    record = replace(known, members=tuple(names(3)))
    for world in worlds(3, tuple(states(3))):
        for heard in parts(world):
            for me in heard:
                decision = decided(me, heard, record, 0.0)
                if decision.act in {Act.BOOTSTRAP, Act.INITIALIZE}:
                    pytest.fail(f"{decision} without a vote: {world}")
                if any(m.status == PRIMARY for m in heard) and me.stage is Stage.WAITING:
                    assert decision.act in {Act.START, Act.REFUSE}


def settle(world: dict[str, Member], record: Record, *, waited: float) -> dict[str, Decision]:
    """What members do once their votes have gone around, everybody hearing everybody."""
    decisions: dict[str, Decision] = {}
    for _ in range(4):
        decisions = {name: decided(me, list(world.values()), record, waited) for name, me in world.items()}
        for name, decision in decisions.items():
            mark = world[decision.vote].mark if decision.vote else ""
            ballot = world[name].ballot + (decision.vote != world[name].vote)
            world[name] = replace(world[name], vote=decision.vote, vote_mark=mark, ballot=ballot)
    return decisions


@pytest.mark.seconds
@pytest.mark.parametrize(("count", "alphabet"), [(3, tuple(states(3))), (5, FEWER)], ids=["three", "five"])
def test_something_happens_wherever_everybody_is_heard(count: int, alphabet: Sequence[State]) -> None:
    record = Record(tuple(names(count)), uuid=OURS)
    for world in worlds(count, alphabet):
        if any(m.stage is Stage.PREPARING or m.leads for m in world.values()):
            continue
        acts = {decision.act for decision in settle(world, record, waited=LONG).values()}
        primary = any(m.status == PRIMARY for m in world.values())
        assert acts & {Act.BOOTSTRAP, Act.START, Act.RESTART, Act.REFUSE} or (primary and acts == {Act.STAY}), world


def crashed(*seqnos: int, view: View | None = None) -> dict[str, Member]:
    everybody = View("v", frozenset(map(str, range(len(seqnos)))))
    return {
        name: Member(name, data=True, uuid=OURS, seqno=seqno, view=view or everybody)
        for name, seqno in zip(names(len(seqnos)), seqnos, strict=True)
    }


def formed(count: int = 3) -> Record:
    return Record(tuple(names(count)), uuid=OURS)


def test_recovery_after_a_power_cut_is_forced_only_after_the_wait() -> None:
    world = crashed(5, 7, 6)
    assert {d.act for d in settle(world, formed(), waited=1).values()} == {Act.START}
    decisions = settle(crashed(5, 7, 6), formed(), waited=RECOVERY + 1)
    assert [d.act for d in decisions.values()] == [Act.WAIT, Act.BOOTSTRAP, Act.WAIT]


def test_members_that_return_far_apart_get_the_time_galera_needs() -> None:
    """One was there a minute before the others, and had voted for one of them by then: it starts when they do."""
    first, second, third = crashed(9, 9, 9).values()
    me = replace(second, vote=first.name, vote_mark=first.mark, ballot=1)
    others = [replace(first, stage=Stage.STARTING), replace(third, stage=Stage.STARTING)]
    decision = decide(me, others, formed(), Elapsed(without_primary=60, since_all_answered=5))
    assert (decision.act, decision.release) == (Act.WAIT, True)
    assert (
        decide(
            replace(me, vote="", vote_mark=""), others, formed(), Elapsed(without_primary=60, since_all_answered=5)
        ).act
        is Act.START
    )
    cut_off = replace(second, stage=Stage.SERVING, status=NON_PRIMARY)
    assert decide(cut_off, others, formed(), Elapsed(without_primary=60, since_all_answered=5)).act is Act.STAY


def test_all_stopped_at_once_leaves_no_view_and_the_most_advanced_begins() -> None:
    world = {name: replace(m, view=None) for name, m in crashed(5, 5, 5).items()}
    assert settle(world, formed(), waited=1)["mariadb-server-0"].act is Act.BOOTSTRAP
    world = {name: replace(m, view=None) for name, m in crashed(5, 5, 5).items()}
    world["mariadb-server-2"] = replace(world["mariadb-server-2"], safe=True)
    assert settle(world, formed(), waited=1)["mariadb-server-2"].act is Act.BOOTSTRAP


def test_a_majority_leaves_a_lost_member_behind_after_the_wait() -> None:
    world = crashed(5, 7, 9)
    del world["mariadb-server-2"]
    early = settle(dict(world), formed(), waited=MAJORITY_WAIT - 5)
    assert {d.act for d in early.values()} == {Act.WAIT}
    assert (
        "waits for mariadb-server-2, which may hold later transactions; for 5 s more" in early["mariadb-server-0"].why
    )
    late = settle(dict(world), formed(), waited=MAJORITY_WAIT + 1)
    assert [d.act for d in late.values()] == [Act.WAIT, Act.BOOTSTRAP]


def test_members_that_left_gracefully_wait_for_one_that_may_be_newer() -> None:
    world = {name: replace(m, view=None) for name, m in crashed(5, 5, 9).items()}
    del world["mariadb-server-2"]
    decisions = settle(world, formed(), waited=LONG)
    assert {d.act for d in decisions.values()} == {Act.WAIT}
    assert all("mariadb-server-2" in d.why for d in decisions.values())


def test_two_lost_disks_cost_nothing_the_third_holds() -> None:
    world = crashed(5, 7, 9)
    for name in names(2):
        world[name] = Member(name)
    assert settle(world, formed(), waited=1)["mariadb-server-2"].act is Act.BOOTSTRAP
    # The third had survived, without a majority: it gives way to itself.
    world["mariadb-server-2"] = replace(world["mariadb-server-2"], stage=Stage.SERVING, status=NON_PRIMARY)
    assert settle(world, formed(), waited=galera.HEALING + 1)["mariadb-server-2"].act is Act.RESTART


def test_lost_disks_everywhere_are_no_first_start() -> None:
    decisions = settle({name: Member(name) for name in names(3)}, formed(), waited=LONG)
    assert {(d.act, d.why) for d in decisions.values()} == {
        (Act.REFUSE, "every member has lost its data; restore a backup")
    }


def test_a_vote_is_kept_until_its_receiver_declines_it() -> None:
    world = crashed(5, 7, 9)
    me = replace(world["mariadb-server-0"], vote="mariadb-server-2", vote_mark=world["mariadb-server-2"].mark, ballot=4)
    alone = [world["mariadb-server-1"]]
    decision = decide(me, alone, formed(), lasting(LONG))
    assert (decision.act, decision.vote, decision.release) == (Act.WAIT, "mariadb-server-2", False)
    assert "may have started the cluster with its vote" in decision.why
    # Galera could form the last view again without us noticing: whoever promised does not take part in that either.
    early = decide(me, list(world.values())[1:], formed(), lasting(1))
    assert early.act is not Act.START
    # It answers, and has not been part of a primary component since.
    ahead = replace(world["mariadb-server-1"], seqno=10)
    decision = decide(me, [ahead, world["mariadb-server-2"]], formed(), lasting(LONG))
    assert (decision.vote, decision.release) == ("mariadb-server-2", True)
    # It has been: what it wrote since is in the way.
    moved = replace(world["mariadb-server-2"], view=View("w", frozenset("9")))
    assert not decide(me, [ahead, moved], formed(), lasting(LONG)).release


def test_a_vote_for_one_that_starts_without_it_is_given_back() -> None:
    """One voted while a third was late. Now all are there, and the other starts and waits for it to do so too."""
    world = crashed(9, 9, 9)
    first, second, third = world.values()
    me = replace(third, vote=first.name, vote_mark=first.mark, ballot=1)
    plain = replace(first, stage=Stage.STARTING)
    others = [plain, replace(second, stage=Stage.STARTING)]
    decision = decide(me, others, formed(), lasting(30))
    assert (decision.act, decision.release) == (Act.WAIT, True)
    assert decide(replace(me, vote="", vote_mark=""), others, formed(), lasting(30)).act is Act.START
    # Once it has taken too long, it is put to the vote.
    assert not decide(me, others, formed(), lasting(LONG)).release
    assert not decide(me, [replace(plain, leads=True), others[1]], formed(), lasting(30)).release
    assert not decide(me, [replace(plain, view=View("w", frozenset("9"))), others[1]], formed(), lasting(30)).release


def test_a_donor_whose_component_broke_meanwhile_starts_anew() -> None:
    me = replace(crashed(9, 9, 9)["mariadb-server-0"], stage=Stage.SERVING, status=PRIMARY)
    assert decide(me, [], formed(), lasting(0, as_idle_donor=50)).act is Act.STAY
    assert decide(me, [], formed(), lasting(0, as_idle_donor=61)).act is Act.RESTART


def test_a_member_knows_whether_it_gives_its_data(tmp_path: Path) -> None:
    command = tmp_path / "17" / "cmdline"
    command.parent.mkdir()
    command.write_bytes(b"mariadbd\0--wsrep-node-name=a\0")
    assert not gives_data(tmp_path)
    command.write_bytes(b"/bin/bash\0-ue\0/usr/bin/wsrep_sst_mariabackup\0--role\0donor\0")
    assert gives_data(tmp_path)


def test_a_vote_given_back_does_not_count_whoever_read_it_before() -> None:
    world = crashed(5, 7, 9)
    me, others = willing(list(world.values()), world["mariadb-server-2"])
    assert decide(me, others, formed(), lasting(LONG)).act is Act.BOOTSTRAP
    taken = {"mariadb-server-0": 1}
    assert decide(me, others, formed(), lasting(LONG), refusals=taken).act is Act.WAIT


def test_an_order_is_carried_out_once_and_only_by_whom_it_names() -> None:
    world = crashed(5, 7, 9)
    order = replace(formed(), force="mariadb-server-0", token="t")
    alone = world["mariadb-server-0"]
    assert decide(alone, [], order, lasting(0)).act is Act.BOOTSTRAP
    assert decide(world["mariadb-server-1"], [world["mariadb-server-2"]], order, lasting(LONG)).act is Act.WAIT
    assert decide(replace(alone, last_order="t"), [], order, lasting(LONG)).act is Act.WAIT
    # A new disk knows of no order, the others do.
    others = [replace(m, last_order="t") for m in world.values()][1:]
    assert decide(alone, others, order, lasting(1)).act is Act.START
    primary = replace(world["mariadb-server-1"], stage=Stage.SERVING, status=PRIMARY)
    assert decide(alone, [primary], order, lasting(0)).act is Act.START, "where there is a cluster, it is joined"
    assert decide(Member(alone.name), [], order, lasting(0)).act is Act.REFUSE


def test_different_histories_are_for_a_human() -> None:
    world = crashed(5, 7, 9)
    world["mariadb-server-1"] = replace(world["mariadb-server-1"], uuid=THEIRS)
    decisions = settle(dict(world), formed(), waited=LONG)
    assert {d.act for d in decisions.values()} == {Act.REFUSE}
    primary = replace(world["mariadb-server-0"], stage=Stage.SERVING, status=PRIMARY)
    decision = decide(world["mariadb-server-1"], [primary], formed(), lasting(LONG))
    assert (decision.act, "delete its volume" in decision.why) == (Act.REFUSE, True)


def test_a_single_server_becomes_first_member_once() -> None:
    alone = Member("mariadb-server-0", data=True)
    first = Record(("mariadb-server-0",), seed="mariadb-server-0")
    assert settle({alone.name: alone}, first, waited=0)[alone.name].act is Act.BOOTSTRAP
    later = crashed(5, 7, 9)[alone.name]
    stale = replace(first, seed="", uuid=OURS)
    assert settle({later.name: later}, stale, waited=LONG)[later.name].act is Act.WAIT


def test_a_running_member_is_restarted_only_after_its_time_to_recover() -> None:
    me = replace(crashed(5, 7, 9)["mariadb-server-0"], stage=Stage.SERVING, status=DISCONNECTED)
    assert decide(me, [], formed(), lasting(5, in_stage=5)).act is Act.STAY
    assert decide(me, [], formed(), lasting(11, in_stage=11)).act is Act.RESTART
    starting = replace(me, stage=Stage.STARTING, status="")
    assert decide(starting, [], formed(), lasting(LONG, in_stage=STUCK - 1)).act is Act.STAY
    assert decide(starting, [], formed(), lasting(LONG, in_stage=STUCK + 1)).act is Act.RESTART
    assert decide(replace(starting, leads=True), [], formed(), lasting(LONG, in_stage=LONG)).act is Act.STAY
    alone = replace(me, status=NON_PRIMARY)
    assert decide(alone, [], formed(), lasting(LONG, in_stage=LONG)).act is Act.STAY, "the others may have gone on"


def test_joining_and_searching_members_have_separate_time_limits() -> None:
    me, other, _ = crashed(5, 7, 9).values()
    starting = replace(me, stage=Stage.STARTING)
    primary = replace(other, stage=Stage.SERVING, status=PRIMARY)
    for peers, longest in (([primary], REJOIN), ([], STUCK)):
        acts = [decide(starting, peers, formed(), lasting(LONG, in_stage=longest + more)).act for more in (-1, 0, 1)]
        assert acts == [Act.STAY, Act.STAY, Act.RESTART]


def test_a_component_is_not_whole_while_another_member_is_ahead() -> None:
    """Its members may start together only if nobody has later transactions."""
    members = crashed(5, 7, 9)
    me, *others = members.values()
    assert galera.is_whole(me, [me, *others])
    assert not galera.is_whole(me, [me, others[0]]), "one of it is not heard"
    ahead = Member("mariadb-server-3", data=True, uuid=OURS, seqno=10, view=View("w", frozenset({"9"})))
    assert not galera.is_whole(me, [me, *others, ahead])
    assert galera.is_whole(me, [me, *others, replace(ahead, seqno=9)])
    # It left gracefully, and has no view.
    assert not galera.is_whole(me, [me, *others, replace(ahead, view=None)])


@pytest.mark.parametrize("waited", [1, 11, RECOVERY + 1])
def test_a_member_that_starts_again_keeps_what_it_alone_has(waited: float) -> None:
    """It acknowledged a transaction in the moment when all were cut off from each other, and was killed."""
    killed, *others = crashed(8, 7, 7).values()
    running = [replace(m, stage=Stage.SERVING, status=NON_PRIMARY) for m in others]
    world = {m.name: m for m in (killed, *running)}
    decisions = settle(world, formed(), waited=waited)
    assert decisions[killed.name].act is Act.WAIT
    expected = Act.RESTART if waited > galera.HEALING else Act.STAY
    assert {decisions[m.name].act for m in running} == {expected}
    # Once they have ended, all members start from what is on their disks, and the last transaction counts.
    stopped = {m.name: replace(m, stage=Stage.WAITING, status="") for m in world.values()}
    acts = [decision.act for decision in settle(stopped, formed(), waited=waited).values()]
    assert acts == ([Act.START] * 3 if waited <= RECOVERY else [Act.BOOTSTRAP, Act.WAIT, Act.WAIT])


def test_running_members_take_back_one_that_is_not_ahead() -> None:
    for killed, *others in (crashed(7, 7, 7).values(), crashed(7, 7, 8).values()):
        running = [replace(m, stage=Stage.SERVING, status=NON_PRIMARY) for m in others]
        world = {m.name: m for m in (killed, *running)}
        acts = [decision.act for decision in settle(world, formed(), waited=1).values()]
        assert acts == [Act.START, Act.STAY, Act.STAY]


def test_published_facts_of_a_member_are_read_back() -> None:
    me = replace(crashed(5, 7, 9)["mariadb-server-1"], vote="x", ballot=3, stage=Stage.SERVING, status=PRIMARY)
    assert galera.member(galera.published(me)) == me
    assert galera.member({"name": "a", "stage": "waiting", "later": 1}) == Member("a")
    with pytest.raises(ValueError, match="not a member's facts"):
        galera.member({"stage": "dancing", "name": "a"})


@pytest.mark.security
@pytest.mark.parametrize("text", ["11.8 <b>", "11.8\n10.11", "11.8.6", "1111.8", "\u0661.\u0662", 11.8, ["11.8"], None])
def test_a_member_reports_a_version_or_none(text: object) -> None:
    told = galera.member({"name": "a", "stage": "serving", "version": text, "tables": text})
    assert (told.version, told.tables) == ("", "")
    known = galera.member({"name": "a", "stage": "serving", "version": "11.8", "tables": "10.11"})
    assert (known.version, known.tables) == ("11.8", "10.11")
