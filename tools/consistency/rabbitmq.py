"""A RabbitMQ of three, and clients that publish to a queue and take from it, as Jepsen's test of it does."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, NackError, UnroutableError

from tools.localcluster.kubernetes import KubeError

from . import queues
from .clients import ANSWER, CONNECT, PAUSE, Door, now
from .history import Outcome
from .queues import Event, Kind
from .site import MEMBERS, NAME, SIZED, Site
from .work import Judgement, Work, longest_gap, most_frequent

_QUEUE, _ACCOUNT = "consistency", "default_user"
_MANAGEMENT = 15672
_LEAST_EMPTY, _EMPTY_PAUSE = 10, 0.5
"""Number of answers in a row that say that the queue is empty, and seconds between them: messages come back when their
connection is found dead."""
PROBLEMS = (AMQPError, OSError)


class RabbitMQSite(Site):
    """A RabbitMQ."""

    kind = "RabbitMQ"
    images = ("rabbitmq",)
    spec: ClassVar = {"replicas": MEMBERS, "storageSize": "2Gi", "storageClassName": SIZED}
    port = 5672

    def login(self) -> tuple[str, str]:
        """Return the name of the first account, and its password. Raises KubeError."""
        secret = f"{NAME}-credentials"
        return self.secret(secret, _ACCOUNT), self.secret(secret, "default_pass")

    def primary(self) -> str:
        """Return the member that leads the queue; empty while no member says so. Raises KubeError."""
        name, password = self.login()
        word = base64.b64encode(f"{name}:{password}".encode()).decode()
        for door in self.members(_MANAGEMENT):
            url = f"http://{door.host}:{door.port}/api/queues/%2F/{_QUEUE}"
            request = urllib.request.Request(url, headers={"Authorization": f"Basic {word}"})
            with contextlib.suppress(OSError, ValueError), urllib.request.urlopen(request, timeout=ANSWER) as answer:
                leader = str(json.load(answer).get("leader") or "")
                return leader.partition("@")[2].partition(".")[0]
        return ""


@dataclass(frozen=True)
class Access:
    """Settings that all clients of a run share."""

    doors: Sequence[Door]
    name: str
    password: str
    is_durable: bool = True
    """True for a quorum queue with lasting messages; False for a classic one with messages in memory."""

    def connect(self, door: Door) -> BlockingChannel:
        """Return a channel on which messages are confirmed. Raises AMQPError or OSError."""
        parameters = pika.ConnectionParameters(
            door.host,
            door.port,
            credentials=pika.PlainCredentials(self.name, self.password),
            heartbeat=int(ANSWER),
            socket_timeout=CONNECT,
            stack_timeout=ANSWER,
            blocked_connection_timeout=ANSWER,
        )
        connection = pika.BlockingConnection(parameters)
        try:
            channel = connection.channel()
            # As OpenStack's services declare theirs.
            kind = "quorum" if self.is_durable else "classic"
            channel.queue_declare(_QUEUE, durable=True, arguments={"x-queue-type": kind})
            channel.confirm_delivery()
        except Exception:
            with contextlib.suppress(*PROBLEMS):
                connection.close()
            raise
        return channel


class Publisher:
    """Publishes one message after the other, and waits for the broker's confirmation."""

    def __init__(self, access: Access, process: int, numbers: Iterator[int]) -> None:
        self._access, self._process, self._turn, self._numbers = access, process, process, numbers
        self._channel: BlockingChannel | None = None
        self.wait = 0.0

    def step(self) -> bytes:
        """Publish a message once, and return its line."""
        value, start, door, is_sent, problem = next(self._numbers), now(), self._door, False, ""
        outcome, self.wait = Outcome.FAILED, 0.0
        mode = pika.DeliveryMode.Persistent if self._access.is_durable else pika.DeliveryMode.Transient
        try:
            channel = self._channel = self._channel or self._access.connect(door)
            is_sent = True
            channel.basic_publish("", _QUEUE, str(value).encode(), pika.BasicProperties(delivery_mode=mode), True)
            outcome = Outcome.OK
        except UnroutableError as error:
            problem = f"{type(error).__name__}"
        except (*PROBLEMS, NackError) as error:
            # A broker that refuses a message may have stored it on some members.
            outcome = Outcome.UNKNOWN if is_sent else Outcome.FAILED
            problem = f"{type(error).__name__} {error}"[:120]
            self.close()
            self._turn += 1
            self.wait = PAUSE
        return queues.encode(
            Event(self._process, Kind.PUBLISH, outcome, start, now(), value, error=problem, member=door.name)
        )

    @property
    def _door(self) -> Door:
        return self._access.doors[self._turn % len(self._access.doors)]

    def close(self) -> None:
        """Close the connection, if there is one."""
        channel, self._channel = self._channel, None
        _close(channel)


class Consumer:
    """Takes one message after the other, and acknowledges each."""

    def __init__(self, access: Access, process: int, *, is_final: bool = False) -> None:
        self._access, self._process, self._turn, self._is_final = access, process, process, is_final
        self._channel: BlockingChannel | None = None
        self.wait = 0.0

    def step(self) -> bytes:
        """Take a message, and return its line."""
        return queues.encode(self.take())

    def take(self) -> Event:
        """Take a message if there is one."""
        value, start, door, problem = 0, now(), self._door, ""
        outcome, self.wait = Outcome.FAILED, 0.0
        try:
            channel = self._channel = self._channel or self._access.connect(door)
            method, _, body = channel.basic_get(_QUEUE)
            if method is None:
                self.wait = PAUSE
            else:
                value, outcome = int(body or b"0"), Outcome.UNKNOWN
                channel.basic_ack(method.delivery_tag)
            outcome = Outcome.OK
        except PROBLEMS as error:
            problem = f"{type(error).__name__} {error}"[:120]
            self.close()
            self._turn += 1
            self.wait = PAUSE
        return Event(
            self._process,
            Kind.TAKE,
            outcome,
            start,
            now(),
            value,
            is_final=self._is_final,
            error=problem,
            member=door.name,
        )

    @property
    def _door(self) -> Door:
        return self._access.doors[self._turn % len(self._access.doors)]

    def close(self) -> None:
        """Close the connection, if there is one."""
        channel, self._channel = self._channel, None
        _close(channel)


def _close(channel: BlockingChannel | None) -> None:
    with contextlib.suppress(*PROBLEMS):
        if channel:
            channel.connection.close()


class Queue(Work):
    """Messages to one queue, and from it."""

    def __init__(self, site: RabbitMQSite, through: str, *, is_unprotected: bool) -> None:
        self._site = site
        doors = [site.door()] if through == "door" else site.members()
        self._access = Access(doors, *site.login(), is_durable=not is_unprotected)
        self._numbers = itertools.count(1)

    def prepare(self) -> None:
        """Delete the queue of an earlier run. Raises KubeError if the broker does not answer."""
        try:
            with contextlib.closing(self._plain_connection()) as connection:
                connection.channel().queue_delete(_QUEUE)
            _close(self._access.connect(self._access.doors[0]))
        except PROBLEMS as error:
            raise KubeError(f"RabbitMQ does not answer: {error}") from None

    def _plain_connection(self) -> pika.BlockingConnection:
        door, login = self._access.doors[0], pika.PlainCredentials(self._access.name, self._access.password)
        return pika.BlockingConnection(pika.ConnectionParameters(door.host, door.port, credentials=login))

    def worker(self, process: int) -> Publisher | Consumer:
        """Return a publisher or a consumer, in turn."""
        if process % 2:
            return Consumer(self._access, process)
        return Publisher(self._access, process, self._numbers)

    def final(self, member: Door) -> bytes:
        """Return the lines of what is left in the queue, which is empty then. Raises OSError if the member does not
        answer.
        """
        access = Access([member], self._access.name, self._access.password, is_durable=self._access.is_durable)
        lines, empty = list[bytes](), 0
        consumer = Consumer(access, -1, is_final=True)
        with contextlib.closing(consumer):
            while empty < _LEAST_EMPTY:
                event = consumer.take()
                lines.append(queues.encode(event))
                if event.error:
                    raise OSError(event.error)
                empty = 0 if event.value else empty + 1
                if empty:
                    time.sleep(_EMPTY_PAUSE)
        return b"".join(lines)

    def facts(self) -> dict[str, str]:
        """Return the version. Raises KubeError."""
        return {"version": self._site.run(self._site.pods()[0]["metadata"]["name"], "rabbitmqctl", "version").strip()}

    def end(self) -> None:
        """There is nothing to undo."""

    def judge(self, path: Path) -> Judgement:
        """Judge a history. Raises OSError and ValueError."""
        return judge(path)


def judge(path: Path) -> Judgement:
    """Judge a history of messages. Raises OSError and ValueError."""
    start = time.process_time()
    history = queues.load(path)
    verdict = queues.check(history)
    spent = time.process_time() - start
    confirmed = [each.end for each in history if each.kind is Kind.PUBLISH and each.outcome is Outcome.OK]
    return Judgement(
        verdict.counts,
        {name: str(len(cases)) for name, cases in verdict.anomalies.items()},
        sorted(queues.HARM & verdict.anomalies.keys()),
        most_frequent(
            [f"{each.kind.value}, {each.outcome.value}: {each.error[:60]}" for each in history if each.error]
        ),
        longest_gap(confirmed),
        round(spent, 1),
        "\n".join([*queues.explain(history, verdict), ""]),
    )
