"""Deletion of queues of a virtual host that no client could use again, found over the management API: clients create
them again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from threading import Lock
from typing import Any, NotRequired, TypedDict

import structlog

from ..plan import Transient
from ..plan.url_path import segment
from .answers import read
from .http import IDLE, Api
from .loop import Refused

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_CREATION_TIME = 3.0
"""Seconds after which a queue that is still without a beginning will have none: making one takes a fraction of it."""


class _Queue(TypedDict):
    name: str
    type: NotRequired[str]
    durable: NotRequired[bool]
    messages: NotRequired[Any]


class Suspects:
    """Queues that were seen without a beginning, by broker and virtual host; threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_vhost: dict[tuple[str, str], tuple[float, dict[str, float]]] = {}
        """Time of the last look, and time at which each queue was first seen."""

    def __len__(self) -> int:
        """Return the number of virtual hosts with suspects."""
        return len(self._by_vhost)

    def update(self, broker: str, vhost: str, names: Collection[str], now: float) -> Mapping[str, float]:
        """Return the times at which these were first seen, by name. Other queues of that virtual host are forgotten,
        and so are those of virtual hosts that are not looked at any more: no event tells that one was removed with its
        broker.
        """
        with self._lock:
            looks = self._by_vhost.items()
            self._by_vhost = {key: entry for key, entry in looks if now - entry[0] <= IDLE}
            _, before = self._by_vhost.pop((broker, vhost), (now, {}))
            since = {name: before.get(name, now) for name in names}
            if since:
                self._by_vhost[broker, vhost] = now, dict(since)
        return since

    def forget(self, broker: str, vhost: str, name: str) -> None:
        """Forget a queue that was deleted: one of that name that is seen later is a new one."""
        with self._lock:
            _, since = self._by_vhost.get((broker, vhost), (0.0, {}))
            since.pop(name, None)
            if not since:
                self._by_vhost.pop((broker, vhost), None)

    def forget_vhost(self, broker: str, vhost: str) -> None:
        """Forget a virtual host that is new, or not looked at any more."""
        with self._lock:
            self._by_vhost.pop((broker, vhost), None)


_suspects = Suspects()


def forget(api: Api, vhost: str) -> None:
    """Forget the suspects of the virtual host: queues that appear there later are new ones."""
    _suspects.forget_vhost(api.url, vhost)


def usable(api: Api, vhost: str, clock: Callable[[], float] = time.monotonic) -> list[str]:
    """Delete what blocks clients in the virtual host of a cluster without end; return a sentence for each deletion.
    Raises Transient where another look is needed soon.
    """
    columns = {"columns": "name,type,durable,messages"}
    answer = api.call("GET", f"/queues/{segment(vhost)}", params=columns)
    queues = [] if answer is None else read(api.name, answer, list[_Queue])
    orphans = [(queue["name"], why) for queue in queues if (why := _left_behind(api, vhost, queue))]
    deleted = [f"queue of {vhost} deleted: {why}" for _, why in orphans]
    now, names = clock(), [queue["name"] for queue in queues if _is_suspect(api, vhost, queue)]
    since = _suspects.update(api.url, vhost, names, now)
    waiting = sorted(name for name, first_seen in since.items() if now - first_seen < _CREATION_TIME)
    for name in since.keys() - waiting:
        api.call("DELETE", _path(vhost), ids=(name,))
        _log.debug("queue deleted", vhost=vhost, queue=name)
        _suspects.forget(api.url, vhost, name)
        deleted.append(f"queue of {vhost} deleted: no member has an entry or leads")
    if waiting:
        raise Transient(f"RabbitMQ: a queue in {vhost} has no leader yet")
    return deleted


def _path(vhost: str) -> str:
    """Return the path of a queue, without its name, which the broker said."""
    return f"/queues/{segment(vhost)}/{{}}"


def _is_suspect(api: Api, vhost: str, queue: _Queue) -> bool:
    # Only a leader counts messages, so one that has them is alive; figures of a young queue come after half a minute.
    return queue.get("type") == "quorum" and "messages" not in queue and _never_began(api, vhost, queue["name"])


def _never_began(api: Api, vhost: str, name: str) -> bool:
    """Return True if all members run, none leads and none has a single entry in its log: no message can be lost with
    it.

    A quorum queue ends like this when all members are killed during its creation: each knows of it and none starts an
    election (seen with RabbitMQ 4.0.5). One that is only without a majority has members that do not answer so.
    """
    answer = api.call("GET", f"/queues/quorum/{segment(vhost)}/{{}}/status", ids=(name,))
    members = [] if answer is None else read(api.name, answer, list[dict[str, Any]])
    return bool(members) and all(
        (member.get("Raft State"), member.get("Last Log Index"), member.get("Term")) == ("follower", 0, 0)
        for member in members
    )


def _left_behind(api: Api, vhost: str, queue: _Queue) -> str:
    """Return why the queue was deleted; empty if it was not. Deleted is a client's queue for replies from the time when
    the broker had one member. The same client now wants one that is replicated, is refused as long as this one exists,
    and would wait half an hour for it to expire.
    """
    if queue.get("type") != "classic" or queue.get("durable", True):
        return ""
    try:
        api.call("DELETE", _path(vhost), ids=(queue["name"],), params={"if-unused": "true"})
    except Refused:
        return ""
    _log.debug("queue deleted", vhost=vhost, queue=queue["name"])
    return "not replicated, and without consumers"
