"""Queues of servers while these move to another broker: copies on that one, in which messages wait for programs that
have not moved yet; and the end of the messages on the first one.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

import structlog

from ..plan import Transient
from ..plan.url_path import segment
from .answers import read
from .http import Api

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_OF_CLIENTS = ("reply_", "amq.")
"""Beginnings of names of queues and exchanges that clients, or brokers, make for themselves."""
_TO_ALL = "_fanout"
"""In the names of a queue of one program, for what is sent to all, and of the exchange for it (oslo.messaging)."""


class _Queue(TypedDict):
    name: str
    durable: NotRequired[bool]
    auto_delete: NotRequired[bool]
    arguments: NotRequired[dict[str, Any]]


class _Row(TypedDict):
    name: str
    messages: NotRequired[int]


class _Exchange(TypedDict):
    name: str
    type: str
    durable: NotRequired[bool]
    auto_delete: NotRequired[bool]
    internal: NotRequired[bool]
    arguments: NotRequired[dict[str, Any]]


class _Binding(TypedDict):
    source: str
    destination: str
    destination_type: str
    routing_key: NotRequired[str]
    arguments: NotRequired[dict[str, Any]]


class _Definitions(TypedDict):
    queues: NotRequired[list[_Queue]]
    exchanges: NotRequired[list[_Exchange]]
    bindings: NotRequired[list[_Binding]]


def copy_queues(source: Api, target: Api, vhost: str) -> list[str]:
    """Create the quorum queues of servers, with the exchanges that lead to them, in the target's virtual host as in the
    source's, without messages. Return a sentence if any was missing. Raises Transient if the source does not have that
    virtual host, or answers otherwise than RabbitMQ does.
    """
    originals, present = _definitions(source, vhost), _definitions(target, vhost)
    here = {queue["name"] for queue in present.get("queues", ())}
    queues = [queue for queue in originals.get("queues", ()) if _lasts(queue) and queue["name"] not in here]
    if not queues:
        return []
    names = {queue["name"] for queue in queues}
    bindings = [each for each in originals.get("bindings", ()) if _leads_to(each, names)]
    used = {each["source"] for each in bindings}
    exchanges = [each for each in originals.get("exchanges", ()) if each["name"] in used and not _is_own(each["name"])]
    body: dict[str, Any] = {"queues": queues, "exchanges": exchanges, "bindings": bindings}
    if target.call("POST", _path(vhost), json=body) is None:
        raise Transient(f"RabbitMQ: virtual host {vhost} was just deleted")
    _log.debug("queues copied", vhost=vhost, queues=sorted(names))
    return [f"queues copied: {len(names)}"]


def check_drained(api: Api, vhost: str) -> None:
    """Raise Transient while messages to servers wait in a virtual host."""
    # Figures from the queues themselves; statistics are up to half a minute old.
    params = {"disable_stats": "true", "enable_queue_totals": "true"}
    answer = api.call("GET", f"/queues/{segment(vhost)}", params=params)
    rows = [] if answer is None else read(api.name, answer, list[_Row])
    waiting = [each.get("messages", 0) for each in rows if not _is_own(each["name"])]
    if count := sum(waiting):
        queues = sum(bool(messages) for messages in waiting)
        text = f"{count} messages wait in {queues} queues of {vhost}, the old broker"
        remedy = "if this lasts, no consumer is left: see `rabbitmqctl list_queues`, and purge them"
        raise Transient(f"RabbitMQ: {text}; {remedy}")


def _path(vhost: str) -> str:
    return f"/definitions/{segment(vhost)}"


def _definitions(api: Api, vhost: str) -> _Definitions:
    answer = api.call("GET", _path(vhost))
    if answer is None:
        raise Transient(f"RabbitMQ: {api.url} has no virtual host {vhost} to copy queues from")
    return read(api.name, answer, _Definitions)


def _is_own(name: str) -> bool:
    return name.startswith(_OF_CLIENTS) or _TO_ALL in name


def _lasts(queue: _Queue) -> bool:
    """Return True for a queue of a server: another one, made for replies to a client say, is of no use elsewhere."""
    is_quorum = queue.get("arguments", {}).get("x-queue-type") == "quorum"
    return is_quorum and queue.get("durable", False) and not _is_own(queue["name"])


def _leads_to(binding: _Binding, queues: set[str]) -> bool:
    is_named = bool(binding["source"]) and not _is_own(binding["source"])
    return is_named and binding["destination_type"] == "queue" and binding["destination"] in queues
