"""Queues of a virtual host nobody could ever use again, found over the management API and deleted: clients make them
anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from ..plan import Transient
from .http import Api
from .loop import Refused

_AGAIN = 3.0
"""Seconds after which a queue that is still without a beginning will have none: making one takes a fraction of it."""

_suspects: dict[tuple[Api, str, str], float] = {}
"""Broker, virtual host and queue that was seen without a beginning, and when."""


def usable(api: Api, vhost: str, clock: Callable[[], float] = time.monotonic) -> list[str]:
    """Nothing in the virtual host of a cluster blocks clients for ever; what was deleted comes out, a sentence each.
    Raises Transient where something has to be looked at again soon.
    """
    columns = {"columns": "name,type,durable,messages"}
    answer = api.call("GET", f"/queues/{quote(vhost, safe='')}", params=columns)
    found: list[dict[str, Any]] = [] if answer is None else answer.json()
    deleted = [
        f"queue {queue['name']} deleted: {why}" for queue in found if (why := _useless(api, vhost, queue, clock()))
    ]
    if waiting := sorted(name for broker, where, name in _suspects if (broker, where) == (api, vhost)):
        raise Transient(f"RabbitMQ: queue {waiting[0]} in {vhost} has no leader yet")
    return deleted


def _useless(api: Api, vhost: str, queue: Mapping[str, Any], now: float) -> str:
    """Why the queue was deleted; empty where it was not."""
    name, found = queue["name"], (api, vhost, queue["name"])
    at = f"/queues/{quote(vhost, safe='')}/{quote(name, safe='')}"
    if queue.get("type") == "classic" and not queue.get("durable", True):
        return _left_behind(api, at)
    # Only a leader counts messages, so one that has them is alive; figures of a young queue come after half a minute.
    if queue.get("type") != "quorum" or "messages" in queue or not _never_began(api, vhost, name):
        _suspects.pop(found, None)
        return ""
    if now - _suspects.setdefault(found, now) < _AGAIN:
        return ""
    api.call("DELETE", at)
    del _suspects[found]
    return "none of its members ever wrote an entry, and none leads"


def _never_began(api: Api, vhost: str, name: str) -> bool:
    """Whether all members are there, none leads and none has a single entry in its log: nothing can be lost with it.

    A quorum queue ends like this when all members are killed while it is made: each knows of it and none starts an
    election (seen with RabbitMQ 4.0.5). One that is only without a majority has members that do not answer so.
    """
    answer = api.call("GET", f"/queues/quorum/{quote(vhost, safe='')}/{quote(name, safe='')}/status")
    members: list[Mapping[str, Any]] = [] if answer is None else answer.json()
    return bool(members) and all(
        (member.get("Raft State"), member.get("Last Log Index"), member.get("Term")) == ("follower", 0, 0)
        for member in members
    )


def _left_behind(api: Api, at: str) -> str:
    """A client's queue for replies from the time when the broker had one member: the same client now wants one that
    is replicated, is refused as long as this one exists, and would wait half an hour for it to expire.
    """
    try:
        api.call("DELETE", at, params={"if-unused": "true"})
    except Refused:
        return ""
    return "it is not replicated and nobody uses it"
