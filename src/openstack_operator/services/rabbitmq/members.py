"""Members of a broker as Kubernetes sees them: their status, and what a user may order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ... import kube, parts
from ...parts.members import ordered_member
from ...plan import Context, Object, Step, Verdict, recovering
from .model import RabbitMQSpec

_FIRST_START = timedelta(minutes=3)

FORCE = "openstack.k8s.io/force-boot"
"""Annotation of a RabbitMQ: the member that has to begin with what it has, without waiting for the others."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Orders(Step):
    """Secret `<owner>-orders`, which a member reads whenever it starts; nothing is applied without an order."""

    secret: str
    member: str
    """The member that the present order is for; empty without one."""

    def env(self, key: str) -> dict[str, Any]:
        """Return a `valueFrom` structure: read at every start of the container, and the template stays the same."""
        return {"secretKeyRef": {"name": self.secret, "key": key, "optional": True}}


def orders(ctx: Context[RabbitMQSpec], cluster: parts.Cluster) -> Orders:
    """Return the order as it should stand. The operator takes one while no member serves clients, and adds a token, so
    that a member carries it out once. Raises SpecError as `ordered_member`.
    """
    secret = ctx.name("orders")
    member = ordered_member(ctx, FORCE, cluster.pod_names(ctx.spec.replicas))
    stored = cluster.ctx.secret("orders")
    order = stored if member and stored.get("member") == member else {}
    if member and not order and not any(_is_ready(pod) for pod in ctx.pods):
        order = {"member": member, "token": ctx.draw()}
    return Orders(
        name="Orders",
        objects=(kube.secret(ctx, secret, order),) if order else (),
        guarded=True,
        secret=secret,
        member=order.get("member", ""),
    )


def member_status(names: Sequence[str], pods: Sequence[Object]) -> list[dict[str, str]]:
    """Return each member with its state: Serving, Waiting, Down, Absent."""
    by_name = {pod["metadata"]["name"]: pod for pod in pods}
    states = {name: _state(by_name.get(name)) for name in names}
    missing = [name for name, (state, _) in states.items() if state in {"Down", "Absent"}]
    serving = any(state == "Serving" for state, _ in states.values())
    # Without those that ran last it does not know whether they were further ahead.
    waiting = f"waits for {', '.join(missing)}" if missing and not serving else "starts, or cannot reach the others"
    return [
        {"name": name, "state": state, "message": waiting if state == "Waiting" else message}
        for name, (state, message) in states.items()
    ]


def verdict(cluster: parts.Cluster, members: Sequence[dict[str, str]], ordered_member: str) -> Verdict | None:
    """Return which members are not serving; None if all are, or while Kubernetes makes or rolls members."""
    absent = [member for member in members if member["state"] != "Serving"]
    live, ctx = cluster.live, cluster.ctx
    if not absent or not ctx.pods or live is None or _is_rolling_out(live, ctx.now):
        return None
    text = "; ".join(
        f"{m['name']} {m['state'].lower()}" + (f": {m['message']}" if m["message"] else "") for m in absent
    )
    if ordered_member:
        text += f"; {ordered_member} starts alone, as ordered: queued messages may be lost"
    return recovering(text)


def _is_rolling_out(live: Object, now: datetime) -> bool:
    """Return True while members start for the first time or are replaced one by one: that is no recovery."""
    created = kube.valid_time(live["metadata"].get("creationTimestamp"))
    is_new = created is None or timedelta(0) <= now - created < _FIRST_START
    return is_new or not kube.Rollout(live).has_one_revision


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _state(pod: Object | None) -> tuple[str, str]:
    if pod is None:
        return "Absent", "it has no pod"
    if pod["metadata"].get("deletionTimestamp"):
        return "Down", "its pod is being deleted"
    if _is_ready(pod):
        return "Serving", ""
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    state = containers[0].get("state", {}) if containers else {}
    if "running" in state:
        return "Waiting", ""
    reason = state.get("waiting", state.get("terminated", {})).get("reason", "")
    return "Down", reason or "its pod has no node yet, or its container is not started"
