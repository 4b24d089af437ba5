"""Members of a broker as Kubernetes sees them: what is told of them, and what a human may order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ... import kube
from ...plan import Context, Object, SpecError, Step, Verdict, recovering
from .model import RabbitMQSpec

_FIRST_START = timedelta(minutes=3)

FORCE = "openstack.k8s.io/force-boot"
"""Annotation of a RabbitMQ: the member that is to begin with what it has, without waiting for the others."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Orders(Step):
    """Secret `<owner>-orders`, which a member reads whenever it starts; nothing is applied without an order."""

    secret: str
    member: str
    """Whom the present order is for; empty without one."""

    def env(self, key: str) -> dict[str, Any]:
        """A `valueFrom` structure: read at every start of the container, and the template stays as it is."""
        return {"secretKeyRef": {"name": self.secret, "key": key, "optional": True}}


def orders(ctx: Context[RabbitMQSpec], names: Sequence[str]) -> Orders:
    """The order as it should stand. It is taken while no member serves clients, and bears a token, so that a member
    carries it out once. Raises SpecError where the annotation names no member.
    """
    secret = kube.fitting(ctx.name("orders"))
    wanted = ctx.annotations.get(FORCE, "")
    if wanted and wanted not in names:
        raise SpecError(f"metadata.annotations.{FORCE}", f"there is no member {wanted!r}; {', '.join(names)} are")
    held = kube.secret_data(ctx.children.get(("Secret", secret)))
    taken = held if wanted and held.get("member") == wanted else {}
    if wanted and not taken and not any(_ready(pod) for pod in ctx.pods):
        taken = {"member": wanted, "token": ctx.draw()}
    return Orders(
        name="Orders",
        objects=(kube.secret(ctx, secret, taken),) if taken else (),
        guarded=True,
        secret=secret,
        member=taken.get("member", ""),
    )


def told(names: Sequence[str], pods: Sequence[Object]) -> list[dict[str, str]]:
    """Each member with its state: Serving, Waiting, Down, Absent."""
    found = {pod["metadata"]["name"]: pod for pod in pods}
    states = {name: _state(found.get(name)) for name in names}
    away = [name for name, (state, _) in states.items() if state in {"Down", "Absent"}]
    serving = any(state == "Serving" for state, _ in states.values())
    # Without those that ran last it does not know whether they were further ahead.
    waits = f"waits for {', '.join(away)}" if away and not serving else "starts, or cannot reach the others"
    return [
        {"name": name, "state": state, "message": waits if state == "Waiting" else message}
        for name, (state, message) in states.items()
    ]


def verdict(ctx: Context[RabbitMQSpec], members: Sequence[dict[str, str]], ordered: str) -> Verdict | None:
    """What is being waited for; None where nobody's part is missing, or while members are made or rolled."""
    absent = [member for member in members if member["state"] != "Serving"]
    live = ctx.children.get(("StatefulSet", kube.fitting(ctx.name("server"), kube.STATEFUL_SET_LIMIT)))
    if not absent or not ctx.pods or live is None or _moving(live, ctx.now):
        return None
    text = "; ".join(
        f"{m['name']} {m['state'].lower()}" + (f": {m['message']}" if m["message"] else "") for m in absent
    )
    if ordered:
        text += f"; {ordered} is to begin alone when it starts, as ordered: messages under way may be lost"
    return recovering(text)


def _moving(live: Object, now: datetime) -> bool:
    """Whether members are started for the first time or replaced one by one: that is no recovery."""
    status, created = live.get("status") or {}, live["metadata"].get("creationTimestamp")
    young = created is None or now - datetime.fromisoformat(created) < _FIRST_START
    return young or status.get("currentRevision") != status.get("updateRevision")


def _ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _state(pod: Object | None) -> tuple[str, str]:
    if pod is None:
        return "Absent", "it has no pod"
    if pod["metadata"].get("deletionTimestamp"):
        return "Down", "its pod is being deleted"
    if _ready(pod):
        return "Serving", ""
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    state = containers[0].get("state", {}) if containers else {}
    if "running" in state:
        return "Waiting", ""
    reason = state.get("waiting", state.get("terminated", {})).get("reason", "")
    return "Down", reason or "its pod has no node yet, or its container is not started"
