"""A member that does not take the clients ends their connections, and no member does so in doubt."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.agents.mariadb import sql
from openstack_operator.agents.mariadb.fence import GRACE, PERIOD, Fence
from openstack_operator.agents.mariadb.role import BACKUP, FILE, PRIMARY, READER, Role, other_primary, reported_role

SERVES = {"a": Role(PRIMARY, 10.0, serves=True)}


def test_a_backup_gives_way_to_a_primary_that_serves() -> None:
    assert other_primary(Role(BACKUP, 1.0, serves=True), {**SERVES, "b": Role(BACKUP, serves=True)}) == "a"


@pytest.mark.parametrize("me", [Role(), Role("other", 99.0), Role(PRIMARY, 9.0)])
def test_a_member_without_a_role_or_with_the_latest_label_takes_clients(me: Role) -> None:
    assert other_primary(me, SERVES) == ""


@pytest.mark.parametrize("other", [Role(), Role(BACKUP, serves=True), Role(PRIMARY)])
@pytest.mark.parametrize("me", [Role(BACKUP), Role(PRIMARY, 99.0)])
def test_clients_stay_if_no_other_primary_serves(me: Role, other: Role) -> None:
    assert other_primary(me, {"a": other}) == ""
    assert other_primary(me, {}) == ""


def test_the_later_term_counts_whatever_the_clocks_of_nodes_say() -> None:
    """The other node's clock was put forward: the label that it wrote seems to be a day old."""
    old, new = Role(PRIMARY, 1.0, serves=True, term=4), Role(PRIMARY, 86400.0, serves=True, term=5)
    assert other_primary(old, {"new": new, "older": replace(old, term=3)}) == "new"
    assert other_primary(new, {"old": old}) == ""
    # A label of an earlier version of the operator has no term: the ages count.
    assert other_primary(replace(old, term=0), {"new": new}) == ""
    assert other_primary(new, {"old": replace(old, term=0)}) == "old"


def gives_way(world: Mapping[str, Role], name: str) -> bool:
    return bool(other_primary(world[name], {peer: role for peer, role in world.items() if peer != name}))


def latest_primary(world: Mapping[str, Role], names: Sequence[str]) -> str:
    """Return the primary that became it last: by terms if all have one, else by the ages of labels."""
    if min(world[name].term for name in names) == 0:
        return min(names, key=lambda name: world[name].age)
    return max(names, key=lambda name: world[name].term)


def test_never_all_members_give_way() -> None:
    """However late each kubelet is: of members that serve, one takes the clients, and of primaries the latest."""
    values = product(("", PRIMARY, BACKUP), (1.0, 2.0), (True, False), (0, 3, 4))
    roles = [Role(*value) for value in values]
    worlds = [dict(zip(["a", "b", "c"], world, strict=True)) for world in product(roles, repeat=3)]
    serving = [(world, [name for name in world if world[name].serves]) for world in worlds]
    assert [world for world, names in serving if names and all(gives_way(world, name) for name in names)] == []
    primaries = [(world, [name for name in names if world[name].name == PRIMARY]) for world, names in serving]
    latest = [(world, latest_primary(world, names)) for world, names in primaries if names]
    assert len(latest) > 300
    assert [world for world, name in latest if gives_way(world, name)] == []


def test_a_role_is_read_from_what_a_member_publishes() -> None:
    facts = {"role": PRIMARY, "role_age": 3, "ready": True, "name": "a"}
    assert reported_role(facts) == Role(PRIMARY, 3.0, serves=True)
    assert reported_role({**facts, "role_term": 7}) == Role(PRIMARY, 3.0, serves=True, term=7)


@pytest.mark.parametrize(
    "facts", [{}, {"role": PRIMARY, "ready": True}, {"role": PRIMARY, "role_age": "long", "ready": True}, [], None]
)
def test_a_member_of_an_older_version_has_no_role(facts: Any) -> None:
    assert reported_role(facts) == Role()


@dataclass
class Server(sql.Sql):
    """A server with connections, and the seconds of what each does."""

    clients: dict[str, float] = field(default_factory=dict[str, float])
    looks: int = 0

    async def rows(self, statements: str) -> list[tuple[str, str]] | None:
        for number in re.findall(r"KILL CONNECTION (\d+);", statements):
            del self.clients[number]
        if statements != sql.remote_clients(READER):
            return []
        self.looks += 1
        return [(number, str(age)) for number, age in self.clients.items()]


@dataclass
class World:
    """A member, and what the others say of themselves."""

    folder: Path
    server: Server = field(default_factory=Server)
    peers: Mapping[str, Role] = field(default_factory=dict[str, Role])
    questions: int = 0
    seconds: float = 1000.0

    def __post_init__(self) -> None:
        self.fence = Fence(self.folder, self.server, self.ask, lambda: self.seconds)

    async def ask(self) -> Mapping[str, Role]:
        self.questions += 1
        return self.peers

    def label(self, role: str, age: float = 100.0) -> None:
        (self.folder / FILE).write_text(role)
        written = (self.folder / FILE).stat().st_mtime - age
        os.utime(self.folder / FILE, (written, written))

    def connect(self, **clients: float) -> None:
        """Add connections, by their numbers."""
        self.server.clients |= {name.removeprefix("c"): age for name, age in clients.items()}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_a_backup_ends_what_began_after_the_hand_over_at_once(world: World) -> None:
    world.label(BACKUP)
    world.peers = SERVES
    world.connect(c1=-1.0, c2=0.2, c3=8.0)
    await world.fence.end_misplaced()
    assert set(world.server.clients) == {"2", "3"}, "their transactions began before"
    world.seconds += 2
    world.connect(c2=0.4, c3=10.0, c4=1.0)
    await world.fence.end_misplaced()
    assert set(world.server.clients) == {"3"}
    world.seconds += GRACE
    world.connect(c3=10.0 + GRACE)
    await world.fence.end_misplaced()
    assert not world.server.clients


async def test_a_backup_without_clients_asks_nobody(world: World) -> None:
    world.label(BACKUP)
    world.peers = SERVES
    await world.fence.end_misplaced()
    assert (world.server.looks, world.questions) == (1, 0)


async def test_the_primary_looks_for_another_one_each_period(world: World) -> None:
    world.label(PRIMARY)
    world.connect(c1=-1.0)
    for _ in range(int(3 * PERIOD)):
        await world.fence.end_misplaced()
        world.seconds += 1
    assert (world.questions, world.server.looks) == (3, 0)
    await world.fence.end_misplaced(asks=True)
    assert world.questions == 4
    world.peers = SERVES
    await world.fence.end_misplaced(asks=True)
    assert not world.server.clients, "its own label is an older one"


async def test_a_new_primary_takes_clients_while_the_old_one_has_its_label(world: World) -> None:
    world.peers = SERVES
    world.label(BACKUP)
    world.connect(c1=-1.0)
    await world.fence.end_misplaced()
    assert not world.server.clients
    world.label(PRIMARY, age=1.0)
    world.connect(c2=-1.0)
    await world.fence.end_misplaced()
    assert set(world.server.clients) == {"2"}


async def test_a_primary_that_comes_back_asks_at_once(world: World) -> None:
    world.label(PRIMARY)
    await world.fence.end_misplaced()
    world.connect(c1=-1.0, c2=30.0)
    await world.fence.end_refused()
    assert not world.server.clients, "all of them, whatever they do"
    world.peers = SERVES
    world.connect(c3=-1.0)
    await world.fence.end_misplaced()
    assert not world.server.clients


async def test_a_primary_that_comes_back_as_the_only_one_takes_clients(world: World) -> None:
    world.label(PRIMARY)
    await world.fence.end_refused()
    world.connect(c1=-1.0)
    await world.fence.end_misplaced()
    assert set(world.server.clients) == {"1"}
    asked = world.questions
    await world.fence.end_misplaced()
    assert world.questions == asked


async def test_a_member_that_knows_no_label_ends_nothing(world: World) -> None:
    world.peers = SERVES
    world.connect(c1=-1.0)
    await world.fence.end_misplaced(asks=True)
    world.label("")
    await world.fence.end_misplaced(asks=True)
    assert set(world.server.clients) == {"1"}


async def test_a_silent_server_is_left_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silence(_: str) -> None:
        return None

    monkeypatch.setattr(world.server, "rows", silence)
    world.label(BACKUP)
    world.peers = SERVES
    await world.fence.end_refused()
    await world.fence.end_misplaced()
    assert world.questions == 0
