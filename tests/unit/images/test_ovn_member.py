"""Who makes a cluster of OVN's databases anew: exhaustively, over what disks hold and who hears whom."""

from __future__ import annotations

import hashlib
import http.server
import importlib
import itertools
import json
import os
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.ovn.member.address import readdressed
from images.ovn.member.decision import Action, Decision, Facts, State, decide

FOLDER = Path(__file__).parent.parent.parent.parent / "images" / "ovn"
MAKES = {Action.CREATE, Action.REBUILD}
LESS, MORE = (2, 9), (3, 7)
"""Terms and indices of last entries: a later term knows more, whatever the index."""


def host(n: int) -> str:
    return f"nb-{n}.nb"


def disks(held: Sequence[str], config: frozenset[str]) -> dict[str, Facts]:
    """What members hold: `-` nothing, `j` a server that joins, `<` and `>` data with less and more in it, `o` data of
    another cluster.
    """
    found: dict[str, Facts] = {}
    for n, kind in enumerate(held):
        match kind:
            case "-":
                found[host(n)] = Facts(State.EMPTY)
            case "j":
                found[host(n)] = Facts(State.JOINING, server=f"j{n}")
            case _:
                term, index = LESS if kind == "<" else MORE
                cluster = "other" if kind == "o" else "one"
                found[host(n)] = Facts(State.MEMBER, False, cluster, f"s{n}", config, term, index)
    return found


def configurations(size: int) -> Iterator[frozenset[str]]:
    """Who may be counted for the majority: the first servers, and those whose disks were lost and not yet removed."""
    first = {f"s{n}" for n in range(size)}
    for lost in range(size):
        yield frozenset(first | {f"lost{n}" for n in range(lost)})
    # One that has just been counted and does not know it yet.
    yield frozenset(first | {"j1"})


def decisions(held: Mapping[str, Facts], heard_by: Mapping[str, Iterable[str]], **told: str) -> dict[str, Decision]:
    members = list(held)
    return {me: decide(me, members, {other: held[other] for other in (me, *heard_by[me])}, **told) for me in members}


def check(held: Mapping[str, Facts], heard_by: Mapping[str, Iterable[str]], config: frozenset[str]) -> None:
    """Nothing is lost and nothing made twice, whoever hears whom."""
    found = decisions(held, heard_by)
    makers = [me for me, decision in found.items() if decision.action in MAKES]
    assert len(makers) <= 1, found
    for me in makers:
        data = {other: facts for other, facts in held.items() if facts.state is State.MEMBER}
        if found[me].action is Action.CREATE:
            assert not data, "what somebody still has must not be given up"
            continue
        assert held[me] in data.values()
        best = max((facts.term, facts.index) for facts in data.values())
        assert (held[me].term, held[me].index) == best
        # The rest of the old cluster, should it do without this one, is no majority of it.
        rest = {facts.server for other, facts in held.items() if other != me and facts.server}
        assert 2 * len(config & rest) <= len(config)
    assert all(d.action not in {Action.REJOIN, Action.JOIN} for d in found.values()), "there is nobody to join"


def complete(held: Mapping[str, Facts]) -> dict[str, list[str]]:
    return {me: [other for other in held if other != me] for me in held}


def test_three_members_whoever_hears_whom() -> None:
    others = {me: [list(s) for s in subsets([o for o in range(3) if o != me])] for me in range(3)}
    for kinds in itertools.product("-j<>", repeat=3):
        for config in configurations(3):
            held = disks(kinds, config)
            for views in itertools.product(*others.values()):
                check(held, {host(me): map(host, seen) for me, seen in enumerate(views)}, config)


def subsets(items: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.chain.from_iterable(itertools.combinations(items, n) for n in range(len(items) + 1))


def test_five_members_that_all_hear_each_other() -> None:
    for kinds in itertools.product("-j<>", repeat=5):
        for config in configurations(5):
            held = disks(kinds, config)
            check(held, complete(held), config)


@given(st.data())
def test_five_members_whoever_hears_whom(data: st.DataObject) -> None:
    config = data.draw(st.sampled_from(list(configurations(5))))
    held = disks(data.draw(st.lists(st.sampled_from("-j<>"), min_size=5, max_size=5)), config)
    check(held, {me: data.draw(st.sets(st.sampled_from(sorted({*held} - {me})))) for me in held}, config)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_single_member_goes_on_after_any_loss_once_all_are_heard(size: int) -> None:
    for kinds in itertools.product("-<>", repeat=size):
        for config in configurations(size):
            held = disks(kinds, config)
            there = {facts.server for facts in held.values()}
            lives = 2 * len(config & there) > len(config)
            makers = [d for d in decisions(held, complete(held)).values() if d.action in MAKES]
            assert len(makers) == (0 if lives else 1), (kinds, config)


def test_members_with_data_of_different_clusters_wait_for_a_word() -> None:
    held = disks(["o", "<", "-"], frozenset({"s0", "s1", "s2"}))
    assert not {d.action for d in decisions(held, complete(held)).values()} & MAKES
    believed = decisions(held, complete(held), cluster="one")
    assert believed[host(1)].action is Action.REBUILD
    assert believed[host(0)].action is Action.SERVE


def speaking(scheme: str, n: int, *, led: bool = True, config: Iterable[str] = ("s0", "s1", "s2")) -> Facts:
    return Facts(State.MEMBER, led, "one", f"s{n}", frozenset(config), scheme=scheme)


def test_members_go_over_one_by_one_and_only_while_all_are_well() -> None:
    for schemes in itertools.product(["tcp", "ssl", ""], repeat=3):
        for led in itertools.product([True, False], repeat=3):
            held = {host(n): speaking(schemes[n], n, led=led[n]) for n in range(3)}
            found = decisions(held, complete(held), scheme="ssl")
            leave = [me for me, decision in found.items() if decision.action is Action.LEAVE]
            well = all(led) and "" not in schemes
            plain = [host(n) for n in range(3) if schemes[n] == "tcp"]
            assert leave == (plain[-1:] if well else []), (schemes, led)
            assert {d.action for d in found.values()} <= {Action.SERVE, Action.LEAVE}


@pytest.mark.parametrize("missing", range(3))
def test_a_member_changes_to_tls_only_if_it_hears_all_others(missing: int) -> None:
    held = {host(n): speaking("tcp", n) for n in range(3)}
    heard = {me: [other for other in held if other != host(missing)] for me in held}
    left = [me for me, decision in decisions(held, heard, scheme="ssl").items() if decision.action is Action.LEAVE]
    assert left == ([] if missing < 2 else [host(2)]), "the last member hears itself"


def test_a_member_keeps_its_address_while_membership_changes() -> None:
    lost = {host(n): speaking("tcp", n, config=("s0", "s1", "s2", "lost")) for n in range(3)}
    assert {d.action for d in decisions(lost, complete(lost), scheme="ssl").values()} == {Action.SERVE}
    held = {host(n): speaking("tcp", n) for n in range(2)} | {host(2): speaking("tcp", 2, config=("s0", "s2"))}
    assert {d.action for d in decisions(held, complete(held), scheme="ssl").values()} == {Action.SERVE}
    assert {d.action for d in decisions(held, complete(held)).values()} == {Action.SERVE}, "nobody was told"


def test_a_single_member_changes_its_address_and_two_wait_for_a_third() -> None:
    alone = {host(0): speaking("tcp", 0, config=("s0",))}
    assert decisions(alone, complete(alone), scheme="ssl")[host(0)].action is Action.READDRESS
    assert decisions(alone, complete(alone), scheme="tcp")[host(0)].action is Action.SERVE
    # Who was just added to the record has no vote yet.
    both = {**alone, host(1): Facts(State.EMPTY)}
    assert decisions(both, complete(both), scheme="ssl")[host(0)].action is Action.READDRESS
    two = {host(n): speaking("tcp", n, config=("s0", "s1")) for n in range(2)}
    assert {d.action for d in decisions(two, complete(two), scheme="ssl").values()} == {Action.SERVE}
    # One that is to leave for good does so.
    held = {host(n): speaking("tcp", n) for n in range(3)}
    assert decide(host(2), [host(0), host(1)], held, scheme="ssl").action is Action.SERVE


def test_members_wait_for_an_unheard_member_that_may_have_more_data() -> None:
    held = disks(["<", "-", "-"], frozenset({"s0", "s1", "s2"}))
    found = decisions(held, {host(0): [host(1)], host(1): [host(0)], host(2): []})
    assert found[host(0)] == Decision(Action.SERVE, "has no leader; waits for nb-2")
    assert found[host(1)].action is Action.WAIT
    assert found[host(2)] == Decision(Action.WAIT, "has no data; waits for nb-0, nb-1, which may have some")


def test_the_user_may_say_who_goes_on() -> None:
    held = disks(["<", ">", "-"], frozenset({"s0", "s1", "s2"}))
    nobody = dict.fromkeys(held, ())
    assert decisions(held, nobody, forced=host(0))[host(0)].action is Action.REBUILD
    assert decisions(held, nobody, forced=host(2))[host(2)].action is Action.CREATE
    made = {d.action for me, d in decisions(held, nobody, forced=host(0)).items() if me != host(0)}
    assert not made & MAKES
    # Where others still have a leader, there is nothing to be made anew.
    led = {**held, host(1): Facts(State.MEMBER, True, "one", "s1")}
    assert decisions(led, complete(led), forced=host(0))[host(0)].action is Action.SERVE
    assert decisions(led, complete(led), forced=host(2))[host(2)].action is Action.JOIN


def test_a_recreated_cluster_is_joined() -> None:
    held = disks(["<", "-", "j"], frozenset({"s0", "s1", "s2"}))
    anew = {**held, host(1): Facts(State.MEMBER, True, "anew", "n1")}
    found = decisions(anew, complete(anew))
    assert [found[host(n)].action for n in range(3)] == [Action.REJOIN, Action.SERVE, Action.SERVE]
    # A leader of a cluster that is believed in no more gives it up for the one that is.
    both = {host(0): Facts(State.MEMBER, True, "one", "s0"), host(1): Facts(State.MEMBER, True, "anew", "n1")}
    told = decisions(both, complete(both), cluster="anew")
    assert [told[host(n)].action for n in range(2)] == [Action.REJOIN, Action.SERVE]
    untold = decisions(both, complete(both))
    assert {d.action for d in untold.values()} == {Action.SERVE}


def test_a_member_removed_while_away_rejoins_once_it_is_listed_again() -> None:
    stale = Facts(State.MEMBER, False, "one", "s2", frozenset({"s0", "s1", "s2"}), *LESS)
    led = Facts(State.MEMBER, True, "one", "s0", frozenset({"s0", "n1"}))
    heard = {host(0): led, host(2): stale}
    assert decide(host(2), [host(0), host(1), host(2)], heard).action is Action.REJOIN
    assert decide(host(2), [host(0), host(1)], heard).action is Action.SERVE
    # One of those that are led may not know of it yet.
    aware = {**heard, host(1): Facts(State.MEMBER, True, "one", "n1", frozenset({"s0", "n1", "s2"}))}
    assert decide(host(2), [host(0), host(1), host(2)], aware).action is Action.SERVE
    untold = {**heard, host(0): Facts(State.MEMBER, True, "one", "s0")}
    assert decide(host(2), [host(0), host(1), host(2)], untold).action is Action.SERVE


def test_a_server_that_joined_nothing_takes_what_is_there() -> None:
    led = Facts(State.MEMBER, True, "anew", "n1")
    joins = Facts(State.JOINING, cluster="gone", server="j0")
    members = [host(0), host(1)]
    assert decide(host(0), members, {host(0): joins, host(1): led}).action is Action.JOIN
    # A member that has left stays away.
    assert decide(host(2), members, {host(2): Facts(State.EMPTY), host(1): led}).action is Action.WAIT


def test_the_first_cluster_is_created_by_its_seed_unless_somebody_has_data() -> None:
    empty = disks(["-", "-", "-"], frozenset())
    alone = {me: list[str]() for me in empty}
    seeded = decisions(empty, alone, seed=host(0))
    assert [d.action for d in seeded.values()] == [Action.CREATE, Action.WAIT, Action.WAIT]
    held = disks(["-", "<", "-"], frozenset({"s0", "s1", "s2"}))
    assert decisions(held, complete(held), seed=host(0))[host(0)].action is Action.WAIT


def test_nothing_is_concluded_from_a_member_that_is_being_replaced() -> None:
    held = disks(["<", "-", "-"], frozenset({"s0", "s1", "s2"}))
    busy = {**held, host(1): Facts(State.BUSY)}
    assert not {d.action for d in decisions(busy, complete(busy)).values()} & MAKES
    empty = {host(0): Facts(State.EMPTY), host(1): Facts(State.BUSY)}
    assert decisions(empty, complete(empty))[host(0)].action is Action.WAIT


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program, which finds its modules beside it."""
    monkeypatch.syspath_prepend(FOLDER / "member")
    return importlib.import_module("member")


@pytest.mark.parametrize(
    ("told", "certified", "schemes", "wanted"),
    [
        ("", False, ["tcp"], "tcp"),
        ("ssl", False, ["tcp"], "tcp"),
        ("", True, ["tcp", "ssl"], ""),
        ("ssl,tcp", True, ["ssl", "tcp"], "ssl"),
        ("ssl", True, ["ssl"], "ssl"),
    ],
)
def test_plain_text_ends_once_all_members_use_tls(
    program: Any, told: str, certified: bool, schemes: list[str], wanted: str
) -> None:
    assert program.spoken(told, certified=certified) == schemes
    assert program.target_scheme(schemes) == wanted


def test_scheme_of_a_member_is_read_from_its_status(program: Any) -> None:
    status = "Cluster ID: 8e53 (8e53a)\nServer ID: 9035 (9035b)\nAddress: ssl:nb-0.nb:6643\nStatus: cluster member\n"
    assert program.facts_of_status(f"{status}Leader: self\n").scheme == "ssl"


def log(*records: Mapping[str, Any]) -> bytes:
    """A database's file (ovsdb(5), "Clustered Database Format")."""
    texts = [json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records]
    return b"".join(b"OVSDB CLUSTER %d %b\n%b" % (len(t), hashlib.sha1(t).hexdigest().encode(), t) for t in texts)


OLD, NEW = "tcp:nb-0.nb:6643", "ssl:nb-0.nb:6643"
LOOKALIKE = {"index": 3, "data": [None, {"T": {"row": {"name": f'"servers":{{"s0":"{OLD}"}}'}}}]}


def header(servers: Mapping[str, str], address: str = OLD) -> dict[str, Any]:
    return {"server_id": "s0", "local_address": address, "prev_servers": servers, "prev_data": LOOKALIKE["data"]}


def test_a_server_that_is_alone_changes_its_address_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "db"
    former = {"index": 2, "servers": {"s0": OLD, "s1": "tcp:nb-1.nb:6643"}}
    file.write_bytes(log(header({"s0": OLD}), former, LOOKALIKE, {"index": 4, "servers": {"s0": OLD}}) + b"OVSDB CLUS")
    file.chmod(0o640)
    assert readdressed(file, NEW)
    former["servers"] = {"s0": NEW, "s1": "tcp:nb-1.nb:6643"}
    assert file.read_bytes() == log(
        header({"s0": NEW}, NEW), former, LOOKALIKE, {"index": 4, "servers": {"s0": NEW}}
    ), "a record that is not whole is none for the server either"
    assert (file.stat().st_mode & 0o777, [*tmp_path.iterdir()]) == (0o640, [file])


def test_a_server_with_others_keeps_the_address_they_know(tmp_path: Path) -> None:
    file = tmp_path / "db"
    both = {"s0": OLD, "s1": "tcp:nb-1.nb:6643"}
    for held in (log(header(both)), log(header({"s0": OLD}), {"index": 2, "servers": both})):
        file.write_bytes(held)
        assert not readdressed(file, NEW)
        assert file.read_bytes() == held
    file.write_bytes(b"OVSDB JSON 2 da39\n{}")
    with pytest.raises(ValueError, match="its header has no server_id"):
        readdressed(file, NEW)


def test_a_server_that_has_left_holds_nothing(program: Any, tmp_path: Path) -> None:
    file = tmp_path / "db"
    assert program.empty(file)
    file.write_bytes(log(header({"s0": OLD}), LOOKALIKE))
    assert not program.empty(file)
    file.write_bytes(log(header({"s0": OLD}), LOOKALIKE, {"note": "left", "comment": "this server left the cluster"}))
    assert program.empty(file)


@pytest.mark.parametrize("host", ["", "[::]"])
@pytest.mark.parametrize(("plain", "certified"), list(itertools.product([True, False], repeat=2)))
def test_a_single_member_listens_where_a_clusters_members_do(
    program: Any, plain: bool, certified: bool, host: str, tmp_path: Path
) -> None:
    """A single database is started by a script, one of several by a program: clients find both in the same places."""
    if certified:
        (tmp_path / "tls.crt").touch()
    choices = {"host": host} if host else {}
    remotes, options = program.listening(program.DATABASES["nb"], plain=plain, tls=tmp_path, **choices)
    script = f'. {FOLDER}/ovn-remotes; tls={tmp_path}; echo "{{\\"here\\": {{}}$(remotes 6641)}}"; certificate'
    environment = {"PATH": os.environ["PATH"], "OVN_PLAIN": "yes" if plain else "no"}
    environment |= {"OVN_LISTEN": host} if host else {}
    said = subprocess.run(["sh", "-euc", script], env=environment, capture_output=True, text=True, check=True).stdout
    first, _, second = said.partition("\n")
    assert {name: probed for name, probed in json.loads(first).items() if name != "here"} == {
        name: probed for name, probed in remotes.items() if not name.startswith("punix:")
    }
    assert second.split() == options
    assert len(remotes) == 1 + plain + certified
    assert sum(name.endswith(f":{host or '0.0.0.0'}") for name in remotes) == plain + certified


IPV6 = pytest.param(
    "[::]",
    "::1",
    marks=pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the kernel of this machine has no IPv6"),
)


@pytest.mark.parametrize(("host", "address"), [("", "127.0.0.1"), ("[::]", "127.0.0.1"), IPV6])
def test_members_tell_their_facts_to_clients_of_that_family(
    program: Any, host: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OVN_LISTEN", host) if host else monkeypatch.delenv("OVN_LISTEN", raising=False)
    with program.facts_server_class()(("", 0), http.server.BaseHTTPRequestHandler) as server:
        socket.create_connection((address, server.server_address[1])).close()
