"""What concerns a whole RabbitMQ, whichever virtual host is looked at."""

from __future__ import annotations

from ..plan import Transient
from .http import Api
from .loop import Refused


def flows(api: Api, broker: str) -> None:
    """Raises Transient where nobody can publish to `broker`, as its resource is called: with a single member short of
    disk or memory, RabbitMQ lets the publishers of all members wait (https://www.rabbitmq.com/docs/alarms).
    """
    answer = api.call("GET", "/nodes", params={"columns": "name,disk_free,disk_free_limit,disk_free_alarm,mem_alarm"})
    found: list[str] = []
    for node in () if answer is None else answer.json():
        member = node["name"].partition("@")[2].partition(".")[0]
        if node.get("disk_free_alarm"):
            less = f"{node['disk_free'] >> 20} MiB of its volume are free, less than {node['disk_free_limit'] >> 20}"
            found.append(f"{member}: {less}; enlarge spec.storageSize of RabbitMQ/{broker}, or empty queues")
        if node.get("mem_alarm"):
            raised = f"raise vm_memory_high_watermark.absolute in spec.config of RabbitMQ/{broker}"
            found.append(f"{member}: its memory is used up; {raised}, or empty queues")
    if found:
        raise Transient(f"RabbitMQ: all publishers wait for {'; '.join(found)}")


def flags(api: Api) -> list[str]:
    """Stable feature flags that an upgrade brought are enabled, a sentence each: the next upgrade but one refuses to
    start without them (https://www.rabbitmq.com/docs/feature-flags). There is no way back to an older RabbitMQ then.
    """
    answer = api.call("GET", "/feature-flags")
    known = () if answer is None else answer.json()
    return [
        f"feature flag {flag['name']} enabled"
        for flag in known
        if (flag["state"], flag["stability"]) == ("disabled", "stable") and _enabled(api, flag["name"])
    ]


def _enabled(api: Api, flag: str) -> bool:
    """Whether it could be: members that do not run, or not the new version yet, keep it off until another look."""
    try:
        api.call("PUT", f"/feature-flags/{flag}/enable", json={"name": flag})
    except (Transient, Refused):
        return False
    return True
