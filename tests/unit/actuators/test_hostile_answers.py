"""Servers that answer anything: what is none of their API's answers is the server's trouble, in words, and no fault."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import pymysql
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from openstack_operator.actuators import ACTUATORS, CHASSIS, sql
from openstack_operator.plan import Actuator, Context, SpecError, Transient
from tests.searches import examples
from tests.unit.actuators.test_actuators_cinder import BACKEND, QUOTA, TYPE, Cloud, pool, wanting
from tests.unit.actuators.test_actuators_database import DATABASE, MariaDB
from tests.unit.actuators.test_actuators_database import wanted as wanted_database
from tests.unit.actuators.test_actuators_domain import ENTRY as DOMAIN
from tests.unit.actuators.test_actuators_domain import Domains
from tests.unit.actuators.test_actuators_domain import wanted as wanted_domain
from tests.unit.actuators.test_actuators_federation import ENTRY as PROVIDER
from tests.unit.actuators.test_actuators_federation import Federation
from tests.unit.actuators.test_actuators_federation import asked as wanted_provider
from tests.unit.actuators.test_actuators_identity import (
    CREDENTIAL,
    SERVICE,
    USER,
    wanted_credential,
    wanted_service,
    wanted_user,
)
from tests.unit.actuators.test_actuators_messaging import VHOST, Broker, clustered, follower, queue
from tests.unit.actuators.test_actuators_messaging import wanted as wanted_vhost
from tests.unit.fake_http import Answer, HttpService, Request, http_server

pytestmark = pytest.mark.security

MARK = "internal-7f3a"
"""In whatever an address says that only the operator reaches."""
_LONGEST = 2000
"""Characters of a message: what a server says must not fill a condition, which takes 32,768."""

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from((10**25, -(10**400), 2**63, 1e308, -0.5))
    | st.text(max_size=8)
    | st.sampled_from(("x" * 100_000, "\udcff", "a\nb\x00", "../..", "é", MARK))
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("id", "name", "x")), inner, max_size=3)
    ),
    max_leaves=6,
)
NONSENSE = st.sampled_from((b"", b"<html>", b"[" * 100_000, b"1" * 5000, b'"\xff"', b'"\\ud800"', b'{"a": NaN}', b"{"))


class Change(NamedTuple):
    """What is another way in an answer."""

    at: int
    """Which request it answers, of those that get one."""
    node: int
    """Which value of the answer, counted from the whole of it."""
    value: Any
    """What stands there instead; nothing where it is `GONE`, and the whole answer where it is bytes."""
    always: bool
    """Whether all later answers are so, too."""


GONE = object()
CHANGES = st.builds(Change, st.integers(0, 12), st.integers(0, 40), JSON | NONSENSE | st.just(GONE), st.booleans())


def places(body: Any) -> Iterator[tuple[Any, Any]]:
    """Every value within a body, as (what holds it, where)."""
    if isinstance(body, (dict, list)):
        for key in list(body) if isinstance(body, dict) else range(len(body)):
            yield body, key
            yield from places(body[key])


def changed(body: Any, change: Change) -> Any:
    """The body with one value another one."""
    if isinstance(change.value, bytes):
        return change.value
    holder = [deepcopy(body)]
    where, key = (found := list(places(holder)))[change.node % len(found)]
    if change.value is GONE:
        del where[key]
    else:
        where[key] = change.value
    return holder[0] if holder else b""


class Hostile:
    """A remote that answers like another one, but for some of its answers."""

    def __init__(self) -> None:
        self.begin(Broker(), Change(0, 0, None, always=False))

    def begin(self, remote: HttpService, change: Change) -> None:
        self.remote, self.change, self.count = remote, change, 0

    def answer(self, request: Request) -> Answer:
        try:
            usual = self.remote.answer(request)
        except Exception:
            return Answer(500)
        if usual.body is None or usual.status >= 300:
            return usual
        self.count += 1
        first = self.count - 1 == self.change.at
        if first or (self.change.always and self.count > self.change.at):
            return usual._replace(body=changed(usual.body, self.change))
        return usual


def broker() -> Broker:
    made = Broker()
    made.flags = {"khepri": {"state": "disabled", "stability": "stable"}}
    made.queues = queue("conductor", follower(), messages=1) | queue("reply", type="classic", durable=False)
    made.nodes = [{"name": "rabbit@a.b", "disk_free_alarm": False, "disk_free": 1, "disk_free_limit": 2}]
    return made


def alarmed() -> Broker:
    made = broker()
    made.nodes[0] |= {"disk_free_alarm": True, "mem_alarm": True}
    return made


def cloud() -> Cloud:
    made = Cloud()
    made.services = [{"host": "v-0@fast", "state": "up"}]
    made.pools = [pool(f"v-0@fast#{name}", free_capacity_gb=1.5, total_capacity_gb=2) for name in "ab"]
    made.types = {"t": {"id": "t", "name": "fast", "extra_specs": {"a": "b"}, "description": None, "is_public": True}}
    return made


Wanted = Callable[[str], Context[Any]]
CASES: dict[str, tuple[Actuator, Callable[[], HttpService], Wanted]] = {
    "RabbitMQ": (VHOST, broker, lambda url: clustered(wanted_vhost(url))),
    "RabbitMQ without a disk": (VHOST, alarmed, wanted_vhost),
    "user": (USER, Federation, lambda url: wanted_user(f"{url}/v3")),
    "service": (SERVICE, Federation, lambda url: wanted_service(f"{url}/v3")),
    "domain": (DOMAIN, Domains, lambda url: wanted_domain(f"{url}/v3", deletionPolicy="Delete")),
    "credential": (CREDENTIAL, Federation, lambda url: wanted_credential(f"{url}/v3")),
    "provider": (PROVIDER, Federation, lambda url: wanted_provider(f"{url}/v3", domain="sso", deletionPolicy="Delete")),
    "volume type": (TYPE, cloud, lambda url: wanting(url, TYPE, name="fast", extraSpecs={"c": "d"})),
    "new volume type": (TYPE, cloud, lambda url: wanting(url, TYPE, name="slow")),
    "encrypted volume type": (TYPE, cloud, lambda url: wanting(url, TYPE, name="fast", encryption={"keySize": 128})),
    "new encrypted volume type": (TYPE, cloud, lambda url: wanting(url, TYPE, name="safe", encryption={})),
    "quota": (QUOTA, cloud, lambda url: wanting(url, QUOTA, project="team", limits={"volumes": 3})),
    "backend": (BACKEND, cloud, lambda url: wanting(url, BACKEND, backend="fast", hosts=["v-0@fast"])),
}


def passes(entry: Actuator, ctx: Context[Any]) -> None:
    """All that the engine does with a resource ends as it knows, in a few words."""
    for work in (entry.ensure, entry.ensure, entry.observe, entry.remove):
        try:
            told = json.dumps(getattr(result := work(ctx) if work else (), "details", result))
        except (Transient, SpecError) as error:
            told = str(error)
        assert len(told) < _LONGEST
        assert MARK not in told


@pytest.mark.search
@pytest.mark.parametrize("case", CASES)
def test_any_answer_is_an_outcome(case: str) -> None:
    entry, remote, wanted = CASES[case]
    hostile = Hostile()

    @settings(max_examples=examples(100))
    @given(CHANGES)
    def attempt(change: Change) -> None:
        hostile.begin(remote(), change)
        passes(entry, wanted(url))

    with http_server(hostile) as url:
        attempt()


class Quoting(Hostile):
    """A remote that refuses what it is asked after some requests, and says why in each way that there is."""

    def __init__(self, remote: HttpService, status: int, after: int) -> None:
        self.remote, self.status, self.after = remote, status, after

    def answer(self, request: Request) -> Answer:
        self.after -= 1
        if self.after >= 0 or "tokens" in request.path:
            return self.remote.answer(request)
        body = {"error": {"message": MARK, "title": MARK}, "reason": MARK, "message": MARK, MARK: {"message": MARK}}
        return Answer(self.status, body, {"Location": f"http://127.0.0.1/{MARK}", "X-Why": MARK})


@pytest.mark.parametrize("status", [302, 400, 401, 403, 409, 413, 500])
@pytest.mark.parametrize("case", CASES)
def test_no_words_of_a_refusal_are_told(case: str, status: int) -> None:
    entry, remote, wanted = CASES[case]
    for after in range(4):
        with http_server(Quoting(remote(), status, after)) as url:
            passes(entry, wanted(url))


class Naming(Hostile):
    """A remote whose answers have other names in them."""

    def answer(self, request: Request) -> Answer:
        usual = self.remote.answer(request)
        return usual if usual.status >= 300 or "tokens" in request.path else usual._replace(body=named(usual.body))


def named(body: Any) -> Any:
    if isinstance(body, dict):
        return {key: named(value) for key, value in body.items()} | ({MARK: True} if "a" in body else {})
    if isinstance(body, list):
        return [named(each) for each in body]
    return f"{MARK}@{MARK}" if isinstance(body, str) and body not in KEPT else body


KEPT = {"classic", "disabled", "stable", "quorum", "up"}
"""What decides on what the operator does."""


@pytest.mark.parametrize("case", CASES)
def test_no_names_of_an_answer_are_told(case: str) -> None:
    entry, remote, wanted = CASES[case]
    server = Naming()
    server.begin(remote(), Change(0, 0, None, always=False))
    with http_server(server) as url:
        passes(entry, wanted(url))


@given(st.integers(0, 8), st.integers(0, 65535))
def test_no_words_of_mariadb_are_told(at: int, code: int) -> None:
    class Refusing(MariaDB):
        def execute(self, statement: str, arguments: tuple[str, ...]) -> None:
            nonlocal at
            at -= 1
            if at < 0:
                pymysql.err.raise_mysql_exception(b"\xff" + code.to_bytes(2, "little") + b"#HY000" + MARK.encode())
            super().execute(statement, arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sql, "Connection", Refusing().connect)
        passes(DATABASE, wanted_database(deletionPolicy="Delete"))


@pytest.mark.parametrize("value", [b"", b"<html>", b"[" * 100_000, [], None, {"token": [1]}, 10**400])
@pytest.mark.parametrize(
    ("case", "server"), [("RabbitMQ", "RabbitMQ"), ("user", "Keystone"), ("backend", "Keystone|Cinder")]
)
def test_a_malformed_answer_is_reported(case: str, server: str, value: Any) -> None:
    entry, remote, wanted = CASES[case]
    hostile = Hostile()
    # What an account on a broker says of itself asks nobody.
    work = entry.ensure if case == "RabbitMQ" else entry.observe or entry.ensure
    server_behind = remote()
    with http_server(hostile) as url:
        if case == "RabbitMQ":
            # What is not there yet is made without a look at any answer.
            hostile.begin(server_behind, Change(99, 0, None, always=False))
            entry.ensure(wanted(url))
        hostile.begin(server_behind, Change(0, 0, value, always=True))
        with pytest.raises(Transient, match=f"the address of ({server}) does not answer like ({server})"):
            work(wanted(url))


@pytest.mark.parametrize("token", ["", "\xe9", "a\tb"])
def test_a_token_that_is_none_is_no_fault(token: str) -> None:
    class Strange(Federation):
        def token(self, auth: Any) -> Answer:
            return super().token(auth)._replace(headers={"X-Subject-Token": token})

    with (
        http_server(Strange()) as url,
        pytest.raises(Transient, match="the address of Keystone does not answer like Keystone"),
    ):
        USER.ensure(wanted_user(f"{url}/v3"))


def test_every_actuator_is_tried() -> None:
    tried = {entry.resource.kind for entry, _, _ in CASES.values()} | {DATABASE.resource.kind}
    assert {entry.resource.kind for entry in ACTUATORS} - tried == {CHASSIS.kind}, "see test_actuators_ovn"


class Rows(MariaDB):
    """A server whose answers have other columns."""

    def __init__(self, at: int, rows: Any) -> None:
        super().__init__()
        self.at, self.others, self.count = at, rows, 0

    def execute(self, statement: str, arguments: tuple[str, ...]) -> None:
        try:
            super().execute(statement, arguments)
        except KeyError:
            raise pymysql.ProgrammingError(1141, "There is no such grant defined") from None

    def fetchall(self) -> list[tuple[Any, ...]]:
        self.count += 1
        return self.others if self.count > self.at else self.rows


@given(st.integers(0, 8), st.lists(st.lists(SCALARS | st.binary(), max_size=4).map(tuple), max_size=3))
@example(at=0, rows=[(None, None, None)])
@example(at=2, rows=[(1,)])
def test_any_row_is_an_outcome(at: int, rows: list[tuple[Any, ...]]) -> None:
    server = Rows(at, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sql, "Connection", server.connect)
        passes(DATABASE, wanted_database(deletionPolicy="Delete"))


@pytest.mark.parametrize("rows", [[()], [(1, 2, 3)], [("nova_api",)], [(b"x", None, None)]])
def test_a_server_that_is_no_mariadb_is_said_to_be_none(rows: list[tuple[Any, ...]], monkeypatch: Any) -> None:
    monkeypatch.setattr(sql, "Connection", Rows(0, rows).connect)
    with pytest.raises(Transient, match="the address of MariaDB does not answer like MariaDB"):
        DATABASE.ensure(wanted_database())
