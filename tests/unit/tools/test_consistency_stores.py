"""Clients of etcd, OVN, Valkey and RabbitMQ never take an open outcome for a failure, or a failure for an open one."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from pika.exceptions import AMQPConnectionError, NackError, UnroutableError

from tools.consistency.clients import Door
from tools.consistency.history import Append, Outcome, Read
from tools.consistency.optimistic import OptimisticClient, Version
from tools.consistency.ovn import Session
from tools.consistency.queues import Event
from tools.consistency.rabbitmq import Access, Consumer, Publisher
from tools.consistency.valkey import Connection, RefusedError, ValkeyClient

DOORS = [Door("one", "", 1), Door("two", "", 2)]
OPERATIONS = (Read(1), Append(1, 7), Read(1), Read(2))


@dataclass
class Lists:
    """A database of lists, which answers one request with an error."""

    failing: str = ""
    error: Exception | None = None
    is_changed: bool = False
    lists: dict[int, tuple[int, ...]] = field(default_factory=lambda: {1: (3,)})
    connected: list[str] = field(default_factory=list[str])

    def connect(self, door: Door) -> Lists:
        self.connected.append(door.name)
        self._fail("connect")
        return self

    def read(self, keys: Iterable[int]) -> dict[int, Version]:
        self._fail("read")
        return {key: Version(self.lists.get(key, ())) for key in keys}

    def write(self, versions: Mapping[int, Version], contents: Mapping[int, Sequence[int]]) -> bool:
        assert contents.keys() <= versions.keys()
        self._fail("write")
        if not self.is_changed:
            self.lists |= {key: tuple(values) for key, values in contents.items()}
        return not self.is_changed

    def close(self) -> None:
        pass

    def _fail(self, name: str) -> None:
        if self.error and name == self.failing:
            raise self.error


def test_optimistic_transaction_reads_its_own_appends() -> None:
    database = Lists()
    transaction = OptimisticClient(DOORS, 0, database.connect).execute(OPERATIONS)
    assert transaction.outcome is Outcome.OK
    assert transaction.operations == (Read(1, (3,)), Append(1, 7), Read(1, (3, 7)), Read(2, ()))
    assert database.lists == {1: (3, 7)}


@pytest.mark.parametrize(
    ("failing", "outcome"), [("connect", Outcome.FAILED), ("read", Outcome.FAILED), ("write", Outcome.UNKNOWN)]
)
def test_outcome_is_open_once_the_write_was_sent(failing: str, outcome: Outcome) -> None:
    database = Lists(failing, TimeoutError("no answer"))
    client = OptimisticClient(DOORS, 0, database.connect)
    transaction = client.execute(OPERATIONS)
    assert (transaction.outcome, transaction.operations) == (outcome, OPERATIONS)
    assert client.wait > 0
    client.execute(OPERATIONS)
    assert database.connected == ["one", "two"]


def test_transaction_on_a_changed_list_has_failed() -> None:
    database = Lists(is_changed=True)
    transaction = OptimisticClient(DOORS, 0, database.connect).execute(OPERATIONS)
    assert (transaction.outcome, transaction.operations) == (Outcome.FAILED, OPERATIONS)


def test_reads_alone_write_nothing() -> None:
    database = Lists("write", TimeoutError())
    assert OptimisticClient(DOORS, 0, database.connect).execute((Read(1),)).operations == (Read(1, (3,)),)


def test_ovn_session_ends_once_its_member_no_longer_leads() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_serve_ovn, args=(server,))
        thread.start()
        session = Session(Door("one", *server.getsockname()[:2]), leader_only=True)
        assert session.read([5]) == {5: Version((1, 2), "1 2")}
        with pytest.raises(OSError, match="does not lead"):
            session.read([5])
        session.close()
        thread.join()


def _serve_ovn(server: socket.socket) -> None:
    connection, _ = server.accept()
    row = {"name": "OVN_Northbound", "leader": True}
    answers: list[list[Any]] = [
        [{"result": {"Database": {"u": {"new": row}}}, "error": None}],
        # A server asks whether its client is there, in two pieces.
        [{"method": "echo", "params": [], "id": "echo"}, {"result": [_ROWS], "error": None}],
        [
            {"method": "update", "params": [None, {"Database": {"u": {"new": row | {"leader": False}}}}], "id": None},
            {"result": [_ROWS], "error": None},
        ],
    ]
    with connection:
        for number, messages in enumerate(answers, 1):
            _request(connection)
            for message in messages:
                text = json.dumps({"id": number} | message).encode()
                connection.sendall(text[:9])
                connection.sendall(text[9:])
                if message.get("method") == "echo":
                    assert _request(connection)["id"] == "echo"


_ROWS = {"rows": [{"external_ids": ["map", [["list", "1 2"]]]}]}


def _request(connection: socket.socket) -> dict[str, Any]:
    return json.loads(connection.recv(1 << 16))


class Server(Connection):
    """A Valkey that gives one answer to EXEC."""

    def __init__(self, answer: Any) -> None:
        self._executed = answer

    def call(self, *words: str) -> Any:
        return ["master"] if words == ("ROLE",) else None

    def calls(self, commands: Sequence[Sequence[str]]) -> list[Any]:
        if isinstance(self._executed, OSError):
            raise self._executed
        return [*("QUEUED" for _ in commands[1:]), self._executed]

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ([["3"], 2, ["3", "7"], []], Outcome.OK),
        (RefusedError("EXECABORT Transaction discarded because of previous errors."), Outcome.FAILED),
        (ConnectionResetError(), Outcome.UNKNOWN),
        (TimeoutError(), Outcome.UNKNOWN),
    ],
)
def test_valkey_refuses_all_or_leaves_the_outcome_open(answer: Any, outcome: Outcome) -> None:
    client = ValkeyClient(lambda _: Server(answer), 0)
    transaction = client.execute(OPERATIONS)
    assert transaction.outcome is outcome
    if outcome is Outcome.OK:
        assert transaction.operations == (Read(1, (3,)), Append(1, 7), Read(1, (3, 7)), Read(2, ()))


@dataclass(frozen=True)
class Broker(Access):
    """A broker of one message, which answers one request with an error."""

    failing: str = ""
    error: Exception | None = None

    def connect(self, door: Door) -> Any:
        self.fail("connect")
        return Channel(self)

    def fail(self, name: str) -> None:
        if self.error and name == self.failing:
            raise self.error


@dataclass
class Channel:
    """A channel, its connection, and a delivery in one."""

    broker: Broker
    delivery_tag: int = 1

    @property
    def connection(self) -> Channel:
        return self

    def basic_publish(self, *_: object) -> None:
        self.broker.fail("publish")

    def basic_get(self, _: str) -> tuple[Channel, None, bytes]:
        self.broker.fail("get")
        return self, None, b"9"

    def basic_ack(self, _: int) -> None:
        self.broker.fail("ack")

    def close(self) -> None:
        pass


def broker(failing: str = "", error: Exception | None = None) -> Broker:
    return Broker(DOORS, "", "", failing=failing, error=error)


def event(line: bytes) -> Event:
    return msgspec.json.decode(line, type=Event)


@pytest.mark.parametrize(
    ("failing", "error", "outcome"),
    [
        ("", None, Outcome.OK),
        ("connect", AMQPConnectionError(), Outcome.FAILED),
        ("publish", UnroutableError([]), Outcome.FAILED),
        ("publish", NackError([]), Outcome.UNKNOWN),
        ("publish", AMQPConnectionError(), Outcome.UNKNOWN),
    ],
)
def test_message_is_open_once_it_was_sent(failing: str, error: Exception | None, outcome: Outcome) -> None:
    published = event(Publisher(broker(failing, error), 0, iter([4])).step())
    assert (published.value, published.outcome) == (4, outcome)


@pytest.mark.parametrize(
    ("failing", "value", "outcome"),
    [("", 9, Outcome.OK), ("connect", 0, Outcome.FAILED), ("get", 0, Outcome.FAILED), ("ack", 9, Outcome.UNKNOWN)],
)
def test_message_counts_as_taken_before_its_acknowledgment(failing: str, value: int, outcome: Outcome) -> None:
    taken = event(Consumer(broker(failing, AMQPConnectionError()), 0).step())
    assert (taken.value, taken.outcome) == (value, outcome)
