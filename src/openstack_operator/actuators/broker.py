"""Alarms and feature flags of a whole RabbitMQ, for any of its virtual hosts."""

from __future__ import annotations

import re
from typing import NotRequired, TypedDict

import structlog

from ..plan import Transient
from .answers import read
from .http import Api
from .loop import Refused

_log: structlog.stdlib.BoundLogger = structlog.get_logger()


class _Node(TypedDict):
    name: str
    disk_free: NotRequired[int | float | str | None]
    disk_free_limit: NotRequired[int | float | str | None]
    disk_free_alarm: NotRequired[bool]
    mem_alarm: NotRequired[bool]


class _Flag(TypedDict):
    name: str
    state: str
    stability: str


def _mebibytes(size: object) -> str:
    """Return a size in MiB; `?` for the words that RabbitMQ has for what it cannot measure."""
    return str(size >> 20) if isinstance(size, int) and size.bit_length() < 64 else "?"


def flows(api: Api, broker: str) -> None:
    """Raise Transient where no client can publish to `broker`, the name of its resource: with a single member short of
    disk or memory, RabbitMQ lets the publishers of all members wait (https://www.rabbitmq.com/docs/alarms).
    """
    answer = api.call("GET", "/nodes", params={"columns": "name,disk_free,disk_free_limit,disk_free_alarm,mem_alarm"})
    alarms: list[str] = []
    for node in () if answer is None else read(api.name, answer, list[_Node]):
        member = _member(node["name"], broker)
        if node.get("disk_free_alarm"):
            free, least = _mebibytes(node.get("disk_free")), _mebibytes(node.get("disk_free_limit"))
            less = f"{free} MiB of its volume are free, less than the limit of {least}"
            alarms.append(f"{member}: {less}; enlarge spec.storageSize of RabbitMQ/{broker}, or empty queues")
        if node.get("mem_alarm"):
            raised = f"raise vm_memory_high_watermark.absolute in spec.config of RabbitMQ/{broker}"
            alarms.append(f"{member}: its memory limit is reached; {raised}, or empty queues")
    if alarms:
        raise Transient(f"RabbitMQ: all publishers wait for {'; '.join(alarms)}")


def flags(api: Api) -> list[str]:
    """Enable the stable feature flags that an upgrade brought, and return a sentence about them: the next upgrade but
    one refuses to start without them (https://www.rabbitmq.com/docs/feature-flags). There is no way back to an older
    RabbitMQ then.
    """
    answer = api.call("GET", "/feature-flags")
    feature_flags = () if answer is None else read(api.name, answer, list[_Flag])
    disabled = [flag["name"] for flag in feature_flags if (flag["state"], flag["stability"]) == ("disabled", "stable")]
    enabled = [name for name in disabled if _enabled(api, name)]
    if enabled:
        _log.debug("feature flags enabled", flags=enabled)
    return [f"feature flags enabled: {len(enabled)}"] if enabled else []


def _member(node: str, broker: str) -> str:
    """Name of the pod that a node is called after; what is not called like one of them is not quoted."""
    pod = node.partition("@")[2].partition(".")[0]
    return pod if re.fullmatch(rf"{re.escape(broker)}(-server)?-[0-9]{{1,3}}", pod, re.ASCII) else "a member"


def _enabled(api: Api, flag: str) -> bool:
    """Return True if the flag could be enabled: members that are down or still of the old version keep it off until
    later.
    """
    try:
        api.call("PUT", "/feature-flags/{}/enable", ids=(flag,), json={"name": flag})
    except (Transient, Refused):
        return False
    return True
