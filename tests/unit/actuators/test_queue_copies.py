"""Queues of one broker's virtual host are made on another one, against two management APIs in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from openstack_operator.actuators.http import Api
from openstack_operator.actuators.queue_copies import check_drained, copy_queues
from openstack_operator.plan import Transient
from tests.unit.fake_http import Answer, Request, http_server

QUORUM = {"x-queue-type": "quorum"}


def queue(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "durable": True, "auto_delete": False, "arguments": QUORUM, **more}


def exchange(name: str, type_: str = "topic") -> dict[str, Any]:
    return {"name": name, "type": type_, "durable": True, "auto_delete": False, "internal": False, "arguments": {}}


def binding(source: str, to: str, kind: str = "queue") -> dict[str, Any]:
    return {"source": source, "destination": to, "destination_type": kind, "routing_key": to, "arguments": {}}


class Broker:
    """What a broker has in virtual host `nova`."""

    def __init__(self, **definitions: list[dict[str, Any]]) -> None:
        self.definitions: Any = {"queues": [], "exchanges": [], "bindings": [], **definitions}
        self.imports: list[Any] = []
        self.messages: dict[str, int] = {}

    def answer(self, request: Request) -> Answer:
        if request.path == ("api", "queues", "nova"):
            return Answer(200, [{"name": name, "messages": count} for name, count in self.messages.items()])
        if request.path != ("api", "definitions", "nova") or self.definitions is None:
            return Answer(404, {"error": "Object Not Found"})
        if request.method == "POST":
            self.imports.append(request.body)
            for name, rows in request.body.items():
                self.definitions[name] += rows
            return Answer(204)
        return Answer(200, {**self.definitions, "policies": [], "rabbit_version": "4.0.5"})


@pytest.fixture
def brokers() -> Iterator[tuple[Broker, Broker, Api, Api]]:
    blue = Broker(
        queues=[
            queue("conductor"),
            queue("compute.host1"),
            queue("reply_7"),
            queue("conductor_fanout_1"),
            queue("old", arguments={"x-queue-type": "classic"}),
            queue("older", arguments={}),
            queue("brief", durable=False),
        ],
        exchanges=[
            exchange("nova"),
            exchange("conductor_fanout", "fanout"),
            exchange("reply_7", "direct"),
            exchange("x"),
        ],
        bindings=[
            binding("nova", "conductor"),
            binding("nova", "compute.host1"),
            binding("", "conductor"),
            binding("conductor_fanout", "conductor_fanout_1"),
            binding("nova", "x", "exchange"),
            binding("nova", "old"),
        ],
    )
    green = Broker()
    with http_server(blue) as of_blue, http_server(green) as of_green:
        apis = [Api("RabbitMQ", f"{url}/api", seconds=60, auth=("admin", "pw")) for url in (of_blue, of_green)]
        yield blue, green, apis[0], apis[1]


def test_queues_of_servers_are_copied_with_what_leads_to_them(brokers: tuple[Broker, Broker, Api, Api]) -> None:
    _, green, source, target = brokers
    assert copy_queues(source, target, "nova") == ["queues copied: 2"]
    assert green.imports == [
        {
            "queues": [queue("conductor"), queue("compute.host1")],
            "exchanges": [exchange("nova")],
            "bindings": [binding("nova", "conductor"), binding("nova", "compute.host1")],
        }
    ]
    assert copy_queues(source, target, "nova") == [], "they are there"
    assert len(green.imports) == 1


def test_a_queue_that_was_made_since_is_copied_too(brokers: tuple[Broker, Broker, Api, Api]) -> None:
    blue, green, source, target = brokers
    copy_queues(source, target, "nova")
    blue.definitions["queues"].append(queue("compute.host2"))
    blue.definitions["bindings"].append(binding("nova", "compute.host2"))
    assert copy_queues(source, target, "nova") == ["queues copied: 1"]
    assert green.imports[1]["bindings"] == [binding("nova", "compute.host2")]


def test_a_virtual_host_that_is_gone_is_waited_for(brokers: tuple[Broker, Broker, Api, Api]) -> None:
    blue, green, source, target = brokers
    blue.definitions = None
    with pytest.raises(Transient, match="has no virtual host nova to copy queues from"):
        copy_queues(source, target, "nova")
    assert not green.imports


def test_an_answer_of_another_server_changes_nothing(brokers: tuple[Broker, Broker, Api, Api]) -> None:
    blue, green, source, target = brokers
    blue.definitions = {"queues": "many", "exchanges": [], "bindings": []}
    with pytest.raises(Transient, match="does not answer like RabbitMQ"):
        copy_queues(source, target, "nova")
    assert not green.imports


def test_a_virtual_host_is_drained_when_no_message_waits_for_a_server(brokers: tuple[Broker, Broker, Api, Api]) -> None:
    blue, _, source, _ = brokers
    blue.messages = {"conductor": 2, "compute.host1": 1, "scheduler": 0, "reply_7": 5, "conductor_fanout_1": 9}
    with pytest.raises(Transient, match="3 messages wait in 2 queues of nova, the old broker"):
        check_drained(source, "nova")
    blue.messages |= {"conductor": 0, "compute.host1": 0}
    check_drained(source, "nova")
